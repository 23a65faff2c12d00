"""The facts of an answer to "why?", each with its causes, down to the end of the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from kit.core.trace.trace import TraceRecord
from kit.run.captions import listed, lower_first

NOT_IN_TRACE = "the trace does not say"
MOST = 8
"""The number of similar causes that are listed one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A fact, with its causes (`because`); one without causes is a first cause. `record` is its record, if any."""

    says: str
    because: tuple[Fact, ...] = ()
    record: TraceRecord | None = None
    brief: str = ""
    """What a picture says, if `says` is too long for it."""
    awaits: str = ""
    """What the subject of the fact waits for, for a cell of a table: "its acknowledgement, on its way"."""

    @property
    def is_root(self) -> bool:
        """True if it has no causes."""
        return not self.because

    @property
    def in_short(self) -> str:
        """The fact in one sentence, with the last fault among its causes."""
        faults = [each.says for each in self.because if each.record is not None and each.record.role == "fault"]
        return (self.brief or self.says) + (f" ({lower_first(faults[-1])})" if faults else "")

    def __repr__(self) -> str:
        return f"Fact({self.says!r}, {len(self.because)} causes)"


def fact(
    says: str, *because: Fact | None, record: TraceRecord | None = None, brief: str = "", awaits: str = ""
) -> Fact:
    """Return a fact with its known causes."""
    return Fact(says, tuple(each for each in because if each is not None), record, brief, awaits)


def not_in_trace(what: str) -> Fact:
    """Return a fact whose cause is not in the trace."""
    return Fact(f"{what}: {NOT_IN_TRACE}")


def limited(facts: Sequence[Fact], what: str) -> tuple[Fact, ...]:
    """Return similar causes, or the first ones and the number of the others if there are many."""
    more = len(facts) - MOST
    return tuple(facts) if more <= 1 else (*facts[:MOST], Fact(f"and so do {more} more {what}"))


def task_names(tasks: Iterable[str]) -> str:
    """List tasks for a sentence: by name, or by their number per vertex if there are many."""
    names = [*tasks]
    return ", ".join(names) if len(names) <= MOST else listed(names)


@dataclass(frozen=True, slots=True)
class NumberedFact:
    """A fact at one place of the story."""

    number: int
    because_of: int
    """The number of the fact that it explains; 0 for the question."""
    depth: int
    """Its indentation: one more than that of the fact that it explains, if that has several causes."""
    fact: Fact
    at_ms: int | None = None
    """The time of its record, relative to the first one of the run."""
    before: int = 0
    """The number under which the same fact was listed before; 0 if it was not."""
    link: str = ""
    """"because ", or "and because " if it is not the first cause."""

    @property
    def says(self) -> str:
        """The sentence in the story."""
        return f"{self.fact.says} (see {self.before})" if self.before else self.fact.says


def story(answer: Fact, began_ms: int = 0) -> Iterator[NumberedFact]:
    """Yield a fact and all its causes, each after the fact that it explains. The causes of a fact are listed once. The
    run began at `began_ms`.
    """
    numbers: dict[int, int] = {}
    waiting = [(answer, 0, 0, "")]
    for number in count(1):
        if not waiting:
            return
        each, because_of, depth, link = waiting.pop()
        before = numbers.setdefault(id(each), number)
        at_ms = None if each.record is None else each.record.at_ms - began_ms
        yield NumberedFact(number, because_of, depth, each, at_ms, before if before != number else 0, link)
        if before == number:
            deeper = depth + (len(each.because) > 1)
            links = ["because ", *["and because "] * len(each.because)]
            waiting += reversed([(cause, number, deeper, link) for cause, link in zip(each.because, links)])
