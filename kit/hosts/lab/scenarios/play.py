"""Plays: hard cases of checkpointing as small scripts, each a lesson, a test and a replay.

    play = open_play("late-ack")
    play.next()             # one block: the reason, the commands, their outcome, and the state of the job
    play.run()              # the rest
    play.lab                # the lab at this moment: step further, look, ask why

`plays()` lists them. `open_play` finds a play by its name, or by the Flink tests whose behaviour it shows.
`kit.hosts.lab.scenarios.play_text` has the format, `kit.hosts.lab.scenarios.play_commands` the commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from functools import lru_cache
from html import escape
from os import PathLike
from pathlib import Path

import pandas as pd

from kit.core.display import display
from kit.core.trace.json_lines import file_of
from kit.core.trace.showing import Showing
from kit.core.trace.trace import Trace
from kit.hosts.lab.errors import LabError, enumerated, nearest
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.scenarios.play_commands import Job, Scene, carry_out
from kit.hosts.lab.scenarios.play_outcome import NOTHING, ROWS_ONLY, outcome
from kit.hosts.lab.scenarios.play_text import PlayError, PlayText, parse
from kit.hosts.lab.scenarios.play_writing import play_of
from kit.hosts.lab.scenarios.played import Played
from kit.run.run import Run, run_of

SUFFIX = ".play"
PAGE_HEIGHT = 900
DIRECTORY = Path(__file__).parent / "plays"
"""The directory of the plays that come with the kit."""


class Play(Showing):
    """A play in progress. `played` are the blocks so far, and `lab` is the lab after them. Anything that shows a run
    also shows a play.
    """

    def __init__(self, text: PlayText, where: str = "", job: Job | None = None) -> None:
        self.text = text
        self._job = job
        self._where = where or f"{text.name}{SUFFIX}"
        self.played: list[Played] = []
        self._notes: list[list[tuple[int, str]]] = [[]]
        """For each lab what the reader is told, and before which record."""
        try:
            self._scene = Scene(text.job, job)
        except Exception as error:
            raise PlayError(f"{self._where}:1: the job {text.job!r}: {error}") from error
        self._shown = 0

    @property
    def lab(self) -> Lab:
        """The lab at the present block."""
        return self._scene.lab

    @property
    def labs(self) -> list[Lab]:
        """All labs of the play, the first run first."""
        return list(self._scene.labs)

    @property
    def trace(self) -> Trace:
        """The trace of that lab."""
        return self.lab.trace

    @property
    def notes(self) -> tuple[tuple[int, str], ...]:
        """The prose for that lab's run, each text with the number of records before it."""
        return tuple(self._notes[-1])

    @property
    def runs(self) -> list[Run]:
        """The runs of all labs, with the prose for each."""
        return [Run(lab.trace, run_of(lab).stages, tuple(notes)) for lab, notes in zip(self.labs, self._notes)]

    @property
    def done(self) -> bool:
        """True if all blocks have been played."""
        return len(self.played) == len(self.text.blocks)

    def next(self) -> Played:
        """Play the next block. Raises PlayError, naming file and line, for a command that cannot be done, and LabError
        at the end. A block that is interrupted is undone.
        """
        if self.done:
            raise LabError(f"the play {self.text.name!r} is at its end; continue with play.lab")
        scene, shown, notes = self._scene.standing(), self._shown, [list(each) for each in self._notes]
        try:
            return self._next()
        except KeyboardInterrupt:
            with interrupts_deferred():
                self._scene.go_back(scene)
                self._shown, self._notes = shown, notes
            raise

    def _next(self) -> Played:
        block = self.text.blocks[len(self.played)]
        lab, told = self.lab, []
        begin = self._shown
        if block.prose:
            self._notes[-1].append((begin, block.prose))
        for command in block.commands:
            try:
                level = carry_out(self._scene, command.text)
            except LabError as error:
                raise PlayError(f"{self._where}:{command.line}: {error}") from error
            told += self._told(level, lab)
            lab = self.lab
        told = [line for line in told if line != ROWS_ONLY] or told[:1]
        title = f"{self.text.title}: {len(self.played) + 1} of {len(self.text.blocks)}"
        until = Run(self.trace[: self._shown], run_of(self.lab).known)
        played = Played(block, tuple(told) or (NOTHING,), begin, self._shown, until, title)
        self.played.append(played)
        return played

    def _told(self, level: int, before: Lab) -> list[str]:
        """Return the outcome of the last command: its records, and the output of `show`."""
        if self.lab is not before:
            self._shown = 0
            self._notes.append([(0, text) for _, text in self._notes[-1][-1:]])
        records = self.trace.since(self._shown)
        self._shown = len(self.trace)
        said, self._scene.said = self._scene.said, []
        return [*outcome(records, run_of(self.lab).stages, level), *said]

    def run(self) -> Play:
        """Play all remaining blocks."""
        while not self.done:
            self.next()
        return self

    @property
    def as_played(self) -> PlayText:
        """Return the text with the actual outcomes; the play must be at its end."""
        return self.run().text.with_outcomes([played.outcome for played in self.played])

    @property
    def differences(self) -> str:
        """Return the differences between the actual and the expected outcomes, as a diff; "" if there are none."""
        told, came = str(self.text).splitlines(), str(self.as_played).splitlines()
        return "\n".join(unified_diff(told, came, self._where, "as played", lineterm=""))

    def __repr__(self) -> str:
        return f"Play({self.text.name}: {self.text.title}; {len(self.played)} of {len(self.text.blocks)} blocks played)"

    def pages(self) -> list[str]:
        """Return the whole play, to step through: a page of HTML for each of its runs. Blocks not played yet are
        included.
        """
        pages: list[str] = display("play_pages", self.whole())
        return pages

    def whole(self) -> Play:
        """Return this play if all of it has been played, otherwise a copy played to its end."""
        return self if self.done else Play(self.text, self._where, self._job).run()

    def _repr_html_(self) -> str:
        """Return the player of an exported page."""
        style = f"width: 100%; height: {PAGE_HEIGHT}px; border: 0"
        return "".join(f'<iframe style="{style}" srcdoc="{escape(page)}"></iframe>' for page in self.pages())


# ---- the plays there are --------------------------------------------------------------------------------------------


def read_play(path: str | PathLike[str]) -> PlayText:
    """Read a play from a file. Raises PlayError or OSError."""
    file = Path(path)
    return parse(file.stem, file.read_text(encoding="utf-8"), str(path))


@lru_cache
def all_plays() -> dict[str, PlayText]:
    """Return the plays that come with the kit, by name."""
    return {file.stem: parse(file.stem, file.read_text(encoding="utf-8"), file.name) for file in _files()}


def _files() -> Iterator[Path]:
    yield from sorted(DIRECTORY.glob(f"*{SUFFIX}"))


def plays() -> pd.DataFrame:
    """Return the plays that come with the kit, one row each: name, title, question, Flink's names, job."""
    rows = [(play.name, play.title, play.question, ", ".join(play.flink), play.job) for play in all_plays().values()]
    return pd.DataFrame(rows, columns=["name", "title", "question", "flink", "job"])


def find_play(name: str) -> PlayText:
    """Return the play of this name, or the first that shows the Flink test of this name.

    A test is `Class.method`, `method` or `Class`. Case is ignored, and a part of a name that is unique is enough.
    Raises LabError with the nearest names.
    """
    texts = all_plays()
    wanted = name.lower().replace("_", "-").strip()
    for names in ({text.name: text for text in texts.values()}, _by_flink_name()):
        if wanted in names:
            return names[wanted]
    alike = {text.name: text for key, text in _by_flink_name().items() if wanted in key}
    alike |= {key: text for key, text in texts.items() if wanted in key}
    if len(alike) == 1:
        return next(iter(alike.values()))
    known = list(alike) or nearest(wanted, [*texts, *_by_flink_name()])
    raise LabError(f"no play is called {name!r}; did you mean {enumerated(known)}? plays() lists all {len(texts)}")


@lru_cache
def _by_flink_name() -> dict[str, PlayText]:
    """Return the first play for each test, keyed in lower case by method, by class and method, and by class."""
    found: dict[str, PlayText] = {}
    for text in all_plays().values():
        for full in text.flink:
            test, _, method = full.lower().rpartition(".")
            for key in (f"{test}.{method}", method, test):
                found.setdefault(key, text)
    return found


def open_play(name: str | PathLike[str], job: Job | None = None) -> Play:
    """Open the play of this name, or in this file, at its beginning.

    A play of your own job takes `job`: that job, or a function that makes it for a parallelism.
    """
    if not isinstance(name, str | PathLike):
        raise LabError(f"name is {name!r}, but must be the name of a play, or the path of its file")
    if not isinstance(name, str) or name.endswith(SUFFIX):
        return Play(read_play(name), str(name), job)
    return Play(find_play(name), job=job)


def save_play(lab: Lab, path: str | PathLike[str], job: str = "", title: str = "", question: str = "") -> Path:
    """Write the steps of a lab and their outcomes as a play, and return its path, which ends in `.play`.

    `job` is the ready job with the lab's settings. A play of any other job must be opened with that job. Raises
    LabError if the run resumed from another lab's, or if the play does not reproduce it, and FileNotFoundError if the
    directory does not exist.
    """
    if not isinstance(path, str | PathLike):
        raise LabError(f"path is {path!r}, but must be the path of a file, such as 'mine.play'")
    file = file_of(path)
    if file.suffix != SUFFIX:
        raise LabError(f"{path} is to hold a play: let its name end in {SUFFIX!r}")
    title = title or f"A run of {lab.job.name}"
    question = question or f"What happened in {lab.position} steps of {lab.job.name}?"
    text = play_of(lab.past.actions, file.stem, job or lab.job.name, title, question)
    again = Play(text, str(file), None if job else lab.job).run()
    if list(again.trace) != list(lab.trace):
        raise LabError(f"done again, this run comes out otherwise: is the job {text.job!r} that of {lab!r}?")
    file.write_text(str(again.as_played), encoding="utf-8")
    return file
