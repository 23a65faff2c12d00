"""The rows that a slot lets a task take in one turn. The functions take no time: they move a clock of the test on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit import CollectionSource, CollectSink, KeyedProcessFunction, StreamEnvironment, TumblingEventTimeWindows, count
from kit.core.protocol.attempts import Attempts
from kit.core.protocol.elements import Buffer, CheckpointBarrier
from kit.core.protocol.messages import DeployTask, JobMessage
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.words import Envelope
from kit.files.task_files import TaskFiles
from kit.hosts.spark.edge import SparkOutput, open_storage
from kit.hosts.spark.slot.task_host import PROMPT_PART, TaskHost
from kit.hosts.spark.slot.turn_rows import GROWTH, TurnRows
from kit.hosts.spark.slot.working_slot import SAID, WorkingSlot
from kit.hosts.spark.wire.codec import unpack_words
from kit.hosts.spark.wire.wire import ControlMessage
from kit.stream.api.datastream import DataStream
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.settings.job_settings import JobSettings
from tests.hosts.spark.test_slot import Held

TURN_S = JobSettings().turn_ms / 1_000
SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64())])
SLOW_S, FAST_S = 100e-6, 10e-9
IN_A_TURN = round(TURN_S / SLOW_S)
MANY = 60_000


class Clock:
    """A clock that only the test's functions move."""

    now_s = 0.0


class Costly:
    """A function of batches that costs `row_s` a row; `calls` has the rows of each of its calls, `took_s` its time."""

    def __init__(self, clock: Clock, row_s: float, fixed_s: float = 0.0) -> None:
        self.row_s, self.fixed_s = row_s, fixed_s
        self.calls: list[int] = []
        self.took_s: list[float] = []
        self._clock = clock

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.calls.append(batch.num_rows)
        self.took_s.append(self.fixed_s + self.row_s * batch.num_rows)
        self._clock.now_s += self.took_s[-1]
        return batch


class Nothing:
    """Wires for a slot that is alone."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: None


class Turns:
    """A slot with the tasks behind a source; the test sends for the source."""

    def __init__(self, clock: Clock, directory: Path, behind: Callable[[DataStream], DataStream]) -> None:
        env = StreamEnvironment("turns")
        rows = env.from_source(CollectionSource([], SCHEMA), uid="rows").rebalance()
        behind(rows).sink_to(CollectSink("out"), uid="out")
        graph = ExecutionGraph(env.job_graph())
        files = TaskFiles(graph.job_graph, open_storage(graph.job_graph, str(directory)), SparkOutput(""))
        self.said: list[Envelope] = []
        self.background, nothing = Held(), Nothing()
        self.host = TaskHost(
            graph,
            0,
            Attempts(1),
            files,
            nothing,  # type: ignore[arg-type]
            self.said.append,
            self.background,  # type: ignore[arg-type]
            lambda: round(clock.now_s * 1_000),
            stopwatch_s=lambda: clock.now_s,
        )
        for task in self.host.tasks:
            self.host.message(DeployTask(task=task, attempt=1, restore=None))
        self.host.work()
        self._channel = next(iter(self.host.tasks["rows/0"].outputs.subpartitions())).number

    def arrive(self, *elements: Any) -> None:
        """Let elements arrive."""
        for element in elements:
            self.host.element(self._channel, element)

    def receive(self, *elements: Any) -> None:
        """Let elements arrive one after the other; the tasks work until nothing is left to do."""
        for element in elements:
            self.host.element(self._channel, element)
            while self.host.work():
                pass

    def limit(self, task: str) -> int:
        """The number of rows that the task may take in its next turn."""
        return self.host._rows[f"{task}/0"].most


def buffer(rows: int, first: int = 0) -> Buffer:
    """Return a buffer of rows with one key, and the numbers from `first` on."""
    numbers = pa.array(range(first, first + rows), pa.int64())
    return Buffer(pa.record_batch([pa.array(["a"] * rows), numbers], schema=SCHEMA))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_slow_function_gets_the_rows_that_fit_into_a_turn(clock: Clock, tmp_path: Path) -> None:
    slow = Costly(clock, SLOW_S)
    Turns(clock, tmp_path, lambda rows: rows.map_batches(slow)).receive(buffer(15 * IN_A_TURN))
    assert sum(slow.calls) == 15 * IN_A_TURN
    assert max(slow.took_s) <= TURN_S * 1.001
    first, settled = slow.calls[:4], slow.calls[4:-1]
    assert first == [1, GROWTH, GROWTH**2, GROWTH**3]
    assert settled
    assert all(IN_A_TURN - 1 <= rows <= IN_A_TURN for rows in settled)


def test_a_fast_function_gets_whole_buffers_after_a_few_turns(clock: Clock, tmp_path: Path) -> None:
    fast = Costly(clock, FAST_S)
    Turns(clock, tmp_path, lambda rows: rows.map_batches(fast)).receive(*[buffer(MANY)] * 3)
    assert fast.calls[-2:] == [MANY, MANY]
    assert all(rows <= GROWTH * before for before, rows in pairwise(fast.calls))
    assert len(fast.calls) < 10


def test_a_row_costs_what_all_functions_of_its_chain_cost(clock: Clock, tmp_path: Path) -> None:
    slow, fast = Costly(clock, SLOW_S), Costly(clock, FAST_S)
    Turns(clock, tmp_path, lambda rows: rows.map_batches(slow).map_batches(fast)).receive(buffer(10 * IN_A_TURN))
    assert fast.calls == slow.calls
    assert max(fast.calls) <= IN_A_TURN


def test_a_fast_task_sends_a_slow_one_what_that_takes_in_a_turn(clock: Clock, tmp_path: Path) -> None:
    """Longer buffers would wait at the slow task, and barriers behind them."""
    slow, fast = Costly(clock, SLOW_S), Costly(clock, FAST_S)
    turns = Turns(clock, tmp_path, lambda rows: rows.map_batches(fast).rebalance().map_batches(slow).uid("slow"))
    turns.receive(buffer(MANY))
    assert max(slow.calls) <= IN_A_TURN
    assert max(fast.calls[20:]) <= IN_A_TURN
    assert sum(slow.calls) == sum(fast.calls) == MANY


def test_the_limit_follows_a_cost_that_changes(clock: Clock, tmp_path: Path) -> None:
    function = Costly(clock, FAST_S)
    turns = Turns(clock, tmp_path, lambda rows: rows.map_batches(function))
    turns.receive(*[buffer(MANY)] * 2)
    function.row_s = SLOW_S
    at = len(function.calls)
    turns.receive(*[buffer(MANY)] * 2)
    assert function.calls[at] == MANY  # nobody could know
    assert max(function.calls[at + 1 :]) <= IN_A_TURN
    function.row_s = FAST_S
    turns.receive(*[buffer(MANY)] * 2)
    assert function.calls[-1] == MANY


def test_a_turn_takes_one_row_that_alone_is_too_long(clock: Clock, tmp_path: Path) -> None:
    expensive = Costly(clock, 50 * TURN_S)
    Turns(clock, tmp_path, lambda rows: rows.map_batches(expensive)).receive(buffer(20))
    assert expensive.calls == [1, 2, *[1] * 17]  # the second turn shows that rows, not calls, are expensive


@pytest.mark.parametrize("fixed_s", [TURN_S / 100, 2 * TURN_S, 20 * TURN_S])
def test_the_fixed_cost_of_a_call_does_not_lower_the_rows(fixed_s: float, clock: Clock, tmp_path: Path) -> None:
    """A model that is called for a batch, for example: fewer rows would make the job slow, and the turn no shorter."""
    model = Costly(clock, FAST_S, fixed_s)
    Turns(clock, tmp_path, lambda rows: rows.map_batches(model)).receive(*[buffer(MANY)] * 4)
    assert model.calls[-2:] == [MANY, MANY]


def test_a_first_call_that_takes_long_is_soon_forgotten(clock: Clock, tmp_path: Path) -> None:
    function = Costly(clock, FAST_S, fixed_s=100 * TURN_S)  # it loads something
    turns = Turns(clock, tmp_path, lambda rows: rows.map_batches(function))
    turns.receive(buffer(1))
    function.fixed_s = 0.0
    turns.receive(*[buffer(MANY)] * 3)
    assert function.calls[-2:] == [MANY, MANY]


def test_a_row_that_becomes_many_costs_what_these_cost(clock: Clock, tmp_path: Path) -> None:
    each = 50
    slow = Costly(clock, SLOW_S)

    def explode(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [row] * each

    Turns(clock, tmp_path, lambda rows: rows.flat_map(explode).map_batches(slow)).receive(buffer(IN_A_TURN))
    assert sum(slow.calls) == IN_A_TURN * each
    assert max(slow.calls[2:]) <= IN_A_TURN
    assert slow.calls[0] == each


@pytest.mark.parametrize("kind", ["windows", "timers"])
def test_what_fires_is_not_a_cost_of_rows(kind: str, clock: Clock, tmp_path: Path) -> None:
    """It is due at a watermark. The rows that come next cost what rows did before."""
    fired = Costly(clock, 1_000 * TURN_S)

    def firing(rows: DataStream) -> DataStream:
        class AtTheEnd(KeyedProcessFunction):
            def process_element(self, row: dict[str, Any], ctx: Any) -> None:
                ctx.timer_service.register_event_time_timer(1_000)

            def on_timer(self, timestamp_ms: int, ctx: Any) -> None:
                fired(buffer(1).batch)

        keyed = rows.assign_timestamps("n").key_by("key")
        if kind == "timers":
            return keyed.process(AtTheEnd, returns=SCHEMA).uid("firing")
        return keyed.window(TumblingEventTimeWindows(1_000)).aggregate(n=count()).uid("firing").map_batches(fired)

    turns = Turns(clock, tmp_path, firing)
    turns.receive(buffer(1_000))
    before = turns.limit("firing")
    assert fired.calls == []
    turns.receive(buffer(1, first=5_000))
    assert fired.calls == [1]
    assert before <= turns.limit("firing")


def test_a_short_buffer_between_long_ones_does_not_lower_the_rows(clock: Clock, tmp_path: Path) -> None:
    function = Costly(clock, FAST_S, fixed_s=TURN_S / 100)
    turns = Turns(clock, tmp_path, lambda rows: rows.map_batches(function))
    turns.receive(*[buffer(MANY)] * 3, buffer(1), buffer(MANY))
    assert function.calls[-2:] == [1, MANY]


def test_a_turn_of_no_time_at_all_only_grows() -> None:
    rows = TurnRows(20)
    for _ in range(3):
        rows.took(rows.most, 0.0)
    assert rows.most == GROWTH**3


class Driver:
    """Keeps the kinds of the messages that a slot sends, and the calls of a function before each."""

    def __init__(self, function: Costly) -> None:
        self.sent: list[tuple[str, int]] = []
        self._function = function

    def send(self, message: ControlMessage) -> None:
        if message.kind == SAID:
            words, _ = unpack_words(message, JobMessage)
            self.sent += [(type(word).__name__, len(self._function.calls)) for word, _ in words]


def barrier(directory: Path) -> CheckpointBarrier:
    """Return the barrier of checkpoint 1."""
    options = CheckpointOptions(location=str(directory / "chk-1"))
    return CheckpointBarrier(checkpoint_id=1, timestamp_ms=0, options=options)


def is_short(rows: int) -> bool:
    return IN_A_TURN // PROMPT_PART - 1 <= rows <= IN_A_TURN // PROMPT_PART


@pytest.fixture
def after_a_barrier(clock: Clock, tmp_path: Path) -> tuple[Turns, Costly]:
    """A slot with a slow task that has begun to write its snapshot, and has more rows than it takes in many turns."""
    slow = Costly(clock, SLOW_S)
    turns = Turns(clock, tmp_path, lambda rows: rows.map_batches(slow).uid("slow"))
    turns.receive(buffer(15 * IN_A_TURN))
    turns.arrive(barrier(tmp_path), buffer(15 * IN_A_TURN))
    turns.host.handle_ready()
    slow.calls.clear()
    while not turns.background.jobs:
        assert turns.host.work()
    return turns, slow


def test_turns_are_short_until_a_snapshot_is_written(after_a_barrier: tuple[Turns, Costly]) -> None:
    """The slot reads the answer, and acknowledges, when its turn is over."""
    turns, slow = after_a_barrier
    turns.host.work()
    assert all(is_short(rows) for rows in slow.calls)
    at = len(slow.calls)
    assert turns.background.work(turns.host)
    turns.host.work()
    assert slow.calls[at] >= IN_A_TURN - 1


def test_a_snapshot_that_takes_longer_to_write_shortens_no_more_turns(after_a_barrier: tuple[Turns, Costly]) -> None:
    turns, slow = after_a_barrier
    while len(slow.calls) < 2 * PROMPT_PART:
        assert turns.host.work()
    short = next(at for at, rows in enumerate(slow.calls) if not is_short(rows))
    assert min(slow.calls[short:]) >= IN_A_TURN - 1
    assert short == pytest.approx(PROMPT_PART, abs=1)  # they take the time of one turn together
    assert turns.background.jobs


def test_a_task_acknowledges_before_its_slot_works_on(after_a_barrier: tuple[Turns, Costly], clock: Clock) -> None:
    turns, slow = after_a_barrier
    driver = Driver(slow)
    working = WorkingSlot(turns.host, turns.said, driver, lambda: round(clock.now_s * 1_000))  # type: ignore[arg-type]
    working.work()
    before = len(slow.calls)
    turns.background.work(turns.host)
    working.work()
    assert ("AcknowledgeCheckpoint", before) in driver.sent
    assert len(slow.calls) > before  # in the same round
