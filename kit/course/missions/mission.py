"""A mission: a start, a goal, a check of the run, hints, and a recorded solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kit.course.missions.moves import Move
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job


class Verdict(NamedTuple):
    """The result of a check: whether the mission is accomplished, and a sentence about what was found."""

    done: bool
    says: str


@dataclass(frozen=True)
class Mission:
    """One mission. `task` says what to do, and `check` judges a lab at its present step.

    The lab starts with the ready job `job`, these `settings` and `seed`.
    """

    name: str
    title: str
    task: str
    job: str
    check: Callable[[Lab], Verdict]
    hints: tuple[str, ...]
    solution: tuple[Move, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1

    def lab(self) -> Lab:
        """Return a new lab at the start of the mission."""
        return Lab(ready_job(self.job, **self.settings), seed=self.seed)

    @property
    def setup_code(self) -> str:
        """The Python code that makes that lab."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"env = ready_job({self.job!r}{arguments})\nlab = Lab(env, seed={self.seed})  # mission {self.name!r}"

    def __repr__(self) -> str:
        return f"Mission({self.name}: {self.title})"
