"""Copies of state on the machines of the slots: read when they are whole, pruned when superfluous, gone at the end."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.hosts.lab.lab import Lab, LabError
from kit.hosts.lab.world.edge import LOCAL_STATE
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import Shape, environment, settle, state_files, wrong
from tests.hosts.lab.test_exactly_once import DEEDS, LONG, SHAPES
from tests.properties import examples


def copies(lab: Lab) -> list[str]:
    return lab.look.files.paths(LOCAL_STATE)


def ids(lab: Lab) -> set[int]:
    """Return the checkpoints that have local copies."""
    return {int(path.split("/chk-")[1].split("/")[0]) for path in copies(lab)}


def read_from_copies(lab: Lab) -> int:
    return sum(record.data["from_local"] for record in lab.trace if record.kind == "StateRead")


def taken(shape: Shape = LONG, **checkpoint: object) -> Lab:
    """A lab that has just heard that its first checkpoint is complete, and has no other."""
    lab = Lab(environment(shape, **{"interval_ms": None, "local_recovery": True} | checkpoint), seed=1)
    for _ in range(100):
        lab.step()
    request = lab.trigger_checkpoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert not lab.ended
    return lab


def test_a_copy_is_kept_of_every_file_of_state() -> None:
    lab = taken()
    written = {path.rpartition("/")[2]: lab.look.files.contents[path] for path in state_files(lab)}
    kept = {path.rpartition("/")[2].rpartition(".")[0]: lab.look.files.contents[path] for path in copies(lab)}
    assert written
    assert kept == written
    for path in copies(lab):  # each on the machine of its slot
        slot, name = path.removeprefix(f"{LOCAL_STATE}/slot-").split("/", 1)
        assert name.split("/")[1].split("-")[1] == slot


def test_a_machine_that_is_lost_takes_its_copies_along_and_the_others_read_theirs() -> None:
    killed, lost = taken(), taken()
    killed.faults.kill(1)
    lost.faults.lose_machine(1)
    assert copies(killed) != copies(lost) == [path for path in copies(killed) if "/slot-1/" not in path]
    for lab in (killed, lost):
        lab.run()
        settle(lab)
        assert wrong(lab, LONG) == {}
    restored = {record.machine for record in lost.trace if record.kind == "StateRead" and record.data["from_local"]}
    assert restored
    assert not any(task.endswith("/1") for task in restored)
    assert read_from_copies(lost) < read_from_copies(killed)
    again = Lab.follow(lost.job, lost.trace)
    assert again.past.agreement is not None
    assert copies(again) == copies(lost)


def test_the_checkpoint_is_the_same_with_copies_and_without() -> None:
    directories = [
        {path: lab.look.files.contents[path] for path in lab.look.files.paths("/checkpoints")}
        for lab in (taken(), taken(local_recovery=False))
    ]
    assert directories[0] == directories[1]
    assert copies(taken(local_recovery=False)) == []


@pytest.mark.parametrize("what", ["deleted", "changed"])
def test_a_restart_needs_no_file_of_the_checkpoint(what: str) -> None:
    lab = taken()
    for path in state_files(lab):
        if what == "deleted":
            del lab.look.files.contents[path]
        else:
            lab.look.files.contents[path] = b"x" * len(lab.look.files.contents[path])
    kept = len(copies(lab))
    lab.faults.kill(0)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    assert lab.look.master.epoch == 2
    assert read_from_copies(lab) == kept > 0
    assert wrong(lab, LONG) == {}


def test_without_copies_it_would_fail() -> None:
    lab = taken(local_recovery=False)
    for path in state_files(lab):
        del lab.look.files.contents[path]
    lab.faults.kill(0)
    lab.run_until(record="StateReadFailed")


@pytest.mark.parametrize("damage", ["changed", "cut", "longer", "gone"])
def test_a_copy_that_is_not_whole_is_passed_over(damage: str) -> None:
    lab = taken()
    files = lab.look.files.contents
    kept = copies(lab)
    for path in kept[::2]:
        data = files.pop(path)
        if damage != "gone":
            files[path] = {"changed": b"\x00" + data[1:], "cut": data[:-1], "longer": data + b"\x00"}[damage]
    lab.faults.kill(0)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    assert 0 < read_from_copies(lab) < len(kept)
    assert wrong(lab, LONG) == {}


def test_a_completed_checkpoint_prunes_the_copies_of_those_before() -> None:
    lab = taken()
    for expected in (2, 3):
        request = lab.trigger_checkpoint()
        lab.run_until(lambda lab, request=request: lab.look.answer(request) is not None)  # type: ignore[misc]
        assert {expected - 1, expected} >= ids(lab) >= {expected}
    while not lab.ended and ids(lab) != {3}:
        lab.step()
    assert ids(lab) == {3}


def test_an_aborted_checkpoint_takes_its_copies_with_it() -> None:
    lab, choice = taken(timeout_ms=400), random.Random(0).choice
    lab.trigger_checkpoint()
    while not any(record.kind == "CheckpointAborted" for record in lab.trace):
        actions = [action for action in lab.enabled() if "AcknowledgeCheckpoint" not in action.text]
        lab.step(choice(actions))
    assert ids(lab) == {1, 2}
    while not lab.ended and 2 in ids(lab):
        lab.step()
    assert ids(lab) == {1}


def test_a_savepoint_is_not_copied() -> None:
    lab = taken()
    before = copies(lab)
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert set(copies(lab)) <= set(before)


def test_a_lab_that_is_rewound_has_the_copies_it_had() -> None:
    lab = taken()
    before = copies(lab)
    fork = lab.fork()
    lab.run()
    assert copies(lab) == []
    assert copies(fork) == before


@given(SHAPES, DEEDS, st.integers(0, 2**32), st.booleans())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_happens_no_row_is_lost_and_no_copy_left(
    shape: Shape, deeds: list[tuple[str, int]], seed: int, cancelled: bool
) -> None:
    lab = Lab(environment(shape, local_recovery=True), seed=seed)
    for deed, argument in deeds:
        if lab.ended:
            break
        if deed == "steps":
            for _ in range(argument):
                if not lab.ended:
                    lab.step()
        elif deed == "kill":
            with suppress(LabError):  # that worker does not run at present
                lab.faults.kill(argument)
        else:
            lab.trigger_checkpoint()
    if cancelled and not lab.ended:
        lab.cancel()
        settle(lab)
    elif not lab.ended:
        lab.run()
    assert lab.look.master.status.is_terminal
    assert copies(lab) == []
    if lab.look.master.status is JobStatus.FINISHED:
        assert wrong(lab, shape) == {}
