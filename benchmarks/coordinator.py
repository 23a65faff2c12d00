"""One checkpoint of 10,000 subtasks, from its trigger to its `_metadata` on the disk: how long it takes.

    python -m benchmarks coordinator
    python -m benchmarks.coordinator --times 9 --profile
    python -m benchmarks.coordinator --without-flink

The acks are made beforehand, as they come off the wire; measured are the JobMaster's work for each, the finalizing,
and the writing of the file. Two rows: one keyed handle in each subtask, and beside it an operator handle of 5 states.
Flink's `CheckpointCoordinator` does the same in the same run where javac and Flink's jars are available, warm; else its
figures are those measured before, on 2 idle cores with Java 17. Shown are medians, and the time on the processor, which
a busy machine changes less: on both sides one thread does it all.
"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._options import options
from kit.core.protocol import commands, events
from kit.core.protocol.messages import AcknowledgeCheckpoint, CheckpointMetrics, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, task_name
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import (
    FileStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.machines.job.job_master import JobMaster
from kit.stream.graph.job_graph import ChainedOperator, JobGraph, JobVertex
from kit.stream.operators.base import OperatorSpec
from kit.stream.settings.job_settings import JobSettings
from scripts.flink import VERSION, FlinkMissing, fetch, run_java

SUBTASKS, FEWEST = 10_000, 10
MAX_PARALLELISM = 32_768
JOB, OPERATOR, VERTEX = "0" * 32, "a" * 32, "keyed"
KEYED, BOTH = "one keyed handle each", "+ operator state of 5 states"
FLINK_MS: dict[str, tuple[float, float | None]] = {KEYED: (142.0, None), BOTH: (580.0, None)}
"""Of Flink 2.3.0, measured before: the time, not that on the processor."""
COLD = 10
"""So many measurements of Flink's are for Java to get warm."""
JAVA = Path(__file__).with_name("CoordinateCheckpoint.java")


def running_job(subtasks: int) -> JobMaster:
    """A job of one vertex whose subtasks all run."""
    operator = ChainedOperator(OPERATOR, VERTEX, VERTEX, OperatorSpec(VERTEX, (), None), None)
    vertex = JobVertex(OPERATOR, VERTEX, (operator,), subtasks, MAX_PARALLELISM, True, (), ())
    master = JobMaster(JobGraph(JOB, "job", (vertex,), JobSettings()))
    master.handle(events.StartJob(), 0)
    for subtask in range(subtasks):
        running = TaskStateChanged(task=task_name(VERTEX, subtask), attempt=1, state=ExecutionState.RUNNING)
        master.handle(running, 0)
    return master


def acks(row: str, subtasks: int, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
    """Return the acknowledgements of the subtasks. As on the network, they share no objects."""
    return [
        AcknowledgeCheckpoint(
            task=task_name(VERTEX, subtask),
            attempt=1,
            job_id=JOB,
            checkpoint_id=checkpoint_id,
            metrics=CheckpointMetrics(sync_ms=1, async_ms=1, bytes_persisted=1_000, total_bytes_persisted=1_000),
            state=TaskStateSnapshot({OPERATOR: state(row, subtask, covered)}),
        )
        for subtask, covered in enumerate(key_group_partitions(MAX_PARALLELISM, subtasks))
    ]


def state(row: str, subtask: int, covered: Any) -> OperatorSubtaskState:
    """The state of one subtask."""
    file = FileStateHandle(f"chk-1/keyed-{subtask}", 1_000)
    keyed = KeyGroupsStateHandle(covered, tuple(range(0, 10 * len(covered), 10)), file)
    if row == KEYED:
        return OperatorSubtaskState(managed_keyed_state=(keyed,))
    lists = {
        f"list-{number}": StateMetaInfo(tuple(range(0, 1_000, 100)), OperatorStateMode.SPLIT_DISTRIBUTE)
        for number in range(5)
    }
    listed = OperatorStreamStateHandle(lists, FileStateHandle(f"chk-1/lists-{subtask}", 1_000))
    return OperatorSubtaskState(managed_keyed_state=(keyed,), managed_operator_state=(listed,))


def checkpoint(master: JobMaster, acknowledged: list[AcknowledgeCheckpoint], directory: Path) -> int:
    """The whole checkpoint, the host's part as small as it can be; returns the size of its `_metadata`."""
    size = 0
    waiting: list[ProtocolMessage] = [events.RequestCheckpoint(request_id=1)]
    while waiting:
        for command in master.handle(waiting.pop(), 1):
            match command:
                case commands.AllocateCheckpointId():
                    waiting.append(events.CheckpointIdAllocated(checkpoint_id=1))
                case commands.InitializeLocation():
                    waiting.append(events.LocationInitialized(checkpoint_id=1, location=str(directory)))
    for ack in acknowledged:
        given = master.handle(ack, 1)
    waiting = given
    while waiting:
        command = waiting.pop()
        match command:
            case commands.WriteMetadata(data=data):
                path = directory / "_metadata"
                path.write_bytes(data)
                size = len(data)
                written = events.MetadataWritten(checkpoint_id=1, path=str(path), size_bytes=size)
                waiting += master.handle(written, 1)
            case commands.StoreCheckpoint():
                waiting += master.handle(events.CheckpointStored(checkpoint_id=1), 1)
    if master.checkpoints.store.latest_id != 1:
        raise RuntimeError("the checkpoint did not complete")
    return size


def runs(row: str, subtasks: int, times: int) -> Iterator[tuple[float, float, int]]:
    """Milliseconds, those on the processor, and bytes of `_metadata`, run by run."""
    for _ in range(times):
        master, acknowledged = running_job(subtasks), acks(row, subtasks, 1)
        with tempfile.TemporaryDirectory() as directory:
            gc.collect()
            start, start_cpu = time.perf_counter(), time.process_time()
            size = checkpoint(master, acknowledged, Path(directory))
            cpu_ms = (time.process_time() - start_cpu) * 1000
            yield (time.perf_counter() - start) * 1000, cpu_ms, size


def profile(row: str, subtasks: int) -> None:
    master, acknowledged = running_job(subtasks), acks(row, subtasks, 1)
    profiler = cProfile.Profile()
    with tempfile.TemporaryDirectory() as directory:
        profiler.enable()
        checkpoint(master, acknowledged, Path(directory))
        profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def flinks_ms(times: int) -> dict[str, tuple[float, float | None]]:
    """Flink's medians row by row, and those on the processor, in this machine's Java; raises FlinkMissing."""
    fetch()
    jobs = [f"{row},{SUBTASKS},{COLD + times}" for row in ("keyed", "both")]
    found: dict[str, tuple[float, float | None]] = {}
    with tempfile.TemporaryDirectory() as directory:
        lines = run_java(JAVA, directory, *jobs, options=("-Xmx4g",)).splitlines()
    for row, line in zip((KEYED, BOTH), lines, strict=False):
        taken = [float(each) for each in line.split()]
        found[row] = median(taken[2 * COLD :: 2]), median(taken[2 * COLD + 1 :: 2])
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--times", type=int, default=9, help="how often to measure each; the median is shown")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    parser.add_argument("--without-flink", action="store_true", help="beside Flink's figures as measured before")
    given = parser.parse_args()
    subtasks, times = (FEWEST, 1) if given.smallest else (SUBTASKS, given.times)
    if given.profile:
        for row in FLINK_MS:
            profile(row, subtasks)
        return
    flink, whose = FLINK_MS, "as measured before"
    if not given.without_flink and not given.smallest:
        print(f"Flink {VERSION} takes its turn: a minute or so", flush=True)
        try:
            flink, whose = flinks_ms(times), f"{VERSION}, in this run"
        except FlinkMissing as missing:
            print(f"Flink's own is not measured: {missing}")
    print(f"{subtasks} subtasks, trigger to _metadata: median ms (on the processor), ours and Flink's ({whose})")
    for row, (wall, cpu) in flink.items():
        walls, cpus, sizes = zip(*runs(row, subtasks, times), strict=True)
        ours, theirs = _cell(median(walls), median(cpus)), _cell(wall, cpu)
        print(f"{row:30} ours {ours:>14}   Flink {theirs:>14}   _metadata {sizes[0] / 1e6:.2f} MB")
    print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


def _cell(wall_ms: float, cpu_ms: float | None) -> str:
    return f"{wall_ms:.0f}" + (f" ({cpu_ms:.0f})" if cpu_ms is not None else "")


if __name__ == "__main__":
    main()
