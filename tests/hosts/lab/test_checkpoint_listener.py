"""User functions hear of each checkpoint's end: in order, once, from the tail of a chain to its head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    BroadcastProcessFunction,
    CheckpointConfig,
    CheckpointedFunction,
    CheckpointListener,
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    FixedDelay,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Lab,
    MapStateDescriptor,
    NoRestart,
    OutputTag,
    ProcessFunction,
    StreamEnvironment,
)
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabError
from kit.run.captions import caption_of
from kit.stream.connectors import SinkSpec
from kit.stream.connectors.sink import SinkOperator
from kit.stream.operators.sources.source import SourceListener, Split
from kit.stream.settings.job_settings import RestartStrategy
from tests.hosts.lab.jobs import failure

ROWS = 60
HEARD: list[tuple[str, str, int]] = []
"""Who heard of which end of which checkpoint."""


@pytest.fixture(autouse=True)
def _nothing_heard() -> None:
    HEARD.clear()


class Hearing(CheckpointListener):
    """Says what it hears, under its class's name."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        HEARD.append((type(self).__name__, "complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        HEARD.append((type(self).__name__, "aborted", checkpoint_id))


class First(ProcessFunction, Hearing):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)


class Second(First):
    pass


class Keyed(KeyedProcessFunction, Hearing):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)


class Batches(KeyedBatchFunction, Hearing):
    def process_batch(self, batch: pa.RecordBatch, ctx: Any) -> None:
        ctx.emit(batch)


class Both(CoProcessFunction, Hearing):
    def process_element1(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)

    process_element2 = process_element1


class KeyedBoth(KeyedCoProcessFunction, Hearing):
    process_element1 = process_element2 = Both.process_element1


class Ruled(BroadcastProcessFunction, Hearing):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)

    def process_broadcast_element(self, row: dict[str, Any], ctx: Any) -> None:
        pass


class KeyedRuled(KeyedBroadcastProcessFunction, Hearing):
    process_element = Ruled.process_element
    process_broadcast_element = Ruled.process_broadcast_element


def environment(restart: RestartStrategy | None = None, **checkpoint: Any) -> StreamEnvironment:
    settings = {"interval_ms": 20, "tolerable_failures": 100, **checkpoint}
    return StreamEnvironment("heard", checkpoint=CheckpointConfig(**settings), restart=restart or FixedDelay(5, 1))


def rows_of(env: StreamEnvironment) -> Any:
    return env.from_source(CollectionSource([{"n": n} for n in range(ROWS)], splits=4, batch_rows=2), uid="rows")


def job(*functions: Callable[[], Any], restart: RestartStrategy | None = None, **checkpoint: Any) -> StreamEnvironment:
    """The functions one behind the other, chained to the source and the sink."""
    env = environment(restart, **checkpoint)
    stream = rows_of(env)
    for function in functions:
        stream = stream.process(function).uid(function.__name__.lower())
    stream.sink_to(CollectSink("out"), uid="out")
    return env


RULES = MapStateDescriptor("rules", pa.string(), pa.int64())
KINDS: dict[type, Callable[[Any], Any]] = {
    First: lambda rows: rows.process(First),
    Keyed: lambda rows: rows.key_by("n").process(Keyed),
    Batches: lambda rows: rows.key_by("n").process_batches(Batches),
    Both: lambda rows: rows.connect(rows.filter(lambda row: False)).process(Both),
    KeyedBoth: lambda rows: rows.key_by("n").connect(rows.filter(lambda row: False).key_by("n")).process(KeyedBoth),
    Ruled: lambda rows: rows.connect(rows.filter(lambda row: False).broadcast(RULES)).process(Ruled),
    KeyedRuled: lambda rows: (
        rows.key_by("n").connect(rows.filter(lambda row: False).broadcast(RULES)).process(KeyedRuled)
    ),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_function_is_notified_of_each_checkpoint_in_order(kind: type) -> None:
    env = environment()
    KINDS[kind](rows_of(env)).uid("heard").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    completed = completed_by(lab)
    assert len(completed) >= 2
    assert [(kind.__name__, "complete", number) for number in completed] == HEARD
    assert sorted(lab.output("out")["n"]) == [*range(ROWS)]


def completed_by(lab: Lab) -> list[int | None]:
    return [record.checkpoint_id for record in lab.trace.story(kind="CheckpointCompleted")]


def heard(outcome: str, name: str = "First") -> list[int]:
    return [number for who, what, number in HEARD if (who, what) == (name, outcome)]


def test_a_chain_is_notified_from_its_tail_to_its_head() -> None:
    lab = Lab(job(First, Second))
    lab.run_until(checkpoint=1)
    lab.run_until(lambda lab: len(HEARD) == 2)
    assert HEARD == [("Second", "complete", 1), ("First", "complete", 1)]


class Failing(Second):
    """Fails once when it is notified."""

    on = "complete"
    failures = 0

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self.fail("complete")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_aborted(checkpoint_id)
        self.fail("aborted")

    def fail(self, outcome: str) -> None:
        if outcome == self.on and not Failing.failures:
            Failing.failures += 1
            raise KeyError("no such queue")


class FailingOnAbort(Failing):
    on = "aborted"


@pytest.fixture(autouse=True)
def _no_failure_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "failures", 0)


def test_an_error_in_a_notification_fails_the_task_and_the_checkpoint_stays() -> None:
    lab = Lab(job(First, Failing, restart=NoRestart()))
    said = failure(lab)
    assert "Failing.notify_checkpoint_complete failed on checkpoint 1: KeyError: 'no such queue'" in said
    assert HEARD == [("Failing", "complete", 1), ("First", "complete", 1)], "the others of the chain are notified too"
    assert lab.checkpoints().set_index("id")["status"][1] == "COMPLETED"


def test_a_job_goes_on_from_the_checkpoint_whose_notification_failed_and_that_one_is_not_announced_again() -> None:
    lab = Lab(job(First, Failing))
    lab.run()
    (restored,) = lab.trace.story(kind="CheckpointRestored")
    assert restored.checkpoint_id == 1
    assert heard("complete", "Failing") == completed_by(lab)
    assert sorted(lab.output("out")["n"]) == [*range(ROWS)]


def decline(lab: Lab) -> int:
    """Let the next checkpoint fail; its id."""
    lab.trigger_checkpoint()
    lab.run_until(lambda lab: any("WriteSnapshot" in str(action) for action in lab.enabled()))
    lab.faults.fail("WriteSnapshot")
    number = [record.checkpoint_id for record in lab.trace.story(kind="CheckpointPending")][-1]
    lab.run_until(lambda lab: bool(lab.trace.story(kind="CheckpointAborted", checkpoint=number)))
    assert number is not None
    return number


def test_an_aborted_checkpoint_is_announced_as_such() -> None:
    lab = Lab(job(First))
    lab.run_until(checkpoint=1)
    aborted = decline(lab)
    lab.run()
    assert heard("aborted") == [aborted]
    assert aborted not in heard("complete")
    assert heard("complete") == completed_by(lab)


def test_an_error_in_the_notification_of_an_abort_fails_the_task_too() -> None:
    lab = Lab(job(First, FailingOnAbort, restart=NoRestart()))
    lab.run_until(checkpoint=1)
    aborted = decline(lab)
    assert f"notify_checkpoint_aborted failed on checkpoint {aborted}: KeyError: 'no such queue'" in failure(lab)
    assert ("First", "aborted", aborted) in HEARD


def test_a_completion_that_was_missed_is_made_good_by_a_later_notice_in_order() -> None:
    lab = Lab(job(First))
    lab.run_until(lambda lab: any("NotifyCheckpointComplete" in str(action) for action in lab.enabled()))
    lab.faults.lose("NotifyCheckpointComplete of chk-1")
    aborted = decline(lab)
    assert HEARD == []
    lab.run_until(lambda lab: bool(HEARD))
    assert [("First", "complete", 1), ("First", "aborted", aborted)] == HEARD, "the abort brings what was missed"


def test_a_completion_announced_twice_is_heard_once() -> None:
    lab = Lab(job(First))
    lab.run_until(lambda lab: any("NotifyCheckpointComplete" in str(action) for action in lab.enabled()))
    lab.faults.duplicate("NotifyCheckpointComplete of chk-1")
    lab.run()
    assert heard("complete") == completed_by(lab)


def test_a_completion_that_a_dead_worker_missed_is_never_announced() -> None:
    lab = Lab(job(First))
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    assert lab.trace.story(kind="CheckpointRestored")[0].checkpoint_id == 1
    assert heard("complete") == [number for number in completed_by(lab) if number != 1]


def test_a_pending_checkpoint_that_a_newer_one_subsumes_is_announced_behind_that() -> None:
    lab = Lab(job(First, interval_ms=None, max_concurrent=2))
    lab.run_until(lambda lab: bool(lab.trace.story(kind="AllTasksRunning")))
    lab.trigger_checkpoint()
    lab.run_until(lambda lab: any("WriteSnapshot of chk-1" in str(action) for action in lab.enabled()))
    lab.faults.never("WriteSnapshot of chk-1")
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=2)
    lab.run_until(lambda lab: len(HEARD) == 2)
    assert HEARD == [("First", "complete", 2), ("First", "aborted", 1)]


@pytest.mark.parametrize("drain", [False, True])
def test_a_savepoint_is_announced_only_if_the_job_stops_with_it(drain: bool) -> None:
    lab = Lab(job(First, interval_ms=None))
    lab.run_until(lambda lab: bool(lab.trace.story(kind="AllTasksRunning")))
    request = lab.savepoint("/savepoints")
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    for _ in range(20):
        lab.step()
    assert HEARD == []
    request = lab.stop("/savepoints", drain=drain)
    lab.run()
    assert lab.look.answer(request) is not None
    assert HEARD == [("First", "complete", 2)]


def test_the_last_checkpoint_of_a_job_is_announced() -> None:
    lab = Lab(job(First, interval_ms=None))
    lab.run()
    assert heard("complete") == completed_by(lab) == [1]


class Emitting(First):
    """Keeps the context, and emits when it is notified."""

    def open(self, ctx: Any) -> None:
        self.ctx = ctx

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.ctx.emit({"n": -checkpoint_id})


class EmittingAside(Emitting):
    ASIDE = OutputTag("aside", {"n": pa.int64()})

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.ctx.output(self.ASIDE, {"n": -checkpoint_id})


class EmittingBatches(Batches):
    open = Emitting.open

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.ctx.emit({"n": [-checkpoint_id]})


class Yielding(First):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> Any:
        yield {"n": -checkpoint_id}


def test_a_listener_that_yields_is_refused_since_it_would_not_run() -> None:
    said = failure(Lab(job(Yielding, restart=NoRestart())))
    assert "Yielding.notify_checkpoint_complete failed on checkpoint 1: TypeError: it runs nothing" in said


EMITTING: dict[type, Callable[[Any], Any]] = {
    Emitting: lambda rows: rows.process(Emitting),
    EmittingAside: lambda rows: rows.process(EmittingAside),
    EmittingBatches: lambda rows: rows.key_by("n").process_batches(EmittingBatches),
}


@pytest.mark.parametrize("kind", EMITTING, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("interval_ms", [20, None])
def test_a_listener_that_emits_rows_is_refused_since_the_last_ones_would_be_lost(
    kind: type, interval_ms: int | None
) -> None:
    env = environment(NoRestart(), interval_ms=interval_ms)
    EMITTING[kind](rows_of(env)).uid("emitting").sink_to(CollectSink("out"), uid="out")
    said = failure(Lab(env))
    assert f"{kind.__name__}.notify_checkpoint_complete failed on checkpoint 1: RuntimeError: it emits rows" in said


def test_the_lab_goes_back_before_a_notification_with_what_the_function_knew_then() -> None:
    class Counting(First):
        heard = 0

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.heard += 1
            HEARD.append(("Counting", "complete", self.heard))

    lab = Lab(job(Counting))
    lab.run_until(checkpoint=1)
    before = len(lab.past.actions)
    lab.run_until(lambda lab: bool(HEARD))
    lab.goto(before)
    HEARD.clear()
    lab.run()
    assert heard("complete", "Counting") == [*range(1, len(completed_by(lab)) + 1)]


# ---- sources and sinks ----------------------------------------------------------------------------------------------


class Positions(SourceListener):
    """Confirms how far its subtask has read, as to a message queue."""

    def __init__(self) -> None:
        self.pending: dict[int, list[tuple[str, int]]] = {}

    def snapshot_state(self, checkpoint_id: int, splits: Sequence[tuple[Split, int]]) -> None:
        self.pending[checkpoint_id] = [(split["id"], position) for split, position in splits]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for number in sorted(number for number in self.pending if number <= checkpoint_id):
            for split, position in self.pending.pop(number):
                HEARD.append((split, "complete", position))


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirmed(CollectionSource):
    def create_listener(self) -> SourceListener:
        return Positions()


class Mute(Positions):
    def snapshot_state(self, checkpoint_id: int, splits: Sequence[tuple[Split, int]]) -> None:
        raise ValueError("no connection")


@pytest.mark.parametrize("kill", [False, True])
def test_a_source_confirms_how_far_it_has_read_when_the_checkpoint_is_complete(kill: bool) -> None:
    env = StreamEnvironment(
        "confirmed", parallelism=2, checkpoint=CheckpointConfig(interval_ms=10), restart=FixedDelay(5, 1)
    )
    rows = [{"n": n} for n in range(ROWS)]
    source = Confirmed(rows, pa.schema([("n", pa.int64())]), splits=4, batch_rows=2)
    env.from_source(source, uid="rows").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(checkpoint=2)
    if kill:
        lab.faults.kill(1)
    lab.run()
    last: dict[str, int] = {}
    for split, _, position in HEARD:
        assert position >= last.get(split, 0), "a confirmed position never goes back"
        last[split] = position
    sizes = {split["id"]: len(range(ROWS)) // 4 for split in source.splits_for(2)}
    if not kill:
        assert last == sizes, "each split is confirmed to its end"
    assert len(HEARD) > len(last), "and on the way"
    assert sorted(lab.output("out")["n"]) == [*range(ROWS)]


class Told(SinkOperator):
    """A user-defined sink."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        HEARD.append(("Told", "complete", checkpoint_id))


@dataclass(frozen=True, eq=False)
class ToldSink(CollectSink):
    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        return Told(spec)


def test_a_sink_of_ones_own_is_notified() -> None:
    env = environment()
    rows_of(env).sink_to(ToldSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    assert heard("complete", "Told") == completed_by(lab)
    assert sorted(lab.output("out")["n"]) == [*range(ROWS)]


# ---- what does not listen ------------------------------------------------------------------------------------------


class Deaf(ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        HEARD.append(("Deaf", "complete", checkpoint_id))


class Stateless(ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)

    def snapshot_state(self, context: Any) -> None:
        pass


class Called(Hearing):
    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return row


class CallableState(CheckpointedFunction):
    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return row


@dataclass(frozen=True, kw_only=True, eq=False)
class HearingSource(CollectionSource, Hearing):
    pass


@dataclass(frozen=True, eq=False)
class HearingSink(CollectSink, Hearing):
    pass


MISTAKES: dict[str, tuple[Callable[[StreamEnvironment], Any], str]] = {
    "no listener": (
        lambda env: rows_of(env).process(Deaf),
        "Deaf defines notify_checkpoint_complete, which is called only on a CheckpointListener: derive Deaf from",
    ),
    "no state": (
        lambda env: rows_of(env).process(Stateless),
        "Stateless defines snapshot_state, which is called only on a CheckpointedFunction: derive Stateless from",
    ),
    "map": (lambda env: rows_of(env).map(Called()), "map: Called is a CheckpointListener, but its hooks"),
    "filter": (lambda env: rows_of(env).filter(CallableState()), "filter: CallableState is a CheckpointedFunction"),
    "reduce": (lambda env: rows_of(env).key_by("n").reduce(Called()), "Called is a CheckpointListener"),
    "source": (
        lambda env: env.from_source(HearingSource([{"n": 1}], pa.schema([("n", pa.int64())]))),
        "HearingSource is a CheckpointListener.*create_listener",
    ),
    "sink": (lambda env: rows_of(env).sink_to(HearingSink("out")), "HearingSink is a CheckpointListener.*SinkOperator"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_hooks_that_nobody_would_call_are_refused_with_what_to_write(mistake: str) -> None:
    write, said = MISTAKES[mistake]
    with pytest.raises(TypeError, match=said):
        write(environment())


class Unfinished(ProcessFunction, CheckpointListener):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)


def test_a_listener_without_the_hook_says_so() -> None:
    assert "Unfinished does not define notify_checkpoint_complete(checkpoint_id)" in failure(
        Lab(job(Unfinished, restart=NoRestart()))
    )


# ---- the trace ------------------------------------------------------------------------------------------------------


def test_the_trace_tells_of_each_notification() -> None:
    lab = Lab(job(First, retention=RetentionPolicy.RETAIN_ON_CANCELLATION))
    lab.run_until(checkpoint=1)
    aborted = decline(lab)
    lab.run_until(checkpoint=aborted + 1)
    lab.faults.kill(0)
    lab.run()
    notes = lab.trace.story(kind="ListenerNotified")
    assert [(note.data["outcome"], note.checkpoint_id) for note in notes] == [each[1:] for each in HEARD]
    assert {note.data["operator"] for note in notes} == {"first"}
    assert caption_of(notes[0]) == ("The user's listener at first in rows/0 is notified that checkpoint 1 is complete")
    assert lab.trace.causes(notes[0])[1].kind == "NotifyCheckpointComplete"


def test_the_trace_tells_what_operator_coordinators_are_notified_of() -> None:
    lab = Lab(job(First))
    lab.run_until(checkpoint=1)
    aborted = decline(lab)
    lab.faults.kill(0)
    lab.run_until(lambda lab: bool(lab.trace.story(kind="CoordinatorReset")))
    told = lab.trace.story(kind=("CoordinatorNotified", "CoordinatorReset"))
    assert [caption_of(record) for record in told] == [
        "The operator coordinator of rows is notified that checkpoint 1 is complete",
        f"The operator coordinator of rows is notified that checkpoint {aborted} is aborted",
        "The operator coordinator of rows restores checkpoint 1",
    ]


def test_a_coordinator_that_goes_back_to_nothing_says_so() -> None:
    lab = Lab(job(First, interval_ms=None))
    lab.run_until(lambda lab: bool(lab.trace.story(kind="AllTasksRunning")))
    lab.faults.kill(0)
    lab.run_until(lambda lab: bool(lab.trace.story(kind="CoordinatorReset")))
    (record,) = lab.trace.story(kind="CoordinatorReset")
    assert caption_of(record) == "The operator coordinator of rows starts again from scratch"


def test_a_lab_error_names_the_function() -> None:
    with pytest.raises(LabError, match=r"Failing\.notify_checkpoint_complete") as raised:
        Lab(job(First, Failing, restart=NoRestart())).run()
    assert isinstance(raised.value.__cause__, KeyError)
