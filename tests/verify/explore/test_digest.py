"""The fields that a digest leaves out: those that their class declares to be without effect, and no others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy

from kit.hosts.lab import Lab, ready_job
from kit.verify.explore.digest import Digester
from tests.house.files import ROOT, tracked


def declared() -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """Each class of the kit that declares fields without effect, with their names."""
    for path in (each for each in tracked() if each.startswith("kit/") and each.endswith(".py")):
        text = (ROOT / path).read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "without_effect" in text else ():
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == "without_effect":
                        assert isinstance(line.value, ast.Call), path
                        yield node, ast.literal_eval(line.value.args[0])


def test_each_field_that_is_left_out_exists() -> None:
    found = dict(declared())
    assert len(found) > 20
    for node, names in found.items():
        own = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        own |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        own |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        assert names <= own, f"{node.name} has no {names - own}"


def test_what_observes_makes_no_other_state_and_what_counts_does() -> None:
    lab = Lab(ready_job("keyed-sum", rows=8, parallelism=2))
    lab.run_until(record="CheckpointCompleted")
    digester = Digester({})

    def digest(**changed: object) -> bytes:
        master = deepcopy(lab.look.master)
        for name, value in changed.items():
            setattr(master, name, value)
        return digester.digest(master)

    assert digest() == digest(at=10**9, cause="another", events_handled=10**6, restored_path="/elsewhere")
    assert digest() != digest(attempts=lab.look.master.attempts.of_next_epoch())
    assert digest() != digest(attempts=lab.look.master.attempts.after_restart(["sums/0"]))
    assert digest() != digest(graph=lab.look.master.graph.with_parallelism({"sums": 3}))
