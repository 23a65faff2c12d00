"""The JobMaster's knowledge of the tasks of the present epoch.

A table is created when its tasks are deployed, so they begin as DEPLOYING; those of a region do so again when it is
restarted. Before that, Flink's tasks are SCHEDULED while slots are requested; here the host starts slots and tasks
together (`StartEpoch`), so they do not have to wait. A task does not report that it is INITIALIZING: it stays DEPLOYING
in the table until it runs.

Follows Flink's `Execution` and `ExecutionGraph`, as far as they keep states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.tasks import ExecutionState


@dataclass(slots=True)
class TaskRecord:
    """One attempt of a task; `data_ended` if it has processed all its input and still runs."""

    state: ExecutionState = ExecutionState.DEPLOYING
    error: str = ""
    data_ended: bool = False


_LIVE = (
    ExecutionState.CREATED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


class TaskTable:
    """The tasks of one epoch by name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._records = {name: TaskRecord() for name in names}
        self._not_yet_running = set(self._records)
        self._not_yet_finished = set(self._records)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, task: str) -> TaskRecord:
        return self._records[task]

    def items(self) -> Iterable[tuple[str, TaskRecord]]:
        """Return names and records."""
        return self._records.items()

    def state_of(self, task: str) -> ExecutionState:
        """Return the state of a task; CREATED for one that this epoch does not have."""
        record = self._records.get(task)
        return ExecutionState.CREATED if record is None else record.state

    def is_live(self, task: str) -> bool:
        """Return True if the epoch has this task, it has not ended, and it was not told to stop."""
        record = self._records.get(task)
        return record is not None and record.state in _LIVE

    def is_stopped(self, task: str) -> bool:
        """Return True if a task was told to stop, or failed: it will run in another attempt only."""
        return self.state_of(task) in (ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED)

    def report(self, message: TaskStateChanged) -> None:
        """Record the state that a live task reports."""
        record = self._records[message.task]
        record.state, record.error = message.state, message.error
        if message.state in (ExecutionState.RUNNING, ExecutionState.FINISHED):
            self._not_yet_running.discard(message.task)
        if message.state is ExecutionState.FINISHED:
            self._not_yet_finished.discard(message.task)

    def end_data(self, task: str) -> None:
        """Record that a task has processed all its input and still runs."""
        self._records[task].data_ended = True

    def end(self, task: str, state: ExecutionState, error: str = "") -> None:
        """Record that a task failed or was cancelled."""
        self._records[task].state, self._records[task].error = state, error

    def cancel(self, tasks: Iterable[str] | None = None) -> None:
        """Record that all live tasks, or those of `tasks` that live, have been told to stop.

        All of `tasks` will run again in this table, those that have finished too.
        """
        for task in self._records if tasks is None else tasks:
            record = self._records[task]
            if not record.state.is_terminal:
                record.state = ExecutionState.CANCELING
            if tasks is not None:
                self._not_yet_running.add(task)
                self._not_yet_finished.add(task)

    def canceling(self) -> list[str]:
        """Return the tasks that were told to stop."""
        return [task for task, record in self._records.items() if record.state is ExecutionState.CANCELING]

    def redeploy(self, tasks: Iterable[str]) -> None:
        """Record that these tasks, which were told to stop, are deployed again."""
        for task in tasks:
            self._records[task] = TaskRecord()

    @property
    def all_running(self) -> bool:
        """True if every task runs, or has already finished."""
        return not self._not_yet_running

    @property
    def all_finished(self) -> bool:
        """True if every task has finished."""
        return not self._not_yet_finished

    @property
    def all_data_ended(self) -> bool:
        """True if every task has processed all its input, or has finished."""
        return all(record.data_ended or record.state is ExecutionState.FINISHED for record in self._records.values())

    def __repr__(self) -> str:
        return f"TaskTable({len(self._records)} tasks, {len(self._not_yet_running)} not yet running)"
