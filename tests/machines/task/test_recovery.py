"""Recovery of in-flight data in one task: first what was recovered, then what is sent, and no checkpoint between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol.commands import ReadState, ScheduleTimer
from kit.core.protocol.elements import (
    Buffer,
    CheckpointBarrier,
    Element,
    EndOfChannelState,
    SubtaskConnectionDescriptor,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.events import ProcessInput, StateReadFailed, TimerFired
from kit.core.protocol.messages import CancelTask, DeployTask, InitializationMetrics, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.rescale_mappings import (
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.restored_state import RestoredSubtaskState
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext, ProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction, ProcessFunction
from kit.stream.operators.side_output import OutputTag
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import SCHEMA, buffer
from tests.machines.task.slot_harness import ALONE, SlotHarness, unaligned_job

NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
SAME_PLACES = InflightDataRescalingDescriptor(
    (GateOrPartitionRescalingDescriptor((0,), RescaleMappings.identity(2, 2), frozenset(), MappingType.RESCALING),)
)
"""A rescaling in which each channel took over the one of its number."""


def row(key: str) -> Buffer:
    return buffer([{"k": key, "n": 1}])


@pytest.fixture
def checkpoint(tmp_path: Path) -> TaskStateSnapshot:
    """A checkpoint with a sum of "out", which is in the output, and two buffers in input 0 and one in input 1."""
    task = SlotHarness(unaligned_job(), tmp_path, credits=False)
    task.receive(0, row("out"))
    for channel, key in ((0, "first"), (0, "second"), (1, "third")):
        task.receive(channel, row(key), run=False)
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    return ack.state


def restored(
    tmp_path: Path,
    checkpoint: TaskStateSnapshot,
    *,
    job: StreamEnvironment | None = None,
    name: str = "sums/0",
    credits: int = 10,
    read_ms: int = 0,
    **descriptors: Any,
) -> SlotHarness:
    """A new task that was given the checkpoint's state, which took so long, and has not run yet."""
    task = SlotHarness(job or unaligned_job(), tmp_path, name, deploy=False)
    states = {
        operator_id: RestoredSubtaskState(
            **{field.name: getattr(state, field.name) for field in fields(OperatorSubtaskState)}, **descriptors
        )
        for operator_id, state in checkpoint.subtask_states.items()
    }
    task.to_task(DeployTask, restore=TaskRestore(1, TaskStateSnapshot(states)), recovers_channels=True)
    task.give_credits(credits)
    task.at += read_ms
    task.carry_out(ReadState)
    return task


def keys(elements: list[Element]) -> list[str]:
    return [key for element in elements if isinstance(element, Buffer) for key in element.batch["k"].to_pylist()]


def end_of_recovery(task: SlotHarness, *channels: int) -> None:
    for channel in channels:
        task.receive(channel, EndOfChannelState())


def test_recovered_output_is_sent_at_once_and_its_end_after_it(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    sent = task.sent()
    assert keys(sent) == ["out"]
    assert [type(element) for element in sent] == [SubtaskConnectionDescriptor, Buffer, EndOfChannelState]


def test_recovered_input_is_processed_before_the_task_runs(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    task.sent()
    task.receive(0, row("live"), run=False)
    assert task.states() == []
    assert task.machine.state is ExecutionState.INITIALIZING
    turns = 0
    while task.machine.state is ExecutionState.INITIALIZING:
        assert task.machine.available
        task.give(ProcessInput())
        turns += 1
    assert task.states() == [ExecutionState.RUNNING]
    assert turns == 6  # each buffer behind its connection
    assert keys(task.sent()) == ["first", "second", "third"]
    assert task.credits_back() == [0, 1]  # those of the deployment: what was recovered took none


@pytest.mark.flink("StreamTaskTest.testSubTaskInitializationMetrics")
def test_a_task_reports_what_its_restore_read_and_how_long_each_part_took(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint, read_ms=30)
    assert task.take(TaskStateChanged) == []
    task.at += 12
    task.run()
    (report,) = task.take(TaskStateChanged)
    assert report.state is ExecutionState.RUNNING
    assert report.initialization == InitializationMetrics(
        deployed_at_ms=1_000,
        duration_ms=42,
        read_state_ms=30,
        gate_restore_ms=12,
        restored_bytes=sum(state.state_size for state in checkpoint.subtask_states.values()),
    )
    task.to_task(CancelTask)
    assert [word.initialization for word in task.take(TaskStateChanged)] == [None, None]


@pytest.mark.flink("StreamTaskTest.testSubTaskInitializationMetrics")
@pytest.mark.parametrize(
    ("end", "state"),
    [
        (StateReadFailed(error="gone"), ExecutionState.FAILED),
        (CancelTask(task="sums/0", attempt=1), ExecutionState.CANCELING),
    ],
)
def test_a_task_that_never_runs_reports_how_long_it_tried(
    tmp_path: Path, end: ProtocolMessage, state: ExecutionState
) -> None:
    task = SlotHarness(unaligned_job(), tmp_path, restore=TaskRestore(1, TaskStateSnapshot({})))
    task.at += 7
    task.give(end)
    report = task.take(TaskStateChanged)[0]
    assert report.state is state
    assert report.initialization == InitializationMetrics(deployed_at_ms=1_000, duration_ms=7, completed=False)


def test_a_task_with_nothing_to_restore_runs_at_once(tmp_path: Path) -> None:
    (report,) = SlotHarness(unaligned_job(), tmp_path).take(TaskStateChanged)
    assert report.initialization == InitializationMetrics(
        deployed_at_ms=1_000, duration_ms=0, read_state_ms=0, gate_restore_ms=0
    )


def test_recovered_output_without_credits_holds_the_inputs_back(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint, credits=0)
    assert keys(task.sent()) == []
    assert not task.machine.available
    task.give_credits(10)
    task.run()
    assert keys(task.sent()) == ["out", "first", "second", "third"]
    assert task.machine.state is ExecutionState.RUNNING


def test_every_output_is_told_the_end_of_recovery_also_without_anything_recovered(tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(), tmp_path, deploy=False)
    task.to_task(DeployTask, restore=None, recovers_channels=True)
    assert task.sent() == [EndOfChannelState()]
    other = SlotHarness(unaligned_job(), tmp_path)
    assert other.sent() == []


def test_live_data_waits_until_all_senders_have_ended_their_recovery(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint)
    task.run()
    task.sent()
    end_of_recovery(task, 0)
    task.receive(0, row("live 0"))
    assert keys(task.sent()) == []
    task.receive(1, SubtaskConnectionDescriptor(0, 1), row("sender's recovered"))
    assert keys(task.sent()) == ["sender's recovered"]
    end_of_recovery(task, 1)
    task.run()
    assert keys(task.sent()) == ["live 0"]


@pytest.mark.flink("RecoveredInputChannelTest.testCheckpointStartImpossible")
def test_a_checkpoint_is_declined_while_the_task_initializes(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    assert task.machine.state is ExecutionState.INITIALIZING
    task.trigger(2, **task.options())
    assert task.declined() == [(2, NOT_READY)]
    task.receive_barrier(3, 0, 1)
    while task.machine.state is ExecutionState.INITIALIZING:
        assert task.triggered() == []
        assert task.requests == [], "no channel that recovers has begun to store its data"
        task.give(ProcessInput())
    task.run()
    assert task.triggered() == [3]


def test_without_rescaling_a_checkpoint_may_hold_recovered_data_again(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint)
    task.run()
    task.receive(1, SubtaskConnectionDescriptor(0, 1), row("recovered twice"), run=False)
    task.receive_barrier(2, 0, 1)
    task.run()
    task.write_all(2)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    (state,) = ack.state.subtask_states.values()
    ((held,),) = task.in_flight(state)["in"]
    assert keys([held]) == ["recovered twice"]


def test_a_checkpoint_while_rescaled_data_is_recovered_is_declined_and_the_next_one_taken(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint, input_rescale_descriptor=SAME_PLACES)
    task.run()
    assert task.machine.state is ExecutionState.RUNNING
    assert task.machine.input.is_rescaling
    task.barrier(2, 0, 1)
    assert task.declined() == [(2, NOT_READY)]
    assert task.triggered() == []
    assert task.machine.state is ExecutionState.RUNNING
    assert task.machine.channel_state._results == {}
    end_of_recovery(task, 0, 1)
    assert not task.machine.input.is_rescaling
    task.sent()
    task.barrier(3, 0, 1)
    assert [element.checkpoint_id for element in task.sent() if isinstance(element, CheckpointBarrier)] == [3]
    task.write_all(3)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [3]


# --- processing time ------------------------------------------------------------------------------------------------


class Alarm(KeyedProcessFunction):
    """Gives a row again 100 ms after it came."""

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        ctx.timer_service.register_processing_time_timer(ctx.timer_service.current_processing_time_ms + 100)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        ctx.emit({"k": ctx.current_key, "n": timestamp_ms})


def alarm_job() -> StreamEnvironment:
    """Return `rows` -hash-> `sums`, which has processing-time timers, -rebalance-> `out`."""
    checkpoint = CheckpointConfig(interval_ms=1_000, unaligned=True, **ALONE)
    env = StreamEnvironment("alarms", parallelism=1, max_parallelism=16, chaining=False, checkpoint=checkpoint)
    rows = env.from_source(CollectionSource([], SCHEMA), uid="rows").set_parallelism(2)
    rows.key_by("k").process(Alarm).uid("sums").rebalance().sink_to(CollectSink("out"), uid="out")
    return env


@pytest.mark.parametrize("in_flight", [False, True])
def test_processing_time_timers_are_armed_after_a_restore(tmp_path: Path, in_flight: bool) -> None:
    task = SlotHarness(alarm_job(), tmp_path)
    task.receive(0, row("set"))
    (armed,) = task.take(ScheduleTimer)
    if in_flight:
        task.receive(1, row("in flight"), run=False)
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    again = restored(tmp_path, ack.state, job=alarm_job(), read_ms=40)
    again.run()
    assert again.machine.state is ExecutionState.RUNNING
    assert {(timer.timer, timer.due_ms) for timer in again.take(ScheduleTimer)} == {(armed.timer, armed.due_ms)}
    again.sent()
    again.at = armed.due_ms
    again.give(TimerFired(timer=armed.timer))
    assert keys(again.sent()) == ["set"]
    assert [timer.due_ms for timer in again.take(ScheduleTimer)] == [1_000 + 40 + 100] * in_flight


# --- side outputs ---------------------------------------------------------------------------------------------------

ODD = OutputTag("odd", SCHEMA)


class SetOddAside(ProcessFunction):
    """Emits even rows and gives odd ones to a side output."""

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        if row["n"] % 2:
            ctx.output(ODD, row)
        else:
            ctx.emit(row)


def splitting_job() -> StreamEnvironment:
    """Return `rows` -> `split` -rebalance-> `even`, and from its side output -rebalance-> `odd`."""
    checkpoint = CheckpointConfig(interval_ms=1_000, unaligned=True, **ALONE)
    env = StreamEnvironment("split", parallelism=1, chaining=False, checkpoint=checkpoint)
    split = env.from_source(CollectionSource([], SCHEMA), uid="rows").rebalance().process(SetOddAside).uid("split")
    split.rebalance().sink_to(CollectSink("even"), uid="even")
    split.side_output(ODD).rebalance().sink_to(CollectSink("odd"), uid="odd")
    return env


def test_what_waits_in_a_side_output_is_in_the_checkpoint_and_sent_after_the_restore(tmp_path: Path) -> None:
    task = SlotHarness(splitting_job(), tmp_path, "split/0", credits=False)
    task.receive(0, buffer([{"k": name, "n": n} for n, name in enumerate(["even", "odd", "even", "odd"])]))
    assert keys(task.sent()) == []
    task.barrier(1, 0)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    (state,) = (each for each in ack.state.subtask_states.values() if each.result_subpartition_state)
    assert [keys(list(partition)) for partition in task.in_flight(state)["out"]] == [["even"] * 2, ["odd"] * 2]
    again = restored(tmp_path, ack.state, job=splitting_job(), name="split/0")
    main, aside = again.sent_to().values()
    assert (keys(main), keys(aside)) == (["even"] * 2, ["odd"] * 2)


# --- event time -----------------------------------------------------------------------------------------------------

CREDITS = 2
"""How many buffers a sender may have sent ahead."""
IN_FLIGHT = st.lists(
    st.one_of(
        st.builds(row, st.sampled_from("ab")),
        st.builds(Watermark, st.integers(0, 40)),
        st.builds(WatermarkStatus, st.booleans()),
    ),
    max_size=6,
).filter(lambda elements: sum(isinstance(element, Buffer) for element in elements) <= CREDITS)
"""What may be queued on one channel when a barrier overtakes it."""


def checkpoint_with(directory: Path, *in_flight: Sequence[Element]) -> TaskStateSnapshot:
    """A checkpoint whose barrier overtook these elements, channel by channel, and nothing else."""
    task = SlotHarness(unaligned_job(), directory)
    for channel, elements in enumerate(in_flight):
        task.receive(channel, *elements, run=False)
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    return ack.state or TaskStateSnapshot({})


def without_in_flight_data(checkpoint: TaskStateSnapshot) -> TaskStateSnapshot:
    states = {
        operator_id: replace(state, input_channel_state=()) for operator_id, state in checkpoint.subtask_states.items()
    }
    return replace(checkpoint, subtask_states=states)


def said(elements: list[Element]) -> list[Any]:
    """The rows, watermarks and statuses among these elements, in order."""
    return [
        element.batch.to_pylist() if isinstance(element, Buffer) else element
        for element in elements
        if isinstance(element, Buffer | Watermark | WatermarkStatus)
    ]


def test_recovered_watermarks_and_idleness_count_like_live_ones(tmp_path: Path) -> None:
    checkpoint = checkpoint_with(tmp_path, [Watermark(20)], [Watermark(10), WatermarkStatus(True)])
    task = restored(tmp_path, checkpoint)
    task.run()
    assert said(task.sent()) == [Watermark(10), Watermark(20)], "the second channel is idle from then on"
    end_of_recovery(task, 0, 1)
    task.watermark(0, 30)
    assert said(task.sent()) == [Watermark(30)]
    task.status(1, idle=False)
    task.watermark(1, 35)
    task.watermark(0, 50)
    assert said(task.sent()) == [Watermark(35)]


def test_a_sender_whose_idleness_was_recovered_is_active_with_its_next_watermark(tmp_path: Path) -> None:
    checkpoint = checkpoint_with(tmp_path, [Watermark(20)], [Watermark(10), WatermarkStatus(True)])
    task = restored(tmp_path, checkpoint)
    task.run()
    end_of_recovery(task, 0, 1)
    assert said(task.sent()) == [Watermark(10), Watermark(20)]
    task.watermark(1, 25)
    task.watermark(0, 30)
    assert said(task.sent()) == [Watermark(25)], "rows from then on may still come on the second channel"


def test_event_time_of_senders_that_were_rescaled_is_not_recovered(tmp_path: Path) -> None:
    checkpoint = checkpoint_with(tmp_path, [Watermark(20)], [Watermark(MAX_WATERMARK_MS), WatermarkStatus(True)])
    task = restored(tmp_path, checkpoint, gates_behind_rescaled=frozenset({0}))
    task.run()
    end_of_recovery(task, 0, 1)
    assert said(task.sent()) == []
    task.watermark(0, 30)
    task.watermark(1, 15)
    assert said(task.sent()) == [Watermark(15)]


@given(first=IN_FLIGHT, second=IN_FLIGHT, rescaled=st.booleans())
@settings(max_examples=40)
def test_what_was_in_flight_has_the_same_effect_as_if_it_were_sent_again(
    tmp_path_factory: pytest.TempPathFactory, first: list[Element], second: list[Element], rescaled: bool
) -> None:
    directory = tmp_path_factory.mktemp("checkpoint")
    checkpoint = checkpoint_with(directory, first, second)
    descriptors = {"input_rescale_descriptor": SAME_PLACES} if rescaled else {}
    recovered = restored(directory, checkpoint, **descriptors)
    recovered.run()
    sent_again = restored(directory, without_in_flight_data(checkpoint))
    sent_again.run()
    end_of_recovery(sent_again, 0, 1)
    for channel, elements in enumerate((first, second)):
        sent_again.receive(channel, *elements)
    assert said(recovered.sent()) == said(sent_again.sent())
    end_of_recovery(recovered, 0, 1)
    for task in (recovered, sent_again):
        for channel in (0, 1, 0):
            task.status(channel, idle=False)
            task.watermark(channel, 100 + channel)
    assert said(recovered.sent()) == said(sent_again.sent()), "and so has what follows"
