"""The failover of regions: a failure restarts the tasks that it affects, and the others keep running.

    a task fails, an event for it is lost     its region restarts
    a slot is lost                            the regions that have a task in it restart
    anything else, or all regions at once     the whole job restarts, as a new epoch (`JobMaster._on_failure`)

A restart of regions takes these steps, several restarts side by side:

    begin       their tasks are told to stop (`StopTasks`), and the restart delay runs
    ready       they have stopped, the delay has passed, no checkpoint is being stored, and there are slots: those that
                are ready together get the state of the latest checkpoint, and the master hooks are restored
    deployed    operator coordinators are notified of each subtask (`subtask_reset`), the tasks start in their next
                attempt (`StartTasks`, `DeployTask`), and the job is RUNNING again once no restart is left

The operator coordinators keep running with their state, since subtasks of other regions depend on it.

Master hooks are restored from the checkpoint as well, as in Flink, although the job outside the regions does not go
back. A restore is all that a hook hears of a failure, so it cannot know that. This is a known limitation: a hook should
keep nothing that a region at work depends on, and use an operator coordinator for that.

Follows Flink's `RestartPipelinedRegionFailoverStrategy`, `ExecutionFailureHandler` and
`DefaultScheduler.restartTasksWithDelay`, which are the same in 1.11. Flink restarts a region even if it is the whole
job; that differs from a restart of the job only in what operator coordinators are called with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from kit.core.protocol.commands import CancelTimer, ScheduleTimer, StopTasks
from kit.core.protocol.events import TasksStopped
from kit.core.protocol.notes import RegionsFailed
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolMessage, handles
from kit.machines.channel.channel_state.slot_channel_state import slot_name
from kit.machines.job.task_table import TaskTable
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.regions import Region, Regions
from kit.stream.settings.job_settings import JobSettings

RESTART_REGIONS_TIMER = "restart of regions "
"""The beginning of a timer's name; the number of the restart follows."""
TASKS, DELAY = "tasks", "delay"


class FailoverHost(Protocol):
    """The JobMaster, as the failover of regions sees it."""

    graph: ExecutionGraph
    tasks: TaskTable

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    @property
    def epoch(self) -> int:
        """The number of deployments of the whole job."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""

    def tasks_stopped(self, tasks: Iterable[str]) -> None:
        """Handle tasks that have stopped because their region restarts."""


@dataclass(slots=True)
class RegionRestart:
    """One restart: what it restarts, why, and what it waits for."""

    number: int
    regions: tuple[Region, ...]
    error: str
    awaited: set[str]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that restart."""
        return tuple(task for region in self.regions for task in region.tasks)

    @property
    def timer(self) -> str:
        """The timer of the delay."""
        return f"{RESTART_REGIONS_TIMER}{self.number}"


class RegionFailover:
    """The regions of the running epoch, and their restarts under way."""

    def __init__(self, settings: JobSettings, host: FailoverHost) -> None:
        self.is_enabled = settings.restarts_regions
        self._host = host
        self._restarts: dict[int, RegionRestart] = {}
        self.count = 0
        """The number of restarts of regions so far."""
        self._lost_slots: set[int] = set()
        """The slots that were lost, or ended with their tasks, and have not been replaced yet."""

    @property
    def is_under_way(self) -> bool:
        """True if a region restarts."""
        return bool(self._restarts)

    @property
    def error(self) -> str:
        """The reason for the newest restart under way."""
        return next(reversed(self._restarts.values())).error if self._restarts else ""

    # --- what a failure affects -----------------------------------------------------------------------------------

    @property
    def regions(self) -> Regions:
        """The regions of the running epoch."""
        return self._host.graph.regions

    def _slots_of(self, *regions: Region) -> frozenset[int]:
        return self._host.graph.slots.of_all(task for region in regions for task in region.tasks)

    def deployed(self) -> None:
        """Start an epoch: every task is deployed, and every slot is there."""
        self._lost_slots = set()

    def of_task(self, task: str) -> tuple[Region, ...]:
        """Return the region of a task that has failed, unless it restarts already; none if whole jobs restart."""
        return self._affected([self.regions.of(task)]) if self.is_enabled else ()

    def of_lost_slot(self, slot: int) -> tuple[Region, ...]:
        """Return the regions with a task in this slot, except for those that restart already or have finished."""
        if not self.is_enabled:
            return ()
        self._lost_slots.add(slot)
        return self._affected(region for region in self.regions if slot in self._slots_of(region))

    def _affected(self, regions: Iterable[Region]) -> tuple[Region, ...]:
        restarting = {region.number for restart in self._restarts.values() for region in restart.regions}
        return tuple(each for each in regions if each.number not in restarting and not self._has_finished(each))

    def _has_finished(self, region: Region) -> bool:
        return all(self._host.tasks.state_of(task) is ExecutionState.FINISHED for task in region.tasks)

    def leaves_others(self, regions: Collection[Region]) -> bool:
        """Return True if these regions can restart while others run."""
        return self.is_enabled and 0 < len(regions) < len(self.regions)

    # --- a restart ------------------------------------------------------------------------------------------------

    def begin(self, regions: tuple[Region, ...], error: str, delay_ms: int) -> None:
        """Stop the tasks of these regions, which restart after the delay."""
        host = self._host
        self.count += 1
        restart = self._restarts[self.count] = RegionRestart(self.count, regions, error, {TASKS})
        host.tasks.cancel(restart.tasks)
        states = (record.state for _, record in host.tasks.items())
        running = sum(state is ExecutionState.RUNNING for state in states)
        host.emit(
            RegionsFailed(
                restart=restart.number,
                regions=tuple(region.number for region in regions),
                tasks=restart.tasks,
                running=running,
                error=error,
            )
        )
        host.emit(StopTasks(epoch=host.epoch, restart=restart.number, tasks=restart.tasks))
        self._delay(restart, delay_ms)

    def _delay(self, restart: RegionRestart, delay_ms: int) -> None:
        restart.awaited.add(DELAY)
        self._host.emit(ScheduleTimer(timer=restart.timer, due_ms=self._host.at + delay_ms))

    @handles(TasksStopped)
    def stopped(self, event: TasksStopped) -> None:
        """Note that the tasks of a restart have stopped, with these slots."""
        restart = self._restarts.get(event.restart)
        if restart is not None and TASKS in restart.awaited:
            restart.awaited.discard(TASKS)
            self._lost_slots.update(event.slots)
            self._host.tasks_stopped(restart.tasks)

    def on_timer(self, timer: str) -> bool:
        """Handle a timer that fired; return False for one that is not set here."""
        if not timer.startswith(RESTART_REGIONS_TIMER):
            return False
        restart = self._restarts.get(int(timer.removeprefix(RESTART_REGIONS_TIMER)))
        if restart is not None:
            restart.awaited.discard(DELAY)
        return True

    @property
    def ready(self) -> list[RegionRestart]:
        """The restarts that wait for nothing but the rest of the job."""
        return [restart for restart in self._restarts.values() if not restart.awaited]

    def wait_again(self, delay_ms: int) -> None:
        """Let the restarts that are ready, and have no slots, try again after the delay."""
        for restart in self.ready:
            self._delay(restart, delay_ms)

    def restarted(self, restarts: Iterable[RegionRestart]) -> list[str]:
        """End these restarts, whose tasks are being deployed; return the names of the slots to replace."""
        slots: set[int] = set()
        for restart in restarts:
            del self._restarts[restart.number]
            slots |= self._lost_slots & self._slots_of(*restart.regions)
        self._lost_slots -= slots
        return [slot_name(slot) for slot in sorted(slots)]

    def give_up(self) -> None:
        """End all restarts, because the whole job stops."""
        for restart in self._restarts.values():
            if DELAY in restart.awaited:
                self._host.emit(CancelTimer(timer=restart.timer))
        self._restarts.clear()

    # --- slots ----------------------------------------------------------------------------------------------------

    def slots_said(self, restarts: Iterable[RegionRestart], slots: int, needed: int) -> str:
        """Return the number of available, occupied and required slots, as text."""
        restarting = {region.number for restart in self._restarts.values() for region in restart.regions}
        waiting = [region for restart in restarts for region in restart.regions]
        running = [region for region in self.regions if region.number not in restarting]
        held = len(self._slots_of(*running))
        return (
            f"{', '.join(map(str, waiting))} cannot restart: the job needs {needed} slots, {slots} "
            f"{'is' if slots == 1 else 'are'} there, and the tasks that run hold {held} of them"
        )

    def __repr__(self) -> str:
        under_way = ", ".join(str(region) for each in self._restarts.values() for region in each.regions)
        return f"RegionFailover({under_way or 'no region'} restarting)"
