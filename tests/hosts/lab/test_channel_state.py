"""In-flight data in the lab: written by its own step, gone with its checkpoint or its worker, the same again after a
rewind.
"""

from __future__ import annotations

from typing import Any

import pytest

from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import CarryOut
from kit.hosts.lab.world.schedulers import Adversarial
from kit.machines.job.status import JobStatus
from kit.run.captions import caption_of
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig
from tests.hosts.lab.jobs import CHECKPOINTS, Shape, environment, referenced_files, settle, wrong

SHAPE = Shape(rows=90, splits=4, parallelism=2, chaining=False)
FILE = "WriteChannelStateFile"


def a_lab(seed: int = 1, **checkpoint: Any) -> Lab:
    return Lab(environment(SHAPE, unaligned=True, **checkpoint), seed=seed)


def to_be_written(lab: Lab) -> list[CarryOut]:
    return [action for action in lab.enabled() if isinstance(action, CarryOut) and action.command == FILE]


def files(lab: Lab) -> list[str]:
    """Files of in-flight data, by name."""
    return [path for path in lab.look.files.paths(CHECKPOINTS) if path.endswith("channel-state")]


def test_in_flight_data_is_written_by_a_step_of_its_own() -> None:
    lab = a_lab()
    lab.run_until(lambda lab: bool(to_be_written(lab)))
    assert files(lab) == []
    (action, *_) = to_be_written(lab)
    assert action.checkpoint_id is not None
    lab.step(action)
    assert len(files(lab)) == 1
    answered = [record for record in lab.trace.story(kind="ChannelStateWritten") if record.data["bytes_written"]]
    said = {record.id: record.machine for record in answered if record.role == "command"}
    assert set(said.values()) == {action.subject}
    heard = [record for record in answered if record.role == "event"]
    assert {f"slot {record.machine.rpartition('/')[2]}" for record in heard} == {action.subject}
    assert {record.cause for record in heard} == set(said)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_what_is_left_on_disk_is_referred_to(most: int) -> None:
    lab = a_lab(max_subtasks_per_channel_state_file=most, max_retained=9)
    lab.run_until(lambda lab: len(lab.trace.story(kind="CheckpointCompleted")) > 2)
    lab.cancel()
    settle(lab)
    assert lab.look.master.status is JobStatus.CANCELED
    assert len(files(lab)) > 2
    assert set(files(lab)) <= referenced_files(lab)


def test_little_in_flight_data_has_no_file() -> None:
    lab = a_lab(memory_threshold_bytes=1_000_000)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    written = lab.trace.story(kind="ChannelStateWritten")
    assert any(record.data["bytes_written"] for record in written)
    assert files(lab) == []


def test_a_worker_that_dies_takes_along_what_it_was_to_write() -> None:
    lab = a_lab()
    lab.run_until(lambda lab: bool(to_be_written(lab)))
    (action, *_) = to_be_written(lab)
    lab.faults.kill(int(action.subject.removeprefix("slot ")))
    assert all(left.subject != action.subject for left in to_be_written(lab))
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    assert wrong(lab, SHAPE) == {}
    assert files(lab) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_checkpoint_that_ends_early_leaves_nothing(seed: int) -> None:
    lab = a_lab(seed, timeout_ms=45)
    lab.run_until(lambda lab: len(lab.trace.story(kind="CheckpointAborted")) >= 2)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    assert wrong(lab, SHAPE) == {}
    assert files(lab) == []


@pytest.mark.parametrize("aligned_timeout_ms", [0, 5])
def test_a_rewind_goes_the_same_way_again(aligned_timeout_ms: int) -> None:
    lab = a_lab(aligned_timeout_ms=aligned_timeout_ms)
    lab.run()
    way, story, disk = list(lab.past.actions), told(lab), dict(lab.look.files.contents)
    for position in range(40, lab.position, 97):
        lab.goto(position)
        other = lab.fork()
        if other.enabled():
            other.step()
        lab.replay(way[position:])
        assert told(lab) == story
        assert lab.look.files.contents == disk


def told(lab: Lab) -> list[tuple[Any, ...]]:
    return [(record.id, record.cause, record.kind, str(record.data)) for record in lab.trace.story()]


def test_the_slot_s_machine_is_traced_told_in_words_and_leads_back_to_the_task_that_asked() -> None:
    lab = a_lab()
    lab.run_until(lambda lab: any(record.kind == FILE for record in lab.trace))
    (record,) = [each for each in lab.trace if each.kind == FILE]
    assert record.machine.startswith("slot ")
    assert caption_of(record).startswith(f"Slot {record.machine[-1]} has all in-flight data of checkpoint ")
    chain = lab.trace.causes(record)
    assert [each.kind for each in chain[:3]] == [FILE, "SubmitChannelState", "SubmitChannelState"]
    assert [each.role for each in chain[:3]] == ["command", "event", "command"]
    assert "/" in chain[2].machine
    lab.run()
    lab.look.validate()
    requests = [each.id for each in lab.trace.story(kind="SubmitChannelState") if each.role == "command"]
    heard = [each.cause for each in lab.trace.story(kind="SubmitChannelState") if each.role == "event"]
    assert sorted(requests) == sorted(heard)


def test_a_job_without_unaligned_checkpoints_has_no_such_machine() -> None:
    lab = Lab(environment(SHAPE), seed=0)
    lab.run()
    assert {record.machine for record in lab.trace if "/" not in record.machine} == {"job"}


def branching(parallelism: int) -> StreamEnvironment:
    """Two branches of one chain, of which the first goes on over an exchange, the last ends in a sink."""
    checkpoint = CheckpointConfig(directory=CHECKPOINTS, interval_ms=10, unaligned=True, force_unaligned=True)
    env = StreamEnvironment("branching", parallelism=parallelism, max_parallelism=8, checkpoint=checkpoint)
    rows = [{"k": "abc"[n % 3], "n": n} for n in range(60)]
    source = env.from_source(CollectionSource(rows, splits=3, batch_rows=1), uid="rows")
    source.map(dict).uid("same").rebalance().map(dict).uid("later").sink_to(CollectSink("later"), uid="later-out")
    source.sink_to(CollectSink("rows"), uid="rows-out")
    return env


def test_in_flight_data_of_a_chain_that_branches_finds_its_way_after_a_rescale() -> None:
    lab = Lab(branching(2), scheduler=Adversarial("later/1"))
    vertex = lab.job.vertices[0]
    assert [each.name for each in vertex.operators] == ["rows", "same", "rows-out"]

    def in_flight(lab: Lab) -> set[str]:
        latest = lab.look.master.checkpoints.store.latest
        return {
            operator_id
            for operator_id, state in ({} if latest is None else latest.operator_states).items()
            if any(each.result_subpartition_state for each in state.subtask_states.values())
        }

    lab.run_until(lambda lab: bool(in_flight(lab)))
    assert in_flight(lab) == {vertex.operator_ids[0]}
    path = lab.look.master.checkpoints.store.latest.path.removesuffix("/_metadata")
    lab.faults.kill_driver()
    again = Lab(branching(3), after=lab, restore_path=path)
    again.run()
    assert sorted(again.output("later")["n"]) == list(range(60))
