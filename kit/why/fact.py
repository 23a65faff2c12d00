"""What an answer to "why?" is made of: facts, each with those that led to it, down to where the trace ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from kit.core.protocol.trace import TraceRecord
from kit.run.captions import listed

NOT_TOLD = "the trace does not tell"
MOST = 8
"""Of causes that are alike so many are told one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """What is so, `because` of these; one that rests on nothing is a first cause. `record` tells of it, if one does."""

    says: str
    because: tuple[Fact, ...] = ()
    record: TraceRecord | None = None

    @property
    def is_root(self) -> bool:
        """Whether nothing lies below it."""
        return not self.because

    def __repr__(self) -> str:
        return f"Fact({self.says!r}, {len(self.because)} causes)"


def fact(says: str, *because: Fact | None, record: TraceRecord | None = None) -> Fact:
    """A fact and what it rests on, as far as that is known."""
    return Fact(says, tuple(each for each in because if each is not None), record)


def untold(what: str) -> Fact:
    """A dead end: nothing in the trace says more."""
    return Fact(f"{what}: {NOT_TOLD}")


def some(facts: Sequence[Fact], what: str) -> tuple[Fact, ...]:
    """Causes that are alike: of very many the first ones, and how many more there are."""
    more = len(facts) - MOST
    return tuple(facts) if more <= 1 else (*facts[:MOST], Fact(f"and so do {more} more {what}"))


def named(tasks: Iterable[str]) -> str:
    """Tasks in a sentence: each by its name, of very many how many of each vertex."""
    names = [*tasks]
    return ", ".join(names) if len(names) <= MOST else listed(names)


@dataclass(frozen=True, slots=True)
class Told:
    """A fact in its place in the story: its number, that of the fact it explains (0: the question), how far it is
    indented (by one wherever a fact has several causes), and where it was told before (0: nowhere).
    """

    number: int
    because_of: int
    depth: int
    fact: Fact
    at_ms: int | None = None
    """When its record was made, since the first one of the run."""
    before: int = 0
    link: str = ""
    """"because ", or "and because " where it is not the first cause told."""

    @property
    def says(self) -> str:
        """What it says here."""
        return f"{self.fact.says} (see {self.before})" if self.before else self.fact.says


def story(answer: Fact, began_ms: int = 0) -> Iterator[Told]:
    """A fact and all below it, causes after what they explain; what lies below a fact is told once. The run began at
    `began_ms`.
    """
    numbers: dict[int, int] = {}
    waiting = [(answer, 0, 0, "")]
    for number in count(1):
        if not waiting:
            return
        each, because_of, depth, link = waiting.pop()
        before = numbers.setdefault(id(each), number)
        at_ms = None if each.record is None else each.record.at_ms - began_ms
        yield Told(number, because_of, depth, each, at_ms, before if before != number else 0, link)
        if before == number:
            deeper = depth + (len(each.because) > 1)
            links = ["because ", *["and because "] * len(each.because)]
            waiting += reversed([(cause, number, deeper, link) for cause, link in zip(each.because, links)])
