"""The JobMaster's knowledge of the tasks of the present epoch.

A table is created when its tasks are deployed, so they begin as DEPLOYING. Before that, Flink's tasks are SCHEDULED
while slots are requested; here the host starts slots and tasks together (`StartEpoch`), so they do not have to wait. A
task does not report that it is INITIALIZING: it stays DEPLOYING in the table until it runs.

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
        """Return True if the epoch has this task and it has not ended."""
        record = self._records.get(task)
        return record is not None and not record.state.is_terminal

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

    def cancel(self) -> None:
        """Record that all live tasks have been told to stop."""
        for record in self._records.values():
            if not record.state.is_terminal:
                record.state = ExecutionState.CANCELING

    def canceling(self) -> list[str]:
        """Return the tasks that were told to stop."""
        return [task for task, record in self._records.items() if record.state is ExecutionState.CANCELING]

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
