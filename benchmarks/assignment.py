"""State assignment at 100 to 4000 subtasks: how long, and how it grows.

A source feeds a keyed vertex through a hash exchange; both are rescaled by one half, at maximum parallelism 32768. The
rows add up: keyed state; four split states of ten entries in each subtask; a union state of ten; ten channels with
in-flight data at both ends of each exchange. Flink's times are medians of `assignStates` of 2.3.0 (Java 17, 2 cores).
Run `python -m benchmarks.assignment`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from kit.restore.state_assignment import assign_states
from kit.restore.topology import AssignmentEdge, AssignmentVertex, OperatorIDPair
from kit.state.handles import (
    FileStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.state.key_groups import key_group_partitions
from kit.state.operator_state import OperatorState, OperatorSubtaskState

MAX_PARALLELISM = 32768
SIZES = ((100, 150), (1000, 1500), (4000, 6000))
ROWS = {
    "keyed": (0.74, 48, 823),
    "+ 4 split states of 10": (0.76, 53, 859),
    "+ split + union": (1.59, 365, 6423),
    "+ split + union + channels": (2.70, 459, 9350),
}
SOURCE, KEYED = OperatorIDPair("a" * 32), OperatorIDPair("b" * 32)
ENTRIES = tuple(range(0, 1000, 100))


def operator_handle(subtask: int, union: bool) -> OperatorStreamStateHandle:
    states = {f"split-{name}": StateMetaInfo(ENTRIES, OperatorStateMode.SPLIT_DISTRIBUTE) for name in range(4)}
    if union:
        states["union"] = StateMetaInfo(ENTRIES, OperatorStateMode.UNION)
    return OperatorStreamStateHandle(states, FileStateHandle(f"op-{subtask}", 1000))


def states(row: str, old: int) -> dict[str, OperatorState]:
    split, union, channels = "split" in row, "union" in row, "channels" in row
    sources, keyed = {}, {}
    for subtask, covered in enumerate(key_group_partitions(MAX_PARALLELISM, old)):
        stream = FileStateHandle(f"channels-{subtask}", 1000)
        others = [(subtask + step) % old for step in range(10)] if channels else []
        inputs = [InputChannelStateHandle(subtask, InputChannelInfo(0, i), (0,), 100, stream) for i in others]
        outputs = [
            ResultSubpartitionStateHandle(subtask, ResultSubpartitionInfo(0, i), (0,), 100, stream) for i in others
        ]
        handle = KeyGroupsStateHandle(covered, tuple(range(len(covered))), FileStateHandle(f"keyed-{subtask}", 1000))
        keyed[subtask] = OperatorSubtaskState(
            managed_operator_state=(operator_handle(subtask, union),) if split else (),
            managed_keyed_state=(handle,),
            input_channel_state=tuple(inputs),
        )
        sources[subtask] = OperatorSubtaskState(result_subpartition_state=tuple(outputs))
    return {
        SOURCE.generated_id: OperatorState(SOURCE.generated_id, old, MAX_PARALLELISM, sources),
        KEYED.generated_id: OperatorState(KEYED.generated_id, old, MAX_PARALLELISM, keyed),
    }


def median_ms(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        taken.append((time.perf_counter() - start) * 1000)
        del result
    return statistics.median(taken)


def measure(row: str, old: int, new: int, times: int) -> float:
    vertices = [AssignmentVertex("source", new, (SOURCE,)), AssignmentVertex("keyed", new, (KEYED,))]
    edges = [AssignmentEdge.of(0, 1, "hash")]
    found = states(row, old)
    if "channels" not in row:  # as in Flink's figures: one vertex
        vertices, edges = vertices[1:], []
        del found[SOURCE.generated_id]
    return median_ms(lambda: assign_states(vertices, edges, found, 1), times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=7, help="how often to measure each; the median is shown")
    times = parser.parse_args().times
    print(f"{'state of each subtask':28}" + "".join(f"{f'{old}->{new}':>26}" for old, new in SIZES) + "   growth")
    for row, flink in ROWS.items():
        ours = [measure(row, old, new, times) for old, new in SIZES]
        cells = "".join(f"{f'{mine:.1f} ms (Flink {theirs})':>26}" for mine, theirs in zip(ours, flink, strict=True))
        print(f"{row:28}{cells}   x{ours[2] / ours[1]:.1f}")


if __name__ == "__main__":
    main()
