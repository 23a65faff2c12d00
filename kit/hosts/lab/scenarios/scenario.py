"""Scenarios: hard cases of checkpointing as small scripts, each a lesson, a test and a replay.

    scenario = open_scenario("late-ack")
    scenario.next()             # one block: the reason, the commands, their outcome, and the state of the job
    scenario.run()              # the rest
    scenario.lab                # the lab at this moment: step further, look, ask why

`list_scenarios()` lists them. `open_scenario` finds a scenario by its name, or by the Flink tests whose behaviour it
shows. `kit.hosts.lab.scenarios.scenario_text` has the format, `kit.hosts.lab.scenarios.scenario_commands` the commands.
"""

from __future__ import annotations

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
from kit.hosts.lab.scenarios.block_run import BlockRun
from kit.hosts.lab.scenarios.scenario_commands import Job, Scene, carry_out
from kit.hosts.lab.scenarios.scenario_outcome import NOTHING, ROWS_ONLY, outcome
from kit.hosts.lab.scenarios.scenario_text import ScenarioError, ScenarioText, parse
from kit.hosts.lab.scenarios.scenario_writing import scenario_lines, scenario_of
from kit.run.run import Run, run_of

SUFFIX = ".scenario"
PAGE_HEIGHT = 900
DIRECTORY = Path(__file__).parent / "library"
"""The directory of the scenarios that come with the kit."""


class Scenario(Showing):
    """A scenario in progress. `block_runs` are the blocks that were run so far, and `lab` is the lab after them.
    Anything that shows a run also shows a scenario.
    """

    def __init__(self, text: ScenarioText, where: str = "", job: Job | None = None) -> None:
        self.text = text
        self._job = job
        self._where = where or f"{text.name}{SUFFIX}"
        self.block_runs: list[BlockRun] = []
        self._notes: list[list[tuple[int, str]]] = [[]]
        """For each lab what the reader is told, and before which record."""
        try:
            self._scene = Scene(text.job, job)
        except Exception as error:
            raise ScenarioError(f"{self._where}:1: the job {text.job!r}: {error}") from error
        self._shown = 0

    @property
    def lab(self) -> Lab:
        """The lab at the present block."""
        return self._scene.lab

    @property
    def labs(self) -> list[Lab]:
        """All labs of the scenario, the first run first."""
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
        """True if all blocks have been run."""
        return len(self.block_runs) == len(self.text.blocks)

    def next(self) -> BlockRun:
        """Run the next block. Raises ScenarioError, naming file and line, for a command that cannot be done, and
        LabError at the end. A block that is interrupted is undone.
        """
        if self.done:
            raise LabError(f"the scenario {self.text.name!r} is at its end; continue with scenario.lab")
        scene, shown, notes = self._scene.standing(), self._shown, [list(each) for each in self._notes]
        try:
            return self._next()
        except KeyboardInterrupt:
            with interrupts_deferred():
                self._scene.go_back(scene)
                self._shown, self._notes = shown, notes
            raise

    def _next(self) -> BlockRun:
        block = self.text.blocks[len(self.block_runs)]
        lab, lines = self.lab, []
        begin = self._shown
        if block.prose:
            self._notes[-1].append((begin, block.prose))
        for command in block.commands:
            try:
                level = carry_out(self._scene, command.text)
            except LabError as error:
                raise ScenarioError(f"{self._where}:{command.line}: {error}") from error
            lines += self._outcome_of(level, lab)
            lab = self.lab
        lines = [line for line in lines if line != ROWS_ONLY] or lines[:1]
        title = f"{self.text.title}: {len(self.block_runs) + 1} of {len(self.text.blocks)}"
        until = Run(self.trace[: self._shown], run_of(self.lab).known)
        block_run = BlockRun(block, tuple(lines) or (NOTHING,), begin, self._shown, until, title)
        self.block_runs.append(block_run)
        return block_run

    def _outcome_of(self, level: int, before: Lab) -> list[str]:
        """Return the outcome of the last command: its records, and the output of `show`."""
        if self.lab is not before:
            self._shown = 0
            self._notes.append([(0, text) for _, text in self._notes[-1][-1:]])
        records = self.trace.since(self._shown)
        self._shown = len(self.trace)
        said, self._scene.said = self._scene.said, []
        return [*outcome(records, run_of(self.lab).stages, level), *said]

    def run(self) -> Scenario:
        """Run all remaining blocks."""
        while not self.done:
            self.next()
        return self

    @property
    def as_run(self) -> ScenarioText:
        """Return the text with the actual outcomes; the scenario must be at its end."""
        return self.run().text.with_outcomes([block_run.outcome for block_run in self.block_runs])

    @property
    def differences(self) -> str:
        """Return the differences between the actual and the expected outcomes, as a diff; "" if there are none."""
        expected, actual = str(self.text).splitlines(), str(self.as_run).splitlines()
        return "\n".join(unified_diff(expected, actual, self._where, "as run", lineterm=""))

    def __repr__(self) -> str:
        count = f"{len(self.block_runs)} of {len(self.text.blocks)} blocks run"
        return f"Scenario({self.text.name}: {self.text.title}; {count})"

    def pages(self) -> list[str]:
        """Return the whole scenario, to step through: a page of HTML for each of its runs. Blocks not run yet are
        included.
        """
        pages: list[str] = display("scenario_pages", self.whole())
        return pages

    def whole(self) -> Scenario:
        """Return this scenario if all of it has been run, otherwise a copy run to its end."""
        return self if self.done else Scenario(self.text, self._where, self._job).run()

    def _repr_html_(self) -> str:
        """Return the player of an exported page."""
        style = f"width: 100%; height: {PAGE_HEIGHT}px; border: 0"
        return "".join(f'<iframe style="{style}" srcdoc="{escape(page)}"></iframe>' for page in self.pages())


# ---- the scenarios there are -----------------------------------------------------------------------------------------


def read_scenario(path: str | PathLike[str]) -> ScenarioText:
    """Read a scenario from a file. Raises ScenarioError or OSError."""
    file = Path(path)
    return parse(file.stem, file.read_text(encoding="utf-8"), str(path))


@lru_cache
def all_scenarios() -> dict[str, ScenarioText]:
    """Return the scenarios that come with the kit, by name."""
    files = sorted(DIRECTORY.glob(f"*{SUFFIX}"))
    return {file.stem: parse(file.stem, file.read_text(encoding="utf-8"), file.name) for file in files}


def list_scenarios() -> pd.DataFrame:
    """Return the scenarios that come with the kit, one row each: name, title, question, Flink's names, job."""
    rows = [
        (scenario.name, scenario.title, scenario.question, ", ".join(scenario.flink), scenario.job)
        for scenario in all_scenarios().values()
    ]
    return pd.DataFrame(rows, columns=["name", "title", "question", "flink", "job"])


def find_scenario(name: str) -> ScenarioText:
    """Return the scenario of this name, or the first that shows the Flink test of this name.

    A test is `Class.method`, `method` or `Class`. Case is ignored, and a part of a name that is unique is enough.
    Raises LabError with the nearest names.
    """
    texts = all_scenarios()
    wanted = name.lower().replace("_", "-").strip()
    for names in ({text.name: text for text in texts.values()}, _by_flink_name()):
        if wanted in names:
            return names[wanted]
    alike = {text.name: text for key, text in _by_flink_name().items() if wanted in key}
    alike |= {key: text for key, text in texts.items() if wanted in key}
    if len(alike) == 1:
        return next(iter(alike.values()))
    known = list(alike) or nearest(wanted, [*texts, *_by_flink_name()])
    raise LabError(
        f"no scenario is called {name!r}; did you mean {enumerated(known)}? list_scenarios() lists all {len(texts)}"
    )


@lru_cache
def _by_flink_name() -> dict[str, ScenarioText]:
    """Return the first scenario for each test, keyed in lower case by method, by class and method, and by class."""
    found: dict[str, ScenarioText] = {}
    for text in all_scenarios().values():
        for full in text.flink:
            test, _, method = full.lower().rpartition(".")
            for key in (f"{test}.{method}", method, test):
                found.setdefault(key, text)
    return found


def open_scenario(name: str | PathLike[str], job: Job | None = None) -> Scenario:
    """Open the scenario of this name, or in this file, at its beginning.

    A scenario of your own job takes `job`: that job, or a function that makes it for a parallelism.
    """
    if not isinstance(name, str | PathLike):
        raise LabError(f"name is {name!r}, but must be the name of a scenario, or the path of its file")
    if not isinstance(name, str) or name.endswith(SUFFIX):
        return Scenario(read_scenario(name), str(name), job)
    return Scenario(find_scenario(name), job=job)


def save_scenario(lab: Lab, path: str | PathLike[str], job: str = "", title: str = "", question: str = "") -> Path:
    """Write the steps of a lab and their outcomes as a scenario, and return its path, which ends in `.scenario`.

    `job` is the ready job with the lab's settings. A scenario of any other job must be opened with that job. Raises
    LabError if the run resumed from another lab's, or if the scenario does not reproduce it, and FileNotFoundError if
    the directory does not exist.
    """
    if not isinstance(path, str | PathLike):
        raise LabError(f"path is {path!r}, but must be the path of a file, such as 'mine.scenario'")
    file = file_of(path)
    if file.suffix != SUFFIX:
        raise LabError(f"{path} is to hold a scenario: let its name end in {SUFFIX!r}")
    title = title or f"A run of {lab.job.name}"
    question = question or f"What happened in {lab.position} steps of {lab.job.name}?"
    text = scenario_of(scenario_lines(lab.past.actions), file.stem, job or lab.job.name, title, question)
    again = Scenario(text, str(file), None if job else lab.job).run()
    if list(again.trace) != list(lab.trace):
        raise LabError(f"done again, this run comes out otherwise: is the job {text.job!r} that of {lab!r}?")
    file.write_text(str(again.as_run), encoding="utf-8")
    return file
