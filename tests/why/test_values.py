"""Answers to why a value in state is what it is: the turns that changed it, back to the restored value."""

from __future__ import annotations

from typing import Any

import pytest

from kit.hosts.lab import Lab
from kit.why import WhyError
from tests.why.jobs import letters, roots, running, says


def test_each_turn_that_changed_it_with_the_rows_it_took_and_where_they_were_read() -> None:
    lab = running(rows=32)
    lab.run_until(at_ms=150)
    why = lab.why(key="c")
    told = says(why)
    state, _, value = told[0].partition(" is ")
    assert state.startswith("the totals of key 'c' in totals/")
    changes = [each for each in told if " became " in each]
    assert len(changes) >= 2
    rows = [n for n in range(32) if any(f"'n': {n}}}" in each for each in changes)]
    assert all(n % 8 == 2 for n in rows)
    assert f"'total': {sum(rows)}" in value
    assert changes[-1].startswith("nothing became {")
    reads = [fact.record for fact in why.facts if "had read rows-" in fact.says]
    for row, read in zip(sorted(rows, reverse=True), sorted(reads, key=_read_of, reverse=True), strict=True):
        assert read is not None
        assert _read_of(read) == row
    assert told[-2].startswith("there was none when epoch 1 began")
    turns = [fact.record for fact in why.facts if " became " in fact.says]
    assert all(record is not None and record.kind == "ProcessInput" for record in turns)


def test_what_a_restore_brought_is_where_it_begins() -> None:
    lab = running(rows=32)
    lab.run_until(lambda lab: _total(lab, "c") is not None)
    lab.trigger_checkpoint(wait=True)
    lab.faults.kill(0)
    lab.run_until(record="AllTasksRunning")
    restored = _total(lab, "c")
    why = lab.why(key="c", state="totals")
    assert says(why)[0].endswith(f"is {restored}")
    assert says(why)[1] == f"it was {restored} when epoch 2 began"
    assert roots(why)[0].endswith("of checkpoint 1 in epoch 2")
    lab.run_until(lambda lab: _total(lab, "c") != restored)
    told = says(lab.why("totals", key="c"))
    assert told[1].startswith(f"{restored} became {_total(lab, 'c')}: ")
    assert lab.why(key="c").numbered  # the lab itself has not moved


def test_asking_leaves_the_lab_where_it_is() -> None:
    lab = running(rows=32)
    lab.run_until(at_ms=60)
    before = lab.position, len(lab.trace), lab.look.at_ms
    lab.why(key="a")
    assert (lab.position, len(lab.trace), lab.look.at_ms) == before
    other = Lab(letters(rows=32), seed=1)
    other.run_until(record="AllTasksRunning")
    other.run_until(at_ms=60)
    assert lab.past.actions == other.past.actions
    lab.run()
    other.run()
    assert lab.past.actions == other.past.actions


def test_what_holds_no_such_key_is_named() -> None:
    lab = running()
    with pytest.raises(WhyError, match="no keyed state holds key 'a'; states are totals"):
        lab.why(key="a", state="counts")
    with pytest.raises(WhyError, match="no keyed state holds key 5; states are totals"):
        lab.why(key=5)


def test_a_trace_tells_how_much_was_taken_and_from_where() -> None:
    lab = running(rows=32)
    lab.run_until(at_ms=90)
    told = says(lab.trace.why("state of totals/0"))
    taken = {
        each.rpartition(" of ")[2]: int(each.split()[3]) for each in told if each.startswith("totals/0 has taken ")
    }
    received = [
        record
        for record in lab.trace
        if record.kind == "ProcessInput" and record.machine == "totals/0" and record.cause
    ]
    assert sum(taken.values()) <= len(received)
    assert set(taken) <= {"letters/0", "letters/1"}
    assert taken
    assert told[1] == "totals/0 started epoch 1 without state"


def _read_of(record: Any) -> int:
    """The last row that a read gave: the splits are rows 0 to 15 and 16 to 31, read one by one."""
    return int(record.data["split_id"].removeprefix("rows-")) * 16 + int(record.data["position"]) - 1


def _total(lab: Lab, key: str) -> object:
    """The value, as the table of its task holds it."""
    for task in lab._world.tasks.values():
        for link in task.chain.links:
            table = None if link.keyed is None else link.keyed.tables.get("totals")
            if table is not None and len(table):
                values = dict(zip(table.keys(table.entries()).to_pylist(), table.get(table.entries()).to_pylist()))
                if key in values:
                    return values[key]
    return None
