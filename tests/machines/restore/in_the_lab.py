"""Jobs for the lab whose operators remember rows in operator state, and what tests of restores do with a lab."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.state.handles import OperatorStateMode
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count
from kit.stream.operators.base import Operator, OperatorSpec
from kit.stream.settings.job_settings import CheckpointConfig, NoRestart
from tests.hosts.lab.jobs import settle

SCHEMA = pa.schema([("n", pa.int64())])
REMEMBERED = ListStateDescriptor("remembered", pa.int64())
BROADCAST = MapStateDescriptor("remembered", pa.int64(), pa.bool_())


@dataclass(frozen=True)
class Remember(OperatorSpec):
    """Hands rows on and remembers them in operator state of one mode; entries are what each subtask itself saw, but
    broadcast ones are the first rows of all.
    """

    mode: OperatorStateMode = OperatorStateMode.SPLIT_DISTRIBUTE

    def create(self) -> RememberingOperator:
        return RememberingOperator(self.mode)


class RememberingOperator(Operator):
    """At the first batch after a restore it says what it got: one row (1000 * (subtask + 1) + entry, negative) each."""

    def __init__(self, mode: OperatorStateMode) -> None:
        self.mode = mode

    def initialize_state(self) -> None:
        store = self.context.operator_state
        if self.mode is OperatorStateMode.BROADCAST:
            self.state: Any = store.broadcast_state(BROADCAST)
            self.found = [key for key, _ in self.state.items()]
        else:
            is_split = self.mode is OperatorStateMode.SPLIT_DISTRIBUTE
            self.state = (store.list_state if is_split else store.union_list_state)(REMEMBERED)
            self.found = list(self.state.get())
            if not is_split:
                self.state.clear()  # each subtask adds its own again, or all would double

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        for row in batch.column("n").to_pylist():
            if self.mode is not OperatorStateMode.BROADCAST:
                self.state.add(row)
            elif row < 5:
                self.state.put(row, True)
        self.context.output.emit(batch)

    def finish(self) -> None:
        said = [-(1000 * (self.context.subtask + 1) + entry) for entry in self.found]
        if said:
            self.context.output.emit(pa.record_batch([pa.array(said, pa.int64())], schema=SCHEMA))


def remembering(mode: OperatorStateMode, parallelism: int, rows: int = 120, **checkpoint: Any) -> StreamEnvironment:
    """Rows 0, 1, ... through an operator that remembers them; broadcast rows reach all subtasks."""
    settings: dict[str, Any] = {"memory_threshold_bytes": 0} | checkpoint
    env = StreamEnvironment(
        "remembering",
        parallelism=parallelism,
        max_parallelism=13,
        checkpoint=CheckpointConfig(**settings),
        restart=NoRestart(),
    )
    source = CollectionSource([{"n": n} for n in range(rows)], splits=4, batch_rows=4)
    stream = env.from_source(source, uid="rows")
    stream = stream.broadcast() if mode is OperatorStateMode.BROADCAST else stream.rebalance()
    stream = stream.apply(Remember("remember", (SCHEMA,), SCHEMA, None, mode)).uid("remember")
    stream.sink_to(CollectSink("out"), uid="out")
    return env


@dataclass(frozen=True)
class OneNumber(OperatorSpec):
    """An operator that forwards rows and counts them in operator state as one number, which cannot be redistributed."""

    def create(self) -> OneNumberOperator:
        return OneNumberOperator()


class OneNumberOperator(Operator):
    """Raises if it restores the numbers of two subtasks."""

    def initialize_state(self) -> None:
        self.state = self.context.operator_state.list_state(ListStateDescriptor("number", pa.int64()))
        found = list(self.state.get())
        if len(found) > 1:
            raise ValueError(f"a count cannot be put together from {len(found)} counts")
        self.count = sum(found)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.count += batch.num_rows
        self.context.output.emit(batch)

    def snapshot_state(self, checkpoint_id: int) -> None:
        self.state.update([self.count])


def rows_read(lab: Lab) -> int:
    """Return the number of rows that the sources of this run have read, without those before a restored snapshot."""
    batches = [record.data["batch"] for record in lab.trace if record.kind == "SplitRead" and record.role == "event"]
    return sum(batch["rows"] for batch in batches if batch is not None)


def found_after_restore(lab: Lab) -> dict[int, Counter[int]]:
    """By subtask, the entries that its operator found when it was restored."""
    found: dict[int, Counter[int]] = {}
    for said in lab.output("out")["n"]:
        if said < 0:
            subtask, entry = divmod(-int(said), 1000)
            found.setdefault(subtask - 1, Counter())[entry] += 1
    return found


def counting(
    parallelism: int, *, max_parallelism: int | None = 13, one_number: int | None = None, rows: int = 120
) -> StreamEnvironment:
    """Return a job that counts rows by key and emits the final counts at the end. If `one_number` is set, that many
    subtasks before the count each keep a number that cannot be redistributed.
    """
    env = StreamEnvironment(
        "counting",
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        checkpoint=CheckpointConfig(),
        restart=NoRestart(),
    )
    source = CollectionSource([{"n": n, "key": n % 7} for n in range(rows)], splits=4, batch_rows=4)
    stream = env.from_source(source, uid="rows")
    if one_number is not None:
        stream = stream.rebalance().apply(OneNumber("number", (source.schema,), source.schema))
        stream = stream.uid("number").set_parallelism(one_number)
    counts = stream.key_by("key").aggregate(rows=count(), emit="final").uid("counts")
    counts.sink_to(CollectSink("counts"), uid="out")
    return env


def savepoint(lab: Lab) -> str:
    """Take a savepoint; returns its path."""
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    path = lab.look.answer(request)
    assert path is not None
    return path


def stop(lab: Lab, *, drain: bool = False) -> str:
    """Stop with a savepoint, all of it; returns its path."""
    request = lab.stop(drain=drain)
    lab.run_until(ended=True)
    settle(lab)
    path = lab.look.answer(request)
    assert path is not None
    return path


def steps(lab: Lab, number: int) -> Lab:
    """Step `number` times once all tasks run."""
    lab.run_until(record="AllTasksRunning")
    for _ in range(number):
        lab.step()
    return lab


class FullDisk(dict[str, bytes]):
    """The contents of a lab's disk on which files whose path has `part` cannot be written, `times` times."""

    def __init__(self, lab: Lab, part: str, times: int = 1_000) -> None:
        super().__init__(lab.look.files.contents)
        self.part, self.times = part, times
        lab.look.files.contents = self

    def __setitem__(self, path: str, data: bytes) -> None:
        if self.part in path and self.times > 0:
            self.times -= 1
            raise OSError(f"no space left for {path}")
        super().__setitem__(path, data)
