"""Checks of the lab "a repartitioner": operator state that is redistributed to another number of subtasks.

Single rules are checked by hand, with handles whose entries are at known offsets. The lab checks a job whose source
keeps its splits as such state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kit.core.state.handles import (
    ByteStreamStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import WANTED, letters, output, walked
from kit.hosts.lab.lab import Lab
from kit.machines.restore.own_repartitioner import OperatorStateRepartitioner
from kit.stream.settings.parts import Parts

Repartitioner = Callable[[], OperatorStateRepartitioner]
Handles = Sequence[OperatorStreamStateHandle]
Entry = tuple[str, int]
"""The file of an entry, and the entry's number in it."""
STOPPED_AT = 30
"""The number of steps before the job is stopped: it has then read some rows, and not all."""
SIZES = ((3, 2), (2, 3), (3, 1), (1, 4), (2, 2))


def held(mode: OperatorStateMode, entries: Sequence[int]) -> list[Handles]:
    """Return the state of each old subtask: one file with this number of entries of the state `offsets`."""
    found: list[Handles] = []
    for subtask, count in enumerate(entries):
        file = ByteStreamStateHandle(f"old-{subtask}", b"x" * 8 * max(count, 1))
        info = StateMetaInfo(tuple(8 * number for number in range(count)), mode)
        found.append([OperatorStreamStateHandle({"offsets": info}, file)] if count else [])
    return found


def entries_of(handles: Handles) -> Iterator[Entry]:
    """Yield the entries of these handles."""
    for handle in handles:
        for info in handle.state_name_to_partition_offsets.values():
            yield from ((str(getattr(handle.delegate, "handle_name", "")), offset // 8) for offset in info.offsets)


def _dealt(make: Repartitioner, previous: list[Handles], new: int) -> list[list[Entry]]:
    dealt = make().repartition_state(previous, len(previous), new)
    if dealt is None or len(dealt) != new:
        got = "None" if dealt is None else f"{len(dealt)} lists"
        raise NotYet(f"{len(previous)} subtasks became {new}, and the answer was {got}. Expected {new}: one for each.")
    return [sorted(entries_of(handles)) for handles in dealt]


def _words(entries: Sequence[Entry]) -> str:
    return ", ".join(f"entry {number} of {file}" for file, number in entries) or "nothing"


@check
def deals_every_entry_once(make: Repartitioner) -> str:
    """Check split state: no entry is lost, and none goes to two subtasks."""
    for old, new in SIZES:
        previous = held(OperatorStateMode.SPLIT_DISTRIBUTE, [3, 2, 4][:old])
        wanted = {entry for handles in previous for entry in entries_of(handles)}
        found = Counter(entry for mine in _dealt(make, previous, new) for entry in mine)
        told = f"{old} subtasks became {new}."
        if lost := sorted(wanted - set(found)):
            raise NotYet(f"{told} Nobody was given {_words(lost)}: that state is lost.")
        if twice := sorted(entry for entry, times in found.items() if times > 1):
            raise NotYet(f"{told} Several subtasks were given {_words(twice)}: what it stands for is done twice.")
    return f"{len(SIZES)} changes of the parallelism: every entry went to one subtask"


@check
def deals_evenly(make: Repartitioner) -> str:
    """Check split state: no subtask has two entries more than another."""
    for old, new in SIZES:
        if old == new:
            continue
        previous = held(OperatorStateMode.SPLIT_DISTRIBUTE, [6, 1, 2][:old])
        counts = [len(mine) for mine in _dealt(make, previous, new)]
        if max(counts) - min(counts) > 1:
            raise NotYet(
                f"{old} subtasks became {new}, and they have {counts} entries. Expected numbers that differ by one at "
                "most: one subtask would do most of the work."
            )
    return "numbers of entries differ by one at most"


@check
def gives_union_state_to_all(make: Repartitioner) -> str:
    """Check union state: every subtask gets all entries."""
    for old, new in SIZES:
        previous = held(OperatorStateMode.UNION, [3, 2, 4][:old])
        wanted = sorted(entry for handles in previous for entry in entries_of(handles))
        for subtask, mine in enumerate(_dealt(make, previous, new)):
            if mine != wanted:
                missing = sorted(set(wanted) - set(mine))
                raise NotYet(
                    f"{old} subtasks became {new}; the state is a union list. New subtask {subtask} was not given "
                    f"{_words(missing)}. Expected all entries of all old subtasks, for every new one."
                )
    return f"{len(SIZES)} changes of the parallelism: everybody got everything"


@check
def gives_one_copy_of_broadcast_state(make: Repartitioner) -> str:
    """Check broadcast state: every subtask gets one copy; the old subtasks had the same."""
    for old, new in SIZES:
        previous = held(OperatorStateMode.BROADCAST, [2, 2, 2][:old])
        for subtask, mine in enumerate(_dealt(make, previous, new)):
            copies = {file for file, _ in mine}
            if len(copies) != 1 or len(mine) != 2:
                raise NotYet(
                    f"{old} subtasks became {new}; the state is broadcast: each old subtask had the same. New subtask "
                    f"{subtask} was given {len(copies)} copies. Expected one."
                )
    return f"{len(SIZES)} changes of the parallelism: everybody got one copy"


@check
def rescales_a_job(make: Repartitioner) -> str:
    """Check in the lab: a job is stopped with two subtasks and resumed with others; each row is read once."""
    for seed, parallelism in enumerate((1, 3, 1, 4, 3, 1)):
        before = Lab(letters(interval_ms=2_000), seed=seed)
        before.run_until(until=lambda lab: lab.position >= STOPPED_AT)
        path = before.stop(wait=True)
        parts = Parts(operator_state_repartitioner=make)
        after = Lab(letters(parallelism=parallelism), restore_path=path, after=before, parts=parts, seed=seed)
        walked(after)
        found = output(after)
        last = {key: max((row[1] for row in found if row[0] == key), default=0) for key in "abc"}
        for key, total in last.items():
            if total != 8:
                what = "rows were lost" if total < 8 else "rows were read twice"
                raise NotYet(
                    f"The job was stopped with 2 subtasks and went on with {parallelism}. The sum of {key!r} should "
                    f"end at 8 and ends at {total}: {what}. The source's splits are such a state.",
                    after,
                )
        if set(found) != WANTED:
            raise NotYet(f"After the rescale {len(WANTED - set(found))} rows are missing.", after)
    return "stopped with 2 subtasks, went on with 1, 3 and 4: every row read once"
