"""The finders of mutants: all schedules of a small job, some seeds of the swarm, or one test.

A finder runs in its own process, in which the mutant is planted; it must find nothing without one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1200
"""So long a finder may take: on a machine that is busy with other things, several times what it takes alone."""


@dataclass(frozen=True)
class Found:
    """The result of a finder: whether it found something, its report, and the steps of its smallest counterexample."""

    found: bool
    how: str
    steps: int | None = None


@dataclass(frozen=True)
class BySwarm:
    """The first `seeds` seeds of the swarm. `job` has settings for all its jobs, `kinds` the kinds of interventions,
    separated by commas.
    """

    seeds: int = 200
    job: str = ""
    kinds: str = ""

    def __str__(self) -> str:
        return "swarm" + (f" ({self.job})" if self.job else "") + (f", {self.kinds}" if self.kinds else "")

    def look(self, environment: Mapping[str, str]) -> Found:
        """Look for the mutant that the environment names."""
        command = [sys.executable, "-m", "tests.mutants.by_swarm", str(self.seeds), self.job, self.kinds]
        done = _run(command, environment)
        try:
            return Found(**json.loads(done.stdout.splitlines()[-1]))
        except (IndexError, ValueError):
            raise RuntimeError(f"the swarm did not come to an end: {done.stderr[-2000:]}") from None


@dataclass(frozen=True)
class ByExplore:
    """All schedules of a job of `tests.verify.explore.jobs`, with this number of checkpoints and a `fault` if named."""

    job: str = "counts"
    checkpoints: int = 1
    fault: str = ""

    def __str__(self) -> str:
        return f"explore, {self.fault}" if self.fault else "explore"

    def look(self, environment: Mapping[str, str]) -> Found:
        """Look for the mutant that the environment names."""
        shape = [self.job, str(self.checkpoints), *([self.fault] if self.fault else [])]
        done = _run([sys.executable, "-m", "tests.mutants.by_explore", *shape], environment)
        try:
            return Found(**json.loads(done.stdout.splitlines()[-1]))
        except (IndexError, ValueError):
            raise RuntimeError(f"the exploration did not come to an end: {done.stderr[-2000:]}") from None


@dataclass(frozen=True)
class ByTest:
    """One test, by its node id below `tests/`. One that waits for what never comes fails after `patience_s`."""

    node: str
    patience_s: int = PATIENCE_S

    def __str__(self) -> str:
        return self.node

    def look(self, environment: Mapping[str, str]) -> Found:
        """Look for the mutant that the environment names."""
        try:
            failed = all_pass([self.node], environment, self.patience_s)
        except subprocess.TimeoutExpired:
            failed = f"not done after {self.patience_s} s"
        return Found(bool(failed), failed)


def all_pass(nodes: Sequence[str], environment: Mapping[str, str], patience_s: int = PATIENCE_S) -> str:
    """Run tests; "" when they all pass, else which does not, and why."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += [f"tests/{node}" for node in nodes]
    done = _run(command, {**environment, "HYPOTHESIS_PROFILE": "ci"}, patience_s)
    if done.returncode > 1:
        raise RuntimeError(f"{nodes} could not be run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    errors = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return " ".join(errors[:1]) if done.returncode else ""


def _run(
    command: list[str], environment: Mapping[str, str], patience_s: int = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, timeout=patience_s, check=False
    )


Finder = ByExplore | BySwarm | ByTest
