"""The rest of a lab's state, beyond its everyday names: `lab.look`. Nothing in it changes the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kit.core.display import Picture, display
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.trace.trace import Trace
from kit.filesystems.memory import MemoryFiles
from kit.hosts.lab import refusals
from kit.hosts.lab.choices import Choices
from kit.hosts.lab.errors import MOST_NAMED, LabError, LabJobFailedError, said, whole_number
from kit.hosts.lab.world.actions import Action, LetTimePass
from kit.hosts.lab.world.world import World
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask
from kit.run.redistribution import restores_table
from kit.run.run import run_of
from kit.run.stage import Stage
from kit.stream.operators.windows.late_rows import late_rows_of

if TYPE_CHECKING:
    import pandas as pd

    from kit.why.answer import Why
    from kit.why.evidence import Evidence


class Tasks(dict[str, StreamTask]):
    """Tasks by name, with an error that lists the names for an unknown one."""

    def __missing__(self, name: str) -> StreamTask:
        there = ", ".join([*self][:MOST_NAMED]) or "none yet: lab.run_until(record='AllTasksRunning')"
        raise KeyError(f"there is no task {name!r}; there are {there}")


class Looked(Protocol):
    """The part of a lab that `lab.look` uses."""

    @property
    def _world(self) -> World: ...

    @property
    def trace(self) -> Trace: ...

    def _evidence(self) -> Evidence: ...

    def _validate(self) -> None: ...


class Look:
    """The present of a lab: its machines, state, queues, files, time, and waiting actions."""

    def __init__(self, lab: Looked) -> None:
        self._lab = lab

    # --- machines and files ---------------------------------------------------------------------------------------

    @property
    def master(self) -> JobMaster:
        """The JobMaster machine; look, do not touch."""
        return self._lab._world.master

    @property
    def tasks(self) -> dict[str, StreamTask]:
        """The machines of the deployed tasks, by name; look, do not touch."""
        return Tasks(self._lab._world.tasks)

    @property
    def files(self) -> MemoryFiles:
        """The lab's file system."""
        return self._lab._world.edge.files

    @property
    def at_ms(self) -> int:
        """Virtual time."""
        return self._lab._world.at_ms

    @property
    def late_rows_dropped(self) -> dict[str, int]:
        """The number of rows of this epoch that were dropped because the watermark had passed their time, by operator
        (Flink: `numLateRecordsDropped`).
        """
        return late_rows_of(self._lab._world.late_rows.values())

    # --- checkpoints and requests ---------------------------------------------------------------------------------

    def answer(self, request: int) -> str | None:
        """Return the path of the snapshot of a request, or None while it is pending. Raises JobFailedError if it
        failed.

        For a rescale, it is the checkpoint that the job resumed from, or "" if it started from scratch.
        """
        whole_number("request", request, "what trigger_checkpoint(), savepoint(), stop() or rescale() returned")
        answer = self._lab._world.answers.get(request)
        if answer is None:
            return None
        if answer.error:
            too_early = answer.error.startswith(CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING.message)
            first = "ask again when they run: lab.run_until(record='AllTasksRunning')" if too_early else ""
            raise LabJobFailedError(said(answer.error, first))
        return answer.path

    def restores(self) -> pd.DataFrame:
        """Return the state that each restore assigned: one row per epoch, task, operator and kind of state."""
        return restores_table(self._lab.trace)

    # --- what may not happen --------------------------------------------------------------------------------------

    def waiting(self) -> Choices:
        """Return the actions that may not happen yet: turns of tasks, timers, delayed messages, work of frozen workers.

        `.refused` has each with what it waits for; `why_not` explains one.
        """
        return Choices((), what="things may happen at once", refused=refusals.waiting(self._lab._world))

    def refusal(self, action: Action) -> str | None:
        """Return why an action may not happen now, in a sentence, or None if it may."""
        return refusals.refusal(self._lab._world, action)

    def why_not(self, action: Action | str) -> Why:
        """Explain why an action may not happen now, and what it waits for, down to the first cause.

        `action` is one of `lab.enabled()` or `lab.faults.possible()` of any moment, its key ("turn:sums/1",
        "receive:3", "timer:job:checkpoint-trigger", "deliver:AcknowledgeCheckpoint:chk-1:sums/1:job"), or a few words
        that name one.

        Raises LabError if the words name no action.
        """
        from kit.hosts.lab.faults.why_not import named_action, why_not

        world, known = self._lab._world, self._lab._evidence()
        if isinstance(action, str):
            action = named_action(action, known, world)
        if not isinstance(action, Action):
            raise LabError(
                f"{action!r} is no action: give one of lab.enabled(), its key, or words such as 'turn sums/0'"
            )
        return why_not(world, known, action)

    @property
    def wait(self) -> LetTimePass | None:
        """The action that lets time pass until something is due; None if nothing will be."""
        return self._lab._world.agenda.wait

    def validate(self) -> None:
        """Check the invariants of every machine and every wire. Raises AssertionError, with names, if one is broken."""
        self._lab._validate()

    # --- pictures -------------------------------------------------------------------------------------------------

    @property
    def stages(self) -> list[Stage]:
        """The shape of each epoch so far, for pictures."""
        return list(run_of(self._lab).known)

    def svg(self) -> Picture:
        """Return a picture of the present moment, with the last step in words."""
        picture: Picture = display("lab_svg", self._lab)
        return picture
