"""A lab that repeats a recorded run, and may diverge from it at any moment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, NoRestart, StreamEnvironment, sum_
from kit.core.trace.shape import EpochShape
from kit.core.trace.trace import Trace
from kit.hosts.lab import ready_job
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import FailNextRead, KillDriver, NeverAnswer

ROWS = [{"key": number % 5, "value": number} for number in range(60)]


def a_job(*, unaligned: bool = False, fails_at: int = -1) -> StreamEnvironment:
    def checked(row: dict[str, int]) -> dict[str, int]:
        if row["value"] == fails_at:
            raise ValueError(f"no value {fails_at}")
        return row

    env = StreamEnvironment(
        "sums",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=20, unaligned=unaligned),
        restart=NoRestart() if fails_at >= 0 else None,
    )
    rows = env.from_source(CollectionSource(ROWS, splits=4, batch_rows=3), uid="rows").map(checked).uid("checked")
    sums = rows.key_by("key").aggregate(total=sum_("value"), emit="final").uid("sums")
    sums.sink_to(CollectSink("out"), uid="out")
    return env


def killed(*, unaligned: bool = False, seed: int = 0) -> Lab:
    """A lab in which a worker died after the first checkpoint, at its end."""
    lab = Lab(a_job(unaligned=unaligned), seed=seed)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run()
    return lab


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_lab_does_again_what_another_did(tmp_path: Path, unaligned: bool, seed: int) -> None:
    lab = killed(unaligned=unaligned, seed=seed)
    again = Lab.follow(a_job(unaligned=unaligned), lab.trace.save_recording(tmp_path / "run.recording"))
    assert [record.to_dict() for record in again.trace] == [record.to_dict() for record in lab.trace]
    assert again.past.agreement is not None
    assert again.past.agreement.records == len(lab.trace)
    assert again.past.agreement.unheard == {}
    assert again.output().equals(lab.output())


def test_a_run_that_fails_fails_again() -> None:
    lab = Lab(a_job(fails_at=20))
    with pytest.raises(LabError):
        lab.run()
    again = Lab.follow(a_job(fails_at=20), lab.trace)
    assert (again.status, again.error) == ("FAILED", lab.error)
    assert "no value 20" in again.error


@pytest.mark.parametrize("failover", ["region", "full"])
@pytest.mark.parametrize("own", ["region", "full"])
def test_a_run_is_repeated_with_the_failover_that_it_had(tmp_path: Path, failover: str, own: str) -> None:
    lab = Lab(ready_job("two-pipelines", failover=failover, restart=3))
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run()
    assert lab.look.master.epoch == (1 if failover == "region" else 2)
    path = lab.trace.save_recording(tmp_path / "run.recording")
    again = Lab.follow(ready_job("two-pipelines", failover=own, restart=3), path)
    assert [record.to_dict() for record in again.trace] == [record.to_dict() for record in lab.trace]


def test_a_recording_that_does_not_say_its_failover_had_the_full_one() -> None:
    lab = Lab(ready_job("two-pipelines"))
    lab.run_until(record="AllTasksRunning")
    shape = lab.trace.stages[0].to_dict()
    assert EpochShape.from_dict(shape).failover == "region"
    del shape["failover"]
    assert EpochShape.from_dict(shape).failover == "region", "it says that regions restarted"
    del shape["restarts_regions"]
    assert EpochShape.from_dict(shape).failover == "full"


def test_what_was_recorded_can_be_gone_through_step_by_step() -> None:
    lab = killed()
    again = Lab.follow(a_job(), lab.trace)
    end = again.position
    again.goto(end // 2)
    assert again.trace[-1].to_dict() == lab.trace[len(again.trace) - 1].to_dict()
    assert str(again.past.actions[-1]).startswith("as recorded, ")
    again.goto(end)
    assert len(again.trace) == len(lab.trace)


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_from_any_moment_the_run_goes_another_way(unaligned: bool, part: float) -> None:
    lab = killed(unaligned=unaligned)
    again = Lab.follow(a_job(unaligned=unaligned), lab.trace)
    again.goto(int(again.position * part))
    other = again.fork(seed=7)
    other.savepoint()
    other.run()
    other.look.validate()
    assert other.status == "FINISHED"
    assert again.status != "FINISHED"
    order = list(lab.output().columns)
    rows, expected = (each.output().sort_values(order, ignore_index=True) for each in (other, lab))
    assert rows.equals(expected)


def test_after_a_worker_was_lost_it_is_gone_whoever_goes_on() -> None:
    lab = killed()
    again = Lab.follow(a_job(), lab.trace)
    (lost,) = (at for at, action in enumerate(again.past.actions, 1) if "SlotLost" in str(action))
    again.goto(lost)
    again.run()
    assert again.status == "FINISHED"
    killed_tasks = [record for record in again.trace[len(again.trace) // 2 :] if record.id.startswith("rows/1@1#")]
    assert all(record.at_ms <= again.trace.story(kind="SlotLost")[0].at_ms for record in killed_tasks)


@pytest.mark.parametrize("seed", [2, 3, 5, 8])
def test_whatever_was_made_to_fail_fails_again(seed: int) -> None:
    chance = random.Random(seed)
    lab = Lab(a_job(unaligned=bool(seed % 2)), seed=seed)
    befell: list[type[Fault]] = [KillDriver, NeverAnswer, FailNextRead]
    while len(befell) < 6 and not lab.ended:
        for _ in range(12):
            if not lab.ended:
                lab.step()
        of_kind = {type(fault): fault for fault in lab.faults.possible() if type(fault) not in befell}
        befell.append(chance.choice(sorted(of_kind, key=str)))
        lab.step(of_kind[befell[-1]])
    again = Lab.follow(a_job(unaligned=bool(seed % 2)), lab.trace)
    assert [record.to_dict() for record in again.trace] == [record.to_dict() for record in lab.trace]
    assert len(again.trace.story(machine="lab")) >= 2


def test_a_part_of_a_run_is_no_recording() -> None:
    lab = killed()
    with pytest.raises(ValueError, match="is part of a run"):
        lab.trace[10:].told_schedule()


def test_a_recording_that_ends_early_leaves_the_lab_there() -> None:
    lab = killed()
    again = Lab.follow(a_job(), Trace(lab.trace[:200], detailed=True))
    assert len(again.trace) == 200
    again.run()
    assert again.status == "FINISHED"
