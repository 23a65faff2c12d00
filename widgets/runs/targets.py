"""The conditions until which a user can run a lab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.protocol.notes import AllTasksRunning, CheckpointAborted, CheckpointTriggered
from kit.hosts.lab import Lab
from kit.run.moments.job_state import ACKNOWLEDGED, BEGUN, SENT, UNHEARD
from widgets.runs.action_history import AT_POSITION

HAS_BARRIER = (*BEGUN, SENT, ACKNOWLEDGED, UNHEARD)
"""The phases of a checkpoint in which a task has received its barrier."""
NEXT_CHECKPOINT, ALL_RUNNING = "the next checkpoint is complete", "all tasks are running"
Target = tuple[Callable[[Lab], object], str]
"""An action that runs until a condition holds, and its code."""


def targets(lab: Lab) -> dict[str, Target]:
    """Return the conditions until which a lab can run, each with the action and its code."""
    fails = "lab.run_until(lambda lab: lab.error != '')"
    found: dict[str, Target] = {
        NEXT_CHECKPOINT: _until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1),
        "a checkpoint begins": _until(record=CheckpointTriggered.__name__),
        "an acknowledgement is in flight": _acknowledgement(),
        "a checkpoint ends badly": _until(record=CheckpointAborted.__name__),
        "something fails": (lambda lab: lab.run_until(lambda lab: lab.error != ""), fails),
        ALL_RUNNING: _until(record=AllTasksRunning.__name__),
        "the job has ended": _until(ended=True),
    }
    for task in lab.look.stages[-1].tasks():
        found[f"{task} has its barrier"] = _barrier(task)
    return found


def _until(**condition: Any) -> Target:
    ((name, value),) = condition.items()
    return (lambda lab: lab.run_until(**condition)), f"lab.run_until({name}={value!r})"


def _acknowledgement() -> Target:
    """Return the action that runs until a task has sent an acknowledgement that is not yet in flight."""

    def in_flight(lab: Lab) -> set[str]:
        return {each for each, message in lab.moment().messages.items() if message.mail == "ack"}

    def run(lab: Lab) -> object:
        before = in_flight(lab)
        return lab.run_until(lambda lab: bool(in_flight(lab) - before))

    return run, f"{AT_POSITION}  # an acknowledgement is in flight"


def _barrier(task: str) -> Target:
    def newest(lab: Lab) -> int:
        phases = getattr(lab.moment().tasks.get(task), "phases", {})
        return max((number for number, phase in phases.items() if phase in HAS_BARRIER), default=0)

    def run(lab: Lab) -> object:
        before = newest(lab)
        return lab.run_until(lambda lab: newest(lab) > before)

    return run, f"{AT_POSITION}  # {task} has its barrier"
