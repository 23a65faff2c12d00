"""Checks of the lab "a repartitioner": operator state that is redistributed to another number of subtasks.

By hand, handles with entries at known offsets are redistributed, in many layouts of files and names. The lab checks a
job whose source keeps its splits as such state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from kit.core.state.handles import ByteStreamStateHandle, OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import WANTED, letters, output, walked
from kit.course.classroom.searching import chance
from kit.hosts.lab.lab import Lab
from kit.machines.restore.own_repartitioner import OperatorStateRepartitioner
from kit.stream.settings.parts import Parts

Repartitioner = Callable[[], OperatorStateRepartitioner]
Handles = Sequence[OperatorStreamStateHandle]
Entry = tuple[str, str, int]
"""The file of an entry, the name of its state, and the entry's number there."""
STOPPED_AT = 30
"""The number of steps before the job is stopped: it has then read some rows, and not all."""
SIZES = ((3, 2), (2, 3), (3, 1), (1, 4), (2, 2))
LAYOUTS = 60
"""The number of random layouts of files and names, beside the plain ones."""
SPLIT, UNION, BROADCAST = OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION, OperatorStateMode.BROADCAST


def held(mode: OperatorStateMode, entries: Sequence[int]) -> list[Handles]:
    """Return the state of each old subtask: one file with this number of entries of the state `offsets`."""
    return [
        [_file(f"old-{subtask}", {"offsets": (mode, count)})] if count else [] for subtask, count in enumerate(entries)
    ]


def _file(name: str, states: Mapping[str, tuple[OperatorStateMode, int]]) -> OperatorStreamStateHandle:
    """Return a file with some states: for each name its mode and the number of its entries."""
    infos, at = {}, 0
    for state, (mode, count) in states.items():
        infos[state] = StateMetaInfo(tuple(range(at, at + 8 * count, 8)), mode)
        at += 8 * count
    return OperatorStreamStateHandle(infos, ByteStreamStateHandle(name, b"x" * max(at, 1)))


def layouts(chance: Random, *modes: OperatorStateMode) -> Iterator[tuple[list[Handles], int]]:
    """Yield the state of old subtasks, with the new parallelism: plain ones first, then several files and names."""
    for old, new in SIZES:
        yield held(modes[0], ([2, 2, 2] if modes[0] is BROADCAST else [3, 1, 4])[:old]), new
    for number in range(LAYOUTS):
        old, new = chance.randrange(1, 5), chance.randrange(1, 6)
        names = {f"{mode.name.lower()}-{each}": mode for mode in modes for each in range(chance.randrange(1, 3))}
        copies = {name: chance.randrange(1, 3) for name, mode in names.items() if mode is BROADCAST}
        previous: list[Handles] = []
        for subtask in range(old):
            counts = {name: (mode, copies.get(name) or chance.randrange(4)) for name, mode in names.items()}
            if number % 2:
                previous.append([_file(f"old-{subtask}-{name}", {name: each}) for name, each in counts.items()])
            else:
                previous.append([_file(f"old-{subtask}", counts)])
        yield previous, new


def entries_of(handles: Handles, mode: OperatorStateMode | None = None) -> Iterator[Entry]:
    """Yield the entries of these handles, of one mode or of all."""
    for handle in handles:
        file = str(getattr(handle.delegate, "handle_name", ""))
        for name, info in handle.state_name_to_partition_offsets.items():
            if mode is None or info.mode is mode:
                yield from ((file, name, offset // 8) for offset in info.offsets)


def _dealt(make: Repartitioner, previous: list[Handles], new: int, mode: OperatorStateMode) -> list[list[Entry]]:
    """Return the entries of this mode that each new subtask gets. Raises NotYet for handles that cannot be read."""
    dealt = make().repartition_state(previous, len(previous), new)
    if dealt is None or len(dealt) != new:
        got = "None" if dealt is None else f"{len(dealt)} lists"
        raise NotYet(f"{_case(previous, new)} The answer was {got}. Expected {new}: one for each.")
    modes = {name: info.mode for each in previous for handle in each for name, info in _infos(handle)}
    for handle in (handle for mine in dealt for handle in mine):
        for name, info in _infos(handle):
            if modes.get(name) is not info.mode:
                raise NotYet(f"{_case(previous, new)} The state {name!r} has the mode {info.mode}, not its own.")
    return [sorted(entries_of(handles, mode)) for handles in dealt]


def _infos(handle: OperatorStreamStateHandle) -> Iterable[tuple[str, StateMetaInfo]]:
    return handle.state_name_to_partition_offsets.items()


def _case(previous: list[Handles], new: int) -> str:
    """Return the question in words: the entries of each old subtask, and the number of new ones."""
    had = "; ".join(f"{number} had {_counts(handles)}" for number, handles in enumerate(previous))
    return f"{len(previous)} subtasks became {new}. Of the old ones, {had}."


def _counts(handles: Handles) -> str:
    counts = [
        f"{len(info.offsets)} of {name!r} in {getattr(handle.delegate, 'handle_name', '')}"
        for handle in handles
        for name, info in _infos(handle)
    ]
    return ", ".join(counts) or "nothing"


def _words(entries: Sequence[Entry]) -> str:
    return ", ".join(f"entry {number} of {name!r} in {file}" for file, name, number in entries[:4]) or "nothing"


@check
def deals_every_entry_once(make: Repartitioner) -> str:
    """Check split state: no entry is lost, and none goes to two subtasks."""
    for previous, new in layouts(chance("split"), SPLIT, BROADCAST, UNION):
        wanted = {entry for handles in previous for entry in entries_of(handles, SPLIT)}
        found = Counter(entry for mine in _dealt(make, previous, new, SPLIT) for entry in mine)
        case = _case(previous, new)
        if lost := sorted(wanted - set(found)):
            raise NotYet(f"{case} Nobody was given {_words(lost)}: that state is lost.")
        if twice := sorted(entry for entry, times in found.items() if times > 1):
            raise NotYet(f"{case} Several subtasks were given {_words(twice)}: what it stands for is done twice.")
    return f"{len(SIZES) + LAYOUTS} layouts of old files: every entry went to one subtask"


@check
def deals_evenly(make: Repartitioner) -> str:
    """Check split state: of one state, no subtask has two entries more than another."""
    for previous, new in layouts(chance("evenly"), SPLIT):
        dealt = _dealt(make, previous, new, SPLIT)
        names = {name for mine in dealt for _, name, _ in mine}
        counts = [len(mine) for mine in dealt]
        if max(counts) - min(counts) > max(1, len(names)):
            raise NotYet(
                f"{_case(previous, new)} They have {counts} entries. Expected numbers that differ by one at most for "
                "each state: one subtask would do most of the work."
            )
    return f"{len(SIZES) + LAYOUTS} layouts of old files: numbers of entries differ by one at most"


@check
def gives_union_state_to_all(make: Repartitioner) -> str:
    """Check union state: every subtask gets all entries."""
    for previous, new in layouts(chance("union"), UNION, SPLIT):
        wanted = sorted(entry for handles in previous for entry in entries_of(handles, UNION))
        for subtask, mine in enumerate(_dealt(make, previous, new, UNION)):
            if mine != wanted:
                missing = sorted(set(wanted) - set(mine))
                what = f"was not given {_words(missing)}" if missing else "was given some entries twice"
                raise NotYet(
                    f"{_case(previous, new)} New subtask {subtask} {what}. Expected all entries of all old subtasks, "
                    "once, for every new one."
                )
    return f"{len(SIZES) + LAYOUTS} layouts of old files: everybody got everything"


@check
def gives_one_copy_of_broadcast_state(make: Repartitioner) -> str:
    """Check broadcast state: of each state every subtask gets one copy; the old subtasks had the same."""
    for previous, new in layouts(chance("broadcast"), BROADCAST, SPLIT):
        copies = Counter((file, name) for handles in previous for file, name, _ in entries_of(handles, BROADCAST))
        for subtask, mine in enumerate(_dealt(make, previous, new, BROADCAST)):
            for state in sorted({name for _, name in copies}):
                found = Counter((file, name) for file, name, _ in mine if name == state)
                if len(found) != 1 or any(found[each] != copies[each] for each in found):
                    raise NotYet(
                        f"{_case(previous, new)} The state {state!r} is broadcast: each old subtask had the same. New "
                        f"subtask {subtask} was given {len(found)} copies. Expected one, with all its entries."
                    )
    return f"{len(SIZES) + LAYOUTS} layouts of old files: everybody got one copy of each state"


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
