"""State assignment at 100 to 4000 subtasks: how long, how it grows, and how long Flink's own takes.

    python -m benchmarks assignment
    python -m benchmarks.assignment --times 9 --without-flink

A source feeds a keyed vertex through a hash exchange; both are rescaled by one half, at maximum parallelism 32768. The
rows add up: keyed state; four split states of ten entries in each subtask; a union state of ten; ten channels with
in-flight data at both ends of each exchange. A subtask's state is made when it is requested, so two times are shown:
the assignment alone, and the assignment with the states of all subtasks. Flink makes all at once, so the second time
is compared with Flink's. `StateAssignmentOperation` gets the same states in the same run if javac and Flink's jars are
available; else its figures are medians measured on 2 cores with Java 17. The quickest of several runs is shown, on both
sides, because other work on the machine only adds time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._options import options
from kit.core.state.handles import (
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
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.machines.restore.restored import StateAssignment
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex, OperatorIDPair
from scripts.flink import VERSION, FlinkMissing, fetch, run_java

MAX_PARALLELISM = 32768
SIZES = ((100, 150), (1000, 1500), (4000, 6000))
SMALLEST = ((2, 3), (4, 6), (8, 12))
ROWS = {"k": "keyed", "s": "+ 4 split states of 10", "su": "+ split + union", "suc": "+ split + union + channels"}
"""Each row by its states: split, union and channels, beside the keyed state that all have."""
FLINK_MS = {
    "k": (0.74, 48.0, 823.0),
    "s": (0.76, 53.0, 859.0),
    "su": (1.59, 365.0, 6423.0),
    "suc": (2.70, 459.0, 9350.0),
}
"""Of Flink 2.3.0, measured before."""
FLINK_TIMES = (50, 10, 3)
"""How often Flink is measured at each size; Java needs some to get warm."""
JAVA = Path(__file__).with_name("AssignStates.java")
SOURCE, KEYED = OperatorIDPair("a" * 32), OperatorIDPair("b" * 32)
ENTRIES = tuple(range(0, 1000, 100))


def operator_handle(subtask: int, union: bool) -> OperatorStreamStateHandle:
    states = {f"split-{name}": StateMetaInfo(ENTRIES, OperatorStateMode.SPLIT_DISTRIBUTE) for name in range(4)}
    if union:
        states["union"] = StateMetaInfo(ENTRIES, OperatorStateMode.UNION)
    return OperatorStreamStateHandle(states, FileStateHandle(f"op-{subtask}", 1000))


def states(row: str, old: int) -> dict[str, OperatorState]:
    split, union, channels = "s" in row, "u" in row, "c" in row
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


def quickest_ms(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        result = work()
        taken.append((time.perf_counter() - start) * 1000)
        del result
    return min(taken)


def ours_ms(row: str, old: int, new: int, times: int) -> tuple[float, float]:
    """Return the milliseconds of the assignment alone, and with the states of all subtasks."""
    vertices = [AssignmentVertex("source", new, (SOURCE,)), AssignmentVertex("keyed", new, (KEYED,))]
    edges = [AssignmentEdge.of(0, 1, "hash")]
    found = states(row, old)
    if "c" not in row:  # without in-flight data one vertex is enough
        vertices, edges = vertices[1:], []
        del found[SOURCE.generated_id]

    def assign() -> StateAssignment:
        return assign_states(vertices, edges, found, 1)

    def assign_and_make_all() -> None:
        for of_vertex in assign().restores:
            for _ in of_vertex:
                pass

    return quickest_ms(assign, times), quickest_ms(assign_and_make_all, times)


def flinks_ms() -> dict[str, tuple[float, ...]]:
    """Return Flink's milliseconds for each row, on the same machine. Raises FlinkMissing."""
    fetch()
    jobs = [f"{row},{old},{new},{times}" for row in ROWS for (old, new), times in zip(SIZES, FLINK_TIMES, strict=True)]
    lines = iter(run_java(JAVA, *jobs, options=("-Xmx8g",)).splitlines())
    return {row: tuple(min(map(float, next(lines).split())) for _ in SIZES) for row in ROWS}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--times", type=int, default=7, help="how often to measure each; the quickest is shown")
    parser.add_argument("--without-flink", action="store_true", help="beside Flink's figures as measured before")
    given = parser.parse_args()
    sizes, times = (SMALLEST, 1) if given.smallest else (SIZES, given.times)
    ours = {row: [ours_ms(row, old, new, times) for old, new in sizes] for row in ROWS}
    flink, whose = FLINK_MS, "as measured before"
    if not given.without_flink and not given.smallest:
        print(f"Flink {VERSION} takes its turn: a minute or two", flush=True)
        try:
            flink, whose = flinks_ms(), f"{VERSION}, in this run"
        except FlinkMissing as missing:
            print(f"Flink's own is not measured: {missing}")
    print(f"ms, ours: assigned, all made / Flink's ({whose}), and how many times Flink's all of ours is quicker")
    print(f"{'state of each subtask':28}" + "".join(f"{f'{old}->{new}':>32}" for old, new in sizes) + "   growth")
    for row, what in ROWS.items():
        pairs = zip(ours[row], flink[row], strict=True)
        cells = "".join(
            f"{f'{assigned:.1f}, {made:.1f} / {theirs:.1f}  x{theirs / made:.1f}':>32}"
            for (assigned, made), theirs in pairs
        )
        (assigned, made), (of_more, more_made) = ours[row][1:]
        print(f"{what:28}{cells}   x{of_more / assigned:.1f}, x{more_made / made:.1f}")


if __name__ == "__main__":
    main()
