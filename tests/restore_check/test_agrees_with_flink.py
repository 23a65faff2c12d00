"""The check's verdict and what Flink really did, for savepoints that Flink took and restored to changed jobs.

`python -m tests.interop.restoring` wrote the savepoints and the outcomes; `make interop` repeats them with Flink.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.restore_check import Effect, Severity
from tests.interop.restoring import SAVED, disagreements, judged

ROWS = [json.loads(line) for line in (SAVED / "cases.jsonl").read_text().splitlines()]
NAMED = {row["case"]: row for row in ROWS}


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("savepoints")
    with tarfile.open(SAVED / "savepoints.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_there_are_cases_of_both_outcomes() -> None:
    outcomes = [row["restored"] for row in ROWS]
    assert min(outcomes.count(True), outcomes.count(False)) >= 30


@pytest.mark.parametrize("row", ROWS, ids=[row["case"] for row in ROWS])
def test_the_verdict_is_what_flink_did(row: dict[str, Any], savepoints: Path) -> None:
    assert list(disagreements(savepoints, [row])) == []


def test_what_fails_is_told_in_flinks_words(savepoints: Path) -> None:
    for row in ROWS:
        if row["restored"] or row["is_open"]:
            continue
        answer = judged(savepoints, row)
        said = [each.flink for each in answer.findings if each.severity is Severity.FAILS]
        assert all(said), row["case"]


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("POJO field added", "field name (String) was added"),
        ("POJO field removed", "field name (String) was removed"),
        ("POJO nested field added", "item: field of (String) was added"),
        ("POJO nested field of another type", "item.n: Integer became String"),
        ("POJO inside a tuple", "f1: field n (Integer) was added"),
        ("POJO class renamed", "class Order became Bill"),
        ("enum constant removed", "c: enum Color no longer has BLUE"),
        ("TTL switched on", "TTL was switched on"),
        ("key long to int", "The key was Long; in the newer job it is Integer."),
        ("value to list", "State 's' was VALUE; in the newer job it is LIST."),
        ("split list to union list", "State 'x' was SPLIT_DISTRIBUTE; in the newer job it is UNION."),
        ("broadcast of another type", "Long became String"),
        ("max parallelism left to Flink", "It keeps the 64 key groups of the checkpoint."),
        ("Kryo the same", "values of Thing, whose fields no snapshot lists"),
    ],
)
def test_it_names_what_changed(case: str, found: str, savepoints: Path) -> None:
    assert found in str(judged(savepoints, NAMED[case]))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("POJO field removed", "was removed"),
        ("state renamed", "State 's' is not in the newer checkpoint"),
        ("keyed operator becomes a map", "the operator has no keyed state there"),
        ("uid renamed, allowed", "state are dropped"),
    ],
)
def test_what_a_successful_restore_loses_is_told(case: str, said: str, savepoints: Path) -> None:
    answer = judged(savepoints, NAMED[case])
    assert answer.restores
    assert NAMED[case]["restored"], "Flink restores it, too"
    assert [each for each in answer.findings if each.effect is Effect.LOST and said in each.found]
    assert "is lost" in answer.verdict


def test_uids_suffice_for_what_the_assignment_decides(savepoints: Path) -> None:
    before = kit.open_checkpoint(savepoints / NAMED["max parallelism down"]["before"])
    assert before.check({"numbers": 2, "a": 2, "counted": 2, "end": 2}).restores
    assert not before.check({"numbers": 2, "a": (2, 32)}).restores
    assert not before.check({"numbers": 2, "b": 2}).restores
    assert not before.check({"numbers": 2, "a": 65}).restores
