"""The hunt plants faults of its kinds, looks for each once, and reports what was found."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

from tests.mutants.hunt import drawn, hunt, look, nearest_tests, places
from tests.mutants.kinds import KINDS

LINEAGE = "kit/core/protocol/lineage.py"
LESS_OUTPUT = "max([checkpoint_id, *(each.checkpoint_id for each in same)])"


def faults(source: str) -> set[str]:
    """Return what the changed expressions and statements of a function become."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    nodes = (node for body in function.body for node in ast.walk(body))
    return {ast.unparse(changed) for node in nodes for kind in KINDS for changed in kind(node, function)}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return rows[0]", {"rows[-1]"}),
        ("return rows[:-1]", {"rows[1:]"}),
        (
            "return next((row for row in rows), None)",
            {"[None, *(row for row in rows)][-1]", "[*rows][:1]", "[*rows][-1:]"},
        ),
        ("return next(rows)", set()),
        ("for row in itertools.count():\n        pass", set()),
        ("return any(rows)", {"all(rows)"}),
        ("return max(rows, key=len)", {"min(rows, key=len)"}),
        ("return sum(rows)", {"max(rows, default=0)"}),
        ("return rows and other", {"rows or other"}),
        ("return rows is not None and rows", set()),
        ("return span(start, end)", {"span(end, start)", "end", "start"}),
        ("return rows * 1_000", {"1000000", "1"}),
        ("return sorted(rows)", {"list(rows)", "sorted(rows, reverse=True)"}),
        ("return {**rows, **other}", {"{**other, **rows}"}),
        ("return [len(row) for row in rows]", {"[*rows][:1]", "[*rows][-1:]"}),
        ("self.rows.pop(0)", {"pass"}),
        ("del rows[other]", {"pass"}),
        ("self.rows = None", {"pass"}),
        ("self.rows += 1", {"self.rows = 1"}),
        ("if rows:\n        raise ValueError(rows)", {"pass"}),
    ],
)
def test_what_an_expression_or_a_statement_may_become(statement: str, expected: set[str]) -> None:
    assert faults(f"def f(self, rows, other, start, end):\n    {statement}") == expected


def test_every_fault_of_a_file_can_be_planted_and_names_its_line() -> None:
    lines = Path(LINEAGE).read_text("utf-8").splitlines()
    found = places(LINEAGE)
    place = next(each for each in found if each.old == LESS_OUTPUT)
    assert "max(" in lines[place.line - 1]
    assert str(place).splitlines()[1:] == [f"    - {LESS_OUTPUT}", f"    + {LESS_OUTPUT.replace('max', 'min')}"]


def test_a_fault_leaves_a_mark_where_it_is_reached(tmp_path: Path) -> None:
    for path in (LINEAGE, "kit/files/output_files.py"):
        for place in places(path):
            assert place.fault(tmp_path / "reached").code() != place.fault().code()


def test_a_seed_draws_the_same_faults_again_and_none_twice() -> None:
    once, again = ([*islice(drawn(["kit/core/protocol/"], 3), 12)] for _ in range(2))
    assert once == again
    assert len(set(once)) == 12
    assert once != [*islice(drawn(["kit/core/protocol/"], 4), 12)]


def test_the_namesake_of_a_file_is_its_nearest_test() -> None:
    assert "tests/core/protocol/test_lineage.py" in nearest_tests(LINEAGE)[0]
    everything = [test for group in nearest_tests(LINEAGE) for test in group]
    assert len(everything) == len(set(everything))


def test_a_fault_that_a_test_finds_is_killed_by_it() -> None:
    place = next(each for each in places(LINEAGE) if each.old == LESS_OUTPUT)
    verdict, by = look(place, 120)
    assert verdict == "killed"
    assert by.startswith("tests/core/protocol/test_lineage.py::")


def test_a_hunt_that_was_interrupted_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "hunt" / "results.jsonl"
    results.parent.mkdir()
    found = [*islice(drawn([LINEAGE], 5), 2)]
    verdicts = [{"verdict": "killed", "by": "test_a"}, {"verdict": "survived", "by": ""}]
    known = [{"place": asdict(place), **verdict} for place, verdict in zip(found, verdicts, strict=True)]
    results.write_text("".join(json.dumps(each) + "\n" for each in known))
    before = results.read_text()
    assert hunt([LINEAGE], 5, 2, 0, results) == 1
    assert results.read_text() == before
    told = capsys.readouterr().out
    assert told.splitlines()[0].endswith(" test_a")
    assert str(found[1]) in told
    assert told.splitlines()[-1] == "1 killed, 1 survived"
    assert hunt([LINEAGE], 5, 3, 0, results) == 2
    assert len(results.read_text().splitlines()) == 3
