"""The workloads as jobs of this kit.

    python -m benchmarks.throughput.kit_jobs W1 100000000 /tmp/somewhere [INTERVAL_MS]

The time runs from all tasks running until the input has been processed. For W1, W1r, W7 and W7z, which emit their
totals at the end (not timed for any system), that is when the last split has been read. For the others, it is when the
sink has the barrier of the last checkpoint, which follows the last row.
KIT_PROFILE=directory writes a profile of the thread of each slot's tasks there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.throughput import workloads
from benchmarks.throughput.measured import DURABILITY, TWO_PHASE, Measured, main_of_peer
from kit import (
    CheckpointConfig,
    CollectSink,
    KeyedProcessFunction,
    NoRestart,
    SparkJob,
    StreamEnvironment,
    TextSource,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    count,
    create_session,
    max_,
    sum_,
)
from kit.core.protocol.messages import OperatorEventToTask
from kit.core.protocol.notes import AllTasksRunning, BarrierAligned
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.sources.split_enumerator import NO_MORE_SPLITS

PARALLELISM = 2
_RESULT = "result"
_NUMBERS = np.arange(1 << 16)


@dataclass(frozen=True, eq=False)
class Rows(Source):
    """The first `rows` rows of a workload: one split for each subtask, which take turns row by row."""

    workload: str
    rows: int

    @property
    def schema(self) -> pa.Schema:
        """Its columns, int64 and never null."""
        names = workloads.columns(self.workload, np.arange(1))
        return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])

    def enumerate_splits(self) -> list[Split]:
        """Every n-th row each."""
        return [
            {"id": f"rows-{first}", "first": first, "rows": len(range(first, self.rows, PARALLELISM))}
            for first in range(PARALLELISM)
        ]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Rows from their numbers."""
        end = min(position + min(max_rows, len(_NUMBERS)), split["rows"])
        if end <= position:
            return ReadResult(None, position, finished=True)
        numbers = _NUMBERS[: end - position] * PARALLELISM + (position * PARALLELISM + split["first"])
        columns = [pa.array(column) for column in workloads.columns(self.workload, numbers).values()]
        return ReadResult(pa.RecordBatch.from_arrays(columns, schema=self.schema), end, end >= split["rows"])


RUNNING = ValueStateDescriptor("running", pa.int64())


class RunningTotal(KeyedProcessFunction):
    """W5, a row at a time."""

    def open(self, ctx: Any) -> None:
        self._total = ctx.state(RUNNING)

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        total = (self._total.value() or 0) + row["value"]
        self._total.update(total)
        ctx.emit({"key": row["key"], "value": total})


WORD = pa.dictionary(pa.int32(), pa.string())
"""Each word of a batch once, and numbers: what then is done with a word is done once a batch, not once a row."""


def _words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the words of all lines.

    Each is numbered with the blank behind it, which is removed from the distinct words only, so no word is copied.
    """
    lines = pa.concat_arrays([batch.column(0), pa.array([""])])
    text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), " ").buffers()[2]
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(" ")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    numbered = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), text).dictionary_encode()
    words = pa.DictionaryArray.from_arrays(numbered.indices, pc.utf8_slice_codeunits(numbered.dictionary, 0, -1))
    return pa.RecordBatch.from_arrays([words], names=["word"])


def _in_two_phases() -> bool:
    return bool(os.environ.get(TWO_PHASE))


def _sums(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    source = env.from_source(Rows(workload, rows), uid="rows")
    return source.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final", two_phase=_in_two_phases())


def _wide_sums(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    last = {f"last_{number}": max_(f"last_{number}") for number in range(workloads.LAST_VALUES)}
    keyed = env.from_source(Rows(workload, rows), uid="rows").key_by("key")
    totals = keyed.aggregate(total=sum_("value"), n=count(), emit="final", **last)
    return totals.uid("wide").select("key", "total", "n")


def _word_count(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    lines = env.from_source(TextSource(texts), uid="rows")
    return (
        lines.map_batches(_words, {"word": WORD})
        .key_by("word")
        .aggregate(n=count(), emit="final", two_phase=_in_two_phases())
    )


def _windows(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    timed = env.from_source(Rows(workload, rows), uid="rows").assign_timestamps("at", workloads.DISORDER_MS)
    windows = timed.key_by("key").window(TumblingEventTimeWindows(workloads.WINDOW_MS))
    return _summed(windows.allowed_lateness(workloads.DISORDER_MS).aggregate(total=sum_("value"), n=count()))


def _pairs(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    left = env.from_source(Rows("W4-left", rows // 2), uid="rows").assign_timestamps("at")
    right = env.from_source(Rows("W4-right", rows // 2), uid="right").rename(value="other", at="other_at")
    keyed = left.key_by("key").interval_join(right.assign_timestamps("other_at").key_by("key"))
    within = workloads.JOIN_WITHIN_MS
    return _summed(keyed.between(-within, within).join().select("key", "value", "other"))


def _running(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    return _summed(env.from_source(Rows(workload, rows), uid="rows").key_by("key").process(RunningTotal))


def _mapped(env: StreamEnvironment, workload: str, rows: int, texts: Any) -> Any:
    source = env.from_source(Rows(workload, rows), uid="rows")
    return _summed(source.map(workloads.function, arguments=("key", "value")))


JOBS = {
    "W1": _sums,
    "W1r": _sums,
    "W2": _word_count,
    "W3": _windows,
    "W4": _pairs,
    "W5": _running,
    "W6": _mapped,
    "W7": _wide_sums,
    "W7z": _wide_sums,
}
TOTALS = ("W1", "W1r", "W2", *workloads.ON_DISK)
"""Those whose totals come out at the end; what comes out of the others is summed up to a checksum as it comes."""


def _fold(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_integers(column) for column in batch.columns]
    folded = np.int64(np.uint64(workloads.checksum(*columns)).astype(np.int64))
    return pa.RecordBatch.from_arrays([pa.array([1]), pa.array([folded])], names=["one", "checksum"])


def _integers(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms")).view(pa.int64())
    return column.to_numpy()


def _summed(stream: Any) -> Any:
    """The checksum of a stream."""
    if "window_end" in stream.schema.names:
        stream = stream.select("key", "window_start", "total", "n")
    folded = stream.map_batches(_fold, {"one": pa.int64(), "checksum": pa.int64()})
    return folded.key_by("one").aggregate(checksum=sum_("checksum"), emit="final")


def environment(
    workload: str, rows: int, directory: str, texts: Iterable[Path] = (), interval_ms: int = 1_000
) -> StreamEnvironment:
    """The job of a workload; `texts` are the files that W2 reads. Without an interval there are no checkpoints.

    The variable `DURABILITY` says what they survive.
    """
    env = StreamEnvironment(
        workload,
        parallelism=PARALLELISM,
        checkpoint=CheckpointConfig(
            interval_ms=interval_ms or None,
            directory=directory,
            durability=os.environ.get(DURABILITY, "fsync"),
            incremental=workload in workloads.ON_DISK,
        ),
        restart=NoRestart(),
        state_backend="disk" if workload in workloads.ON_DISK else "memory",
        state_memory_mb=workloads.STATE_MEMORY_MB,
        state_directory=f"{directory}/state",
    )
    stream = JOBS[workload](env, workload, rows, [str(path) for path in texts])
    stream.uid("totals").sink_to(CollectSink(_RESULT), uid="out")
    return env


def result_checksum(workload: str, result: Any) -> int:
    """Return the checksum of the job's output."""
    if workload == "W2":
        return workloads.word_checksum(dict(zip(result["word"].tolist(), result["n"].tolist(), strict=True)))
    if workload in TOTALS:
        return workloads.checksum(*(result[name].to_numpy() for name in ("key", "total", "n")))
    return workloads.added(*result["checksum"].tolist())


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """Measure one run in the present session."""
    env = environment(workload, rows, str(directory), texts, interval_ms)
    with SparkJob(env, create_session("throughput", slots=PARALLELISM)) as job:
        job.start()
        job.wait()
        trace, result = job.trace, job.output(_RESULT)
        completed = int((job.checkpoints()["status"] == "COMPLETED").sum())
    begin = next(record.at_ms for record in trace if record.is_a(AllTasksRunning))
    end = max(record.at_ms for record in trace if _is_end(record, workload))
    return Measured(rows, (end - begin) / 1e3, completed, result_checksum(workload, result))


def _is_end(record: Any, workload: str) -> bool:
    """Return True for the record that ends the time: the last split has been read, or a barrier has arrived."""
    if workload in ("W1", "W1r", *workloads.ON_DISK):
        return record.is_a(OperatorEventToTask) and record.data["payload"]["kind"] == NO_MORE_SPLITS
    return record.is_a(BarrierAligned) and not record.machine.startswith("rows")


if __name__ == "__main__":
    main_of_peer(measure)
