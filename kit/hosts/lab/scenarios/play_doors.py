"""How a user opens and saves plays. A play knows labs in its turn: what opens and saves one is handed in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kit.core.lazily import Later
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph

OPEN_PLAY = Later("open a play")
SAVE_PLAY = Later("save a play")
Job = StreamEnvironment | JobGraph | Callable[[int], StreamEnvironment | JobGraph]


class PlayDoors:
    """The part of a `Lab` that opens and saves plays."""

    @staticmethod
    def play(name: str | os.PathLike[str], job: Job | None = None) -> Any:
        """A play at its beginning (`kit.hosts.lab.scenarios.play.Play`): by its name, by a test of Flink's that it
        shows, or a file, of a `job` of one's own if it says so, or a function that makes it for a parallelism.
        `kit.hosts.lab.plays()` lists those there are.

        Raises LabError with the nearest names.
        """
        return OPEN_PLAY(name, job)

    def save_play(self, path: str | os.PathLike[str], job: str = "", title: str = "", question: str = "") -> Any:
        """Write what was done in this lab as a play, to be read and opened again, and return the path (`*.play`).

        `job` is a ready job with the lab's settings; a play of another job is opened with that: `Lab.play(path, env)`.
        `lab.trace.save_recording` writes a recording, which `Lab.follow` does again. Raises LabError for a run that
        went on from another lab's.
        """
        return SAVE_PLAY(self, path, job, title, question)
