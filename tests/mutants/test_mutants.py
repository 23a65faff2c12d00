"""Every mutant can be planted and reverted, and its finder exists; `make mutants` looks for all of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter

import pytest

from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from tests.mutants.finders import ByTest
from tests.mutants.planting import ROOT, Mutant, MutantError, environment, planted
from tests.mutants.table import AREAS, MUTANTS

LEAST = {
    "coordinator": 10,
    "task": 8,
    "channel": 6,
    "restore": 6,
    "state": 4,
    "metadata": 4,
    "lab host": 3,
    "Spark host": 3,
    "regions": 3,
    "several": 10,
    "surroundings": 25,
}
LOOKED_FOR = ["last-ack-not-awaited", "stale-epoch-accepted"]


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_each_mutant_can_be_planted_and_is_another_code(mutant: Mutant) -> None:
    before = mutant.function().__code__
    with planted(mutant):
        assert mutant.function().__code__ != before
    assert mutant.function().__code__ is before


def test_there_are_enough_in_each_area_and_no_name_twice() -> None:
    found = Counter(mutant.area for mutant in MUTANTS.values())
    assert sum(map(len, AREAS.values())) == len(MUTANTS)
    assert not {area: found[area] for area, least in LEAST.items() if found[area] < least}


def test_each_test_that_is_to_find_one_is_there() -> None:
    missing = []
    for mutant in MUTANTS.values():
        if isinstance(mutant.found_by, ByTest):
            path, _, name = mutant.found_by.node.partition("::")
            tree = ast.parse((ROOT / "tests" / path).read_text())
            if name and name.partition("[")[0] not in {each.name for each in tree.body if hasattr(each, "name")}:
                missing.append(mutant.found_by.node)
    assert not missing


def test_a_mutant_of_code_that_reads_otherwise_is_refused() -> None:
    sound = MUTANTS["oldest-restored"]
    with pytest.raises(MutantError, match=r"has 0 times 'no_such_code\(\)', not once"):
        Mutant(**{**vars(sound), "old": "no_such_code()"}).code()
    with pytest.raises(
        MutantError,
        match=r"there is no kit\.machines\.coordinator\.completed\.completed_checkpoint_store:"
        r"CompletedCheckpointStore\.newest",
    ):
        Mutant(
            **{
                **vars(sound),
                "where": "kit.machines.coordinator.completed.completed_checkpoint_store:"
                "CompletedCheckpointStore.newest",
            }
        ).code()


def test_a_planted_mutant_changes_what_the_kit_does_until_it_is_taken_back() -> None:
    store = CompletedCheckpointStore()
    store.checkpoints = ["older", "newer"]
    with planted(MUTANTS["oldest-restored"]):
        assert store.latest == "older"
    assert store.latest == "newer"


def test_another_process_has_the_mutant_that_its_environment_names() -> None:
    script = (
        "from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore as Store\n"
        "store = Store()\nstore.checkpoints = ['older', 'newer']\nprint(store.latest)"
    )
    for mutant, latest in ((MUTANTS["oldest-restored"], "older"), (None, "newer")):
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment(mutant), capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [latest]


@pytest.mark.parametrize("name", LOOKED_FOR)
def test_a_mutant_is_found(name: str) -> None:
    found = MUTANTS[name].found_by.look(environment(MUTANTS[name]))
    assert found.found, found
