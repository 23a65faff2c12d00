"""Checks of the lab "rescale a job": key groups, files of state and in-flight records go to new subtasks.

Each rule is tried by hand with many parallelisms. Then a small job is rescaled again and again, in every order of
sending, reading and rescaling (`RescaleBench`), and real checkpoints of a bank are dealt out: no euro may be lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from random import Random
from typing import Any, Protocol

from kit.core.state.key_groups import key_group_partitions, operator_index_for_key_group
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.searching import chance, orders, searched
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.hosts.lab.lab import Lab
from kit.stream.backend.keys.key_hashing import assign_to_key_group

Range = tuple[int, int]
"""The first and the last of some key groups."""
SMALL = 8
"""All numbers of key groups up to this one are tried, with all parallelisms."""
LARGE = ((128, 5), (32_768, 3))
RANDOM_SIZES = 6
BANK_KEY_GROUPS, BANK_STEPS = 8, 90
BENCH_KEY_GROUPS, BENCH_MOST, BENCH_SENDERS = 6, 3, 2
BENCH_RECORDS = 3
"""The most records in the bench at once: with more, the search would not get to a rescale."""


class Rescale(Protocol):
    """The student's part; the lab's text says what each method returns."""

    def owner(self, key_group: int, max_parallelism: int, parallelism: int) -> int: ...

    def key_groups(self, subtask: int, max_parallelism: int, parallelism: int) -> Range: ...

    def state(self, old: list[Range], mine: Range) -> list[tuple[int, int, int]]: ...

    def buffers(self, old: list[Range], mine: Range) -> list[int]: ...

    def keeps(self, key_group: int, mine: Range) -> bool: ...

    def senders(self, subtask: int, old_parallelism: int, new_parallelism: int) -> list[int]: ...


Make = Callable[[], Rescale]


def _pair(found: Any) -> Range:
    """Return a range that the student's part returned. Raises NotYet for anything else."""
    if not isinstance(found, tuple | list) or len(found) != 2 or not all(_is_number(each) for each in found):
        raise NotYet(f"key_groups returned {found!r}. Expected two numbers: the first and the last key group.")
    return found[0], found[1]


def _is_number(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _list(found: Any, name: str) -> list[Any]:
    if not isinstance(found, list | tuple):
        raise NotYet(f"{name} returned {found!r}. Expected a list.")
    return list(found)


def sizes(chance: Random) -> Iterator[tuple[int, int]]:
    """Yield numbers of key groups, each with a parallelism."""
    yield from ((most, parallelism) for most in range(1, SMALL + 1) for parallelism in range(1, most + 1))
    yield from LARGE
    for _ in range(RANDOM_SIZES):
        most = chance.randrange(10, 60)
        yield most, chance.randrange(1, most + 1)


def _said(range_: Range) -> str:
    first, last = range_
    return f"key group {first}" if first == last else f"key groups {first} to {last}"


@check
def gives_each_key_group_an_owner(make: Make) -> str:
    """Check the owner of each key group, and the key groups of each subtask."""
    tried = 0
    for most, parallelism in sizes(chance("key groups")):
        part = make()
        of = f"{most} key groups, {parallelism} subtask{'s' * (parallelism > 1)}"
        step = max(1, most // 100)
        for key_group in {*range(0, most, step), most - 1}:
            found, right = part.owner(key_group, most, parallelism), key_group * parallelism // most
            if found != right or not _is_number(found):
                raise NotYet(
                    f"{of}: the owner of key group {key_group} is {found!r}. Expected {right}: "
                    f"{key_group} * {parallelism} // {most}."
                )
        for subtask, wanted in enumerate(key_group_partitions(most, parallelism)):
            mine = _pair(part.key_groups(subtask, most, parallelism))
            if mine != (wanted.start, wanted.end):
                raise NotYet(_wrong_range(of, subtask, mine, (wanted.start, wanted.end), most, parallelism))
        tried += 1
    return f"{tried} pairs of a number of key groups and a parallelism: each key group has one owner"


def _wrong_range(of: str, subtask: int, mine: Range, wanted: Range, most: int, parallelism: int) -> str:
    for key_group in range(most):
        owned = operator_index_for_key_group(most, parallelism, key_group) == subtask
        if owned != (mine[0] <= key_group <= mine[1]):
            why = "is missing, and then nobody has its keys" if owned else "belongs to another subtask as well"
            break
    else:
        why = "does not exist"
        key_group = mine[1]
    return (
        f"{of}: subtask {subtask} has the {_said(mine)}. Expected {_said(wanted)}: key group {key_group} {why}. "
        "`key_groups` and `owner` must agree."
    )


def _rescales(chance: Random) -> Iterator[tuple[list[Range], list[Range], str]]:
    """Yield the ranges of old subtasks and of new ones, with the question in words."""
    cases = [(most, old, new) for most in range(1, 6) for old in range(1, most + 1) for new in range(1, most + 1)]
    cases += [(128, 4, 6), (24, 23, 24)]
    for _ in range(RANDOM_SIZES):
        most = chance.randrange(8, 30)
        cases.append((most, chance.randrange(1, most + 1), chance.randrange(1, most + 1)))
    for most, old, new in cases:
        yield _ranges(most, old), _ranges(most, new), f"{most} key groups, {old} subtasks become {new}"


def _ranges(most: int, parallelism: int) -> list[Range]:
    return [(each.start, each.end) for each in key_group_partitions(most, parallelism)]


def _parts(part: Rescale, old: list[Range], mine: Range) -> list[tuple[int, int, int]]:
    found = _list(part.state(list(old), mine), "state")
    for each in found:
        if not isinstance(each, tuple | list) or len(each) != 3 or not all(_is_number(value) for value in each):
            raise NotYet(f"state has the entry {each!r}. Expected (old subtask, first key group, last key group).")
    return [(each[0], each[1], each[2]) for each in found]


@check
def reads_each_file_in_parts(make: Make) -> str:
    """Check that each new subtask reads its key groups from the old files that have them, once, and nothing else."""
    tried = 0
    for old, new, case in _rescales(chance("state")):
        part = make()
        for mine in new:
            _compare_parts(_parts(part, old, mine), old, mine, f"{case}. The new subtask of the {_said(mine)}")
        tried += 1
    return f"{tried} rescales: each key group was read once, from the file that has it"


def _compare_parts(parts: list[tuple[int, int, int]], old: list[Range], mine: Range, who: str) -> None:
    read: list[int] = []
    for subtask, first, last in parts:
        if not 0 <= subtask < len(old):
            raise NotYet(
                f"{who} reads the file of old subtask {subtask}, which there is not: they are 0 to {len(old) - 1}."
            )
        if first > last:
            raise NotYet(f"{who} reads the key groups {first} to {last} of a file: none. Leave such a part out.")
        if first < old[subtask][0] or last > old[subtask][1]:
            raise NotYet(
                f"{who} reads the {_said((first, last))} of old subtask {subtask}, whose file has only the "
                f"{_said(old[subtask])}."
            )
        if first < mine[0] or last > mine[1]:
            raise NotYet(
                f"{who} reads the {_said((first, last))} of old subtask {subtask}: another subtask owns some of them, "
                "and a key would have two owners."
            )
        read += range(first, last + 1)
    times = Counter(read)
    for key_group in range(mine[0], mine[1] + 1):
        if not times[key_group]:
            raise NotYet(f"{who} does not read key group {key_group}: its state is lost.")
        if times[key_group] > 1:
            raise NotYet(f"{who} reads key group {key_group} {times[key_group]} times.")


@check
def sorts_what_was_in_flight(make: Make) -> str:
    """Check which old channels a new subtask reads, and which of the records there it keeps."""
    tried = 0
    for old, new, case in _rescales(chance("in flight")):
        part = make()
        for mine in new:
            who = f"{case}. The new subtask of the {_said(mine)}"
            found = _list(part.buffers(list(old), mine), "buffers")
            wanted = [number for number, each in enumerate(old) if each[0] <= mine[1] and mine[0] <= each[1]]
            _compare_buffers(found, wanted, old, who)
            for key_group in {mine[0] - 1, mine[0], mine[1], mine[1] + 1}:
                kept = part.keeps(key_group, mine)
                if bool(kept) != (mine[0] <= key_group <= mine[1]):
                    why = "the record is lost" if not kept else "the record's owner keeps it too: it counts twice"
                    raise NotYet(f"{who} finds a record of key group {key_group}, and keeps returned {kept!r}: {why}.")
        tried += 1
    return f"{tried} rescales: each record has one subtask that reads and keeps it"


def _compare_buffers(found: list[Any], wanted: list[int], old: list[Range], who: str) -> None:
    if missing := [each for each in wanted if each not in found]:
        raise NotYet(
            f"{who} does not read the channels of old subtask {missing[0]}, to which records of the "
            f"{_said(old[missing[0]])} were under way: some of them are its own, and would be lost."
        )
    if extra := [each for each in found if each not in wanted]:
        raise NotYet(
            f"{who} reads the channels of old subtask {extra[0]!r}, and nothing there can be its own: with many "
            "subtasks each would read everything."
        )
    if len(found) > len(wanted):
        raise NotYet(f"{who} reads the channels of old subtasks {found}: one of them twice.")


@check
def sends_again_what_was_not_sent(make: Make) -> str:
    """Check that one new sender takes over each old one, and that the work is even."""
    tried = 0
    for old in range(1, 8):
        for new in range(1, 8):
            part = make()
            taken = [_list(part.senders(number, old, new), "senders") for number in range(new)]
            _compare_senders(taken, old, f"{old} senders become {new}")
            tried += 1
    return f"{tried} rescales of the senders: each old one is taken over once"


def _compare_senders(taken: list[list[Any]], old: int, case: str) -> None:
    times = Counter(each for mine in taken for each in mine)
    for number in range(old):
        if not times[number]:
            raise NotYet(f"{case}. Nobody takes over old sender {number}: what it had not sent yet is lost.")
        if times[number] > 1:
            raise NotYet(f"{case}. Several take over old sender {number}: its records are sent twice.")
    if extra := [each for each in times if each not in range(old)]:
        raise NotYet(f"{case}. Somebody takes over old sender {extra[0]!r}, which there is not.")
    counts = [len(mine) for mine in taken]
    if max(counts) - min(counts) > 1:
        raise NotYet(f"{case}. They take over {counts} old ones: expected numbers that differ by one at most.")


class RescaleBench:
    """A job by hand: senders, channels, and receivers that count records by key group; each record counts once."""

    def __init__(self, make: Make) -> None:
        self._part = make()
        self._senders = BENCH_SENDERS
        self._ranges = _ranges(BENCH_KEY_GROUPS, 2)
        self._counted: list[set[int]] = [set(), set()]
        """The records that each receiver has counted."""
        self._channels: dict[tuple[int, int], list[int]] = {}
        """The records under way from a sender to a receiver."""
        self._key_group: list[int] = []
        """The key group of each record."""

    def choices(self) -> list[str]:
        """Return what may happen next."""
        found = []
        if len(self._key_group) < BENCH_RECORDS:
            pairs = ((sender, group) for sender in range(self._senders) for group in (0, 2, 3, 5))
            found += [f"sender {sender} sends a record of key group {group}" for sender, group in pairs]
        found += [
            f"receiver {receiver} reads from sender {sender}"
            for (sender, receiver), each in self._channels.items()
            if each
        ]
        most = range(1, BENCH_MOST + 1)
        found += [f"rescale the receivers to {number}" for number in most if number != len(self._ranges)]
        return found + [f"rescale the senders to {number}" for number in most if number != self._senders]

    def do(self, step: str) -> None:
        """Do it. Raises NotYet for a record that is lost, counts twice or has come to the wrong receiver."""
        numbers = [int(word) for word in step.split() if word.isdigit()]
        if step.startswith("sender"):
            self._send(*numbers)
        elif step.startswith("receiver"):
            receiver, sender = numbers
            self._counted[receiver].add(self._channels[sender, receiver].pop(0))
        elif step.startswith("rescale the receivers"):
            self._rescale_receivers(*numbers)
        else:
            self._rescale_senders(*numbers)
        self._each_once()

    def _send(self, sender: int, group: int) -> None:
        self._key_group.append(group)
        owner = self._part.owner(group, BENCH_KEY_GROUPS, len(self._ranges))
        self._channels.setdefault((sender, owner), []).append(len(self._key_group) - 1)

    def _rescale_receivers(self, number: int) -> None:
        old, counted, channels = self._ranges, self._counted, self._channels
        self._ranges = [_pair(self._part.key_groups(each, BENCH_KEY_GROUPS, number)) for each in range(number)]
        self._counted, self._channels = [], {}
        for receiver, mine in enumerate(self._ranges):
            parts = [each for each in _parts(self._part, old, mine) if 0 <= each[0] < len(old)]
            read = [
                record
                for subtask, first, last in parts
                for record in counted[subtask]
                if first <= self._key_group[record] <= last
            ]
            self._counted.append(set(read))
            for (sender, subtask), records in channels.items():
                if subtask in _list(self._part.buffers(list(old), mine), "buffers"):
                    kept = [each for each in records if self._part.keeps(self._key_group[each], mine)]
                    self._channels.setdefault((sender, receiver), []).extend(kept)

    def _rescale_senders(self, number: int) -> None:
        channels, self._channels = self._channels, {}
        for sender in range(number):
            for old in _list(self._part.senders(sender, self._senders, number), "senders"):
                for (one, receiver), records in channels.items():
                    if one == old:
                        self._channels.setdefault((sender, receiver), []).extend(records)
        self._senders = number

    def _each_once(self) -> None:
        where: dict[int, list[int]] = {}
        for receiver, counted in enumerate(self._counted):
            for record in counted:
                where.setdefault(record, []).append(receiver)
        for (_, receiver), records in self._channels.items():
            for record in records:
                where.setdefault(record, []).append(receiver)
        for record, group in enumerate(self._key_group):
            found = where.get(record, [])
            if len(found) != 1:
                what = "lost" if not found else "there twice: it counts twice"
                raise NotYet(f"the record of key group {group} is {what}.")
            owner = operator_index_for_key_group(BENCH_KEY_GROUPS, len(self._ranges), group)
            if found[0] != owner:
                raise NotYet(
                    f"the record of key group {group} is with receiver {found[0]}. Expected {owner}, its owner."
                )


@cache
def _bank(seed: int) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the old parallelism of a bank's accounts, the accounts, and the postings in flight, from a checkpoint."""
    old = 1 + seed % 4
    job = ready_job("transfers", rows=24, unaligned=True, channel_credits=4, parallelism=old)
    lab = Lab(job, seed=seed)
    lab.run_until(until=lambda now: now.position >= BANK_STEPS + 10 * old)
    lab.trigger_checkpoint(wait=True)
    values = snapshot_contents(lab, checkpoint=1).values
    balances = next(table for table in values.of("keyed state") if table.name == "balance").to_pandas()
    accounts = [
        {"subtask": _subtask(row["task"]), "key_group": int(row["key_group"]), "euros": int(row["value"])}
        for row in balances.to_dict("records")
    ]
    postings = [
        {"account": posting["account"], "euros": posting["amount"], "subtask": receiver}
        for table in values.of("in flight")
        for row in table.to_pandas().to_dict("records")
        for receiver, posting in _postings(table.name, row)
    ]
    return old, accounts, postings


def _subtask(task: str) -> int:
    return int(task.rpartition("/")[2])


def _postings(name: str, row: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the posting of a row of in-flight data, with the old subtask to which it was under way."""
    if row["record"].startswith("{"):
        at_the_sender = name.startswith("partition")
        yield int(name.rpartition(" ")[2]) if at_the_sender else _subtask(row["task"]), json.loads(row["record"])


@check
def rescales_a_bank(make: Make) -> str:
    """Check every order of sending, reading and rescaling, and real checkpoints of a bank: no euro is lost."""
    by_hand = searched(partial(RescaleBench, make), runs=300, walks=30, length=12)
    seeds = orders(4)
    for seed in seeds:
        old, accounts, postings = _bank(seed)
        for new in (1, 2, 3, 5, 8):
            _deal(make(), old, new, accounts, postings)
    bank = f"{len(seeds)} checkpoints of a bank with postings in flight"
    return f"{by_hand}; {bank}, each dealt out to five parallelisms: no euro was lost"


def _deal(part: Rescale, old: int, new: int, accounts: Sequence[Any], postings: Sequence[Any]) -> None:
    before = _ranges(BANK_KEY_GROUPS, old)
    books: Counter[int] = Counter()
    """The number of times that each posting is booked."""
    euros = opened = 0
    for number in range(new):
        mine = _pair(part.key_groups(number, BANK_KEY_GROUPS, new))
        parts = _parts(part, before, mine)
        for account in accounts:
            times = sum(
                one == account["subtask"] and first <= account["key_group"] <= last for one, first, last in parts
            )
            euros += times * account["euros"]
            opened += times
        channels = _list(part.buffers(list(before), mine), "buffers")
        for place, posting in enumerate(postings):
            group = assign_to_key_group(posting["account"], BANK_KEY_GROUPS)
            if posting["subtask"] in channels and part.keeps(group, mine):
                books[place] += 1
                euros += posting["euros"]
    there = sum(account["euros"] for account in accounts) + sum(posting["euros"] for posting in postings)
    case = f"A bank went from {old} to {new} subtasks, and from {there} euros to {euros}"
    if opened != len(accounts):
        raise NotYet(f"{case}. It had {len(accounts)} accounts, and now there are {opened}.")
    wrong = [place for place in range(len(postings)) if books[place] != 1]
    if wrong:
        posting = postings[wrong[0]]
        raise NotYet(
            f"{case}. A posting of {posting['euros']} euros to {posting['account']} was in flight, and was booked "
            f"{books[wrong[0]]} times."
        )
