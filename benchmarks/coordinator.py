"""One checkpoint of 10,000 subtasks, from its trigger to its `_metadata` on the disk: how long it takes.

    python -m benchmarks coordinator
    python -m benchmarks.coordinator --times 9 --profile

The acks are made beforehand, as they come off the wire; measured are the JobMaster's work for each, the finalizing,
and the writing of the file. Two rows: one keyed handle in each subtask, and beside it an operator handle of 5 states.
Flink 2.3.0's figures for its `CheckpointCoordinator` were measured before, on 2 idle cores with Java 17. The quickest
of several runs is shown, and the time on the processor, which is the same on a busy machine: one thread does it all.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kit.graph.job_graph import ChainedOperator, JobGraph, JobVertex
from kit.graph.settings import JobSettings
from kit.job.job_master import JobMaster
from kit.operators.base import OperatorSpec
from kit.protocol import commands, events
from kit.protocol.messages import AcknowledgeCheckpoint, CheckpointMetrics, TaskStateChanged
from kit.protocol.tasks import ExecutionState, task_name
from kit.protocol.words import Word
from kit.state.handles import (
    FileStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.state.key_groups import key_group_partitions
from kit.state.operator_state import OperatorSubtaskState, TaskStateSnapshot

SUBTASKS = 10_000
MAX_PARALLELISM = 32_768
JOB, OPERATOR, VERTEX = "0" * 32, "a" * 32, "keyed"
KEYED, BOTH = "one keyed handle each", "+ operator state of 5 states"
FLINK_MS = {KEYED: 142, BOTH: 580}
"""Of Flink 2.3.0, measured before."""


def running_job() -> JobMaster:
    """A job of one vertex whose subtasks all run."""
    operator = ChainedOperator(OPERATOR, VERTEX, VERTEX, OperatorSpec(VERTEX, (), None), None)
    vertex = JobVertex(OPERATOR, VERTEX, (operator,), SUBTASKS, MAX_PARALLELISM, True, (), ())
    master = JobMaster(JobGraph(JOB, "job", (vertex,), JobSettings()))
    master.handle(events.StartJob(), 0)
    for subtask in range(SUBTASKS):
        running = TaskStateChanged(task=task_name(VERTEX, subtask), attempt=1, state=ExecutionState.RUNNING)
        master.handle(running, 0)
    return master


def acks(row: str, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
    """What the subtasks say; nothing is shared between them, as nothing is that comes off a wire."""
    return [
        AcknowledgeCheckpoint(
            task=task_name(VERTEX, subtask),
            attempt=1,
            job_id=JOB,
            checkpoint_id=checkpoint_id,
            metrics=CheckpointMetrics(sync_ms=1, async_ms=1, bytes_persisted=1_000, total_bytes_persisted=1_000),
            state=TaskStateSnapshot({OPERATOR: state(row, subtask, covered)}),
        )
        for subtask, covered in enumerate(key_group_partitions(MAX_PARALLELISM, SUBTASKS))
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
    waiting: list[Word] = [events.RequestCheckpoint(request_id=1)]
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
    if not master.checkpoints.is_completed(1):
        raise RuntimeError("the checkpoint did not complete")
    return size


def runs(row: str, times: int) -> Iterator[tuple[float, float, int]]:
    """Milliseconds, those on the processor, and bytes of `_metadata`, run by run."""
    for _ in range(times):
        master, acknowledged = running_job(), acks(row, 1)
        with tempfile.TemporaryDirectory() as directory:
            gc.collect()
            start, start_cpu = time.perf_counter(), time.process_time()
            size = checkpoint(master, acknowledged, Path(directory))
            cpu_ms = (time.process_time() - start_cpu) * 1000
            yield (time.perf_counter() - start) * 1000, cpu_ms, size


def profile(row: str) -> None:
    master, acknowledged = running_job(), acks(row, 1)
    profiler = cProfile.Profile()
    with tempfile.TemporaryDirectory() as directory:
        profiler.enable()
        checkpoint(master, acknowledged, Path(directory))
        profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=7, help="how often to measure each; the quickest is shown")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    options = parser.parse_args()
    if options.profile:
        for row in FLINK_MS:
            profile(row)
        return
    print(f"{SUBTASKS} subtasks, trigger to _metadata   ours ms   on the CPU   Flink 2.3.0 (before)   _metadata MB")
    for row, flink in FLINK_MS.items():
        walls, cpus, sizes = zip(*runs(row, options.times), strict=True)
        print(f"{row:40} {min(walls):7.0f} {min(cpus):12.0f} {flink:22} {sizes[0] / 1e6:14.2f}")


if __name__ == "__main__":
    main()
