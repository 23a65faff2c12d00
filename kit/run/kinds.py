"""The presentation of the messages, events and commands of the protocol: one table, `KINDS`.

Each message and each note has an entry. A command or an event without one is described by its name.

A record of a trace is a command that a machine gave, an event that it took, or a fault that was injected in the lab.
The record's kind is the name of that command or event, or of a note. All faults are shown alike, by the sentence in
their record.

An entry has, for each role that its message may play, a caption, the change that it makes in the picture, and the phase
of a subtask's path through a checkpoint that it ends. Its other fields hold for all roles: how much the record matters,
whether a reader can jump to it, and its name on a task's box while it is in transit.

`kit.run.captions` fills in the captions, `kit.run.moments.moment` applies the changes, `kit.draw.stage.frames` uses
levels and marks, and `kit.run.journeys` uses the paths. The elements that travel in channels have a table of their own,
`kit.run.element_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.core.protocol import commands, events, messages, notes
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import TraceRecord
from kit.run.checkpoint_path import Path, PathStep
from kit.run.moments import channel_changes as channels
from kit.run.moments import job_changes as changes
from kit.run.moments.job_changes import Change
from kit.run.moments.job_state import ABORTED, ALIGNING, SENT, WRITING

BULK, PLUMBING, DETAIL, MAIN, MILESTONE = range(5)
"""How much a record matters, from a task moving a buffer to the completion of a checkpoint."""

ROLES = frozenset({"command", "event", "fault"})

_Level = int | Callable[[TraceRecord], int]


@dataclass(frozen=True, slots=True)
class Side:
    """A message in one role, as a command or as an event.

    In the caption `{who}` is the machine, `{cp}` the checkpoint, and `{source}` and `{to}` are the ends of the channel.
    The caption may also use any field of the record's data, and the fields that `kit.run.captions` adds.
    """

    caption: str
    change: Change | None = None
    path: PathStep | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """The presentation of one message, event, command or note.

    `mark` is the kind of turning point, for readers who jump from one to the next ("checkpoint", "failure", "restore").
    `mail` is the text of the badge that a task's box shows for a message in transit. `span` says whether a restore
    "begins" or "ends" with it.
    """

    name: str
    level: _Level
    command: Side | None = None
    event: Side | None = None
    fault: Side | None = None
    mark: str = ""
    mail: str = ""
    span: str = ""

    def side(self, role: str) -> Side | None:
        """Return the side for the role of a record; None if the kind does not have that role."""
        return getattr(self, role) if role in ROLES else None

    def level_of(self, record: TraceRecord) -> int:
        """Return how much a record of this kind matters."""
        return self.level(record) if callable(self.level) else self.level


def _of_element(record: TraceRecord) -> int:
    """Return the level of an element's record: a barrier, or another mark in a channel, matters more than a buffer."""
    return BULK if record.checkpoint_id is None else DETAIL


def _of_task_state(record: TraceRecord) -> int:
    return {"RUNNING": DETAIL, "FINISHED": DETAIL, "FAILED": MAIN}.get(record.data["state"], PLUMBING)


def _event(
    message: type[ProtocolMessage],
    level: _Level,
    caption: str,
    *,
    change: Change | None = None,
    path: PathStep | None = None,
    mark: str = "",
) -> Kind:
    return Kind(message.__name__, level, event=Side(caption, change, path), mark=mark)


def _command(
    message: type[ProtocolMessage],
    level: _Level,
    caption: str,
    *,
    change: Change | None = None,
    path: PathStep | None = None,
    mark: str = "",
    span: str = "",
) -> Kind:
    """Return the entry of a command, or of a note, which a trace records like one."""
    return Kind(message.__name__, level, command=Side(caption, change, path), mark=mark, span=span)


def _message(message: type[ProtocolMessage], level: _Level, *, command: Side, event: Side, mail: str = "") -> Kind:
    return Kind(message.__name__, level, command, event, mail=mail)


_EVENTS = (
    _event(events.TimerFired, PLUMBING, "{timer_fires}"),
    _event(events.StartJob, MAIN, "The job starts"),
    _event(events.SplitsEnumerated, PLUMBING, "{who} receives the splits of a source"),
    _event(events.SplitsDiscovered, PLUMBING, "{who} receives the newly discovered splits of a source"),
    _event(events.SnapshotResolved, PLUMBING, "The checkpoint at {path} is found"),
    _event(events.CheckpointsRecovered, PLUMBING, "{who} receives the checkpoints in the store"),
    _event(events.LeadershipLost, MILESTONE, "Another driver has taken over the job: {error}"),
    _event(events.LaterOutputDiscarded, PLUMBING, "Output that sinks published after the snapshot is deleted"),
    _event(events.OrphansRemoved, PLUMBING, "Files that earlier runs left behind are deleted"),
    _event(events.StartFailed, DETAIL, "The job cannot start: {error}"),
    _event(
        events.SlotLost,
        MILESTONE,
        "Worker {slot} is lost with all its tasks: {error}",
        change=changes.slot_lost,
        mark="failure",
    ),
    _event(events.ClusterStopped, MILESTONE, "No workers can run any more: {error}", mark="failure"),
    _event(events.SlotsChanged, MILESTONE, "{slots} slots are available now", mark="failure"),
    _event(events.OperatorEventLost, PLUMBING, "A message of an operator coordinator to {task} is lost"),
    _event(events.EpochEnded, PLUMBING, "The last worker of epoch {epoch} has stopped", change=changes.epoch_ended),
    _event(
        events.TasksStopped, PLUMBING, "{tasks_in_short} have stopped; all others run", change=changes.tasks_stopped
    ),
    _event(events.SubtasksRedeployed, PLUMBING, "{who} learns that {tasks_in_short} are deployed again"),
    _event(events.CheckpointIdAllocated, PLUMBING, "The new checkpoint has id {cp}"),
    _event(events.CheckpointIdFailed, DETAIL, "No id can be allocated for the next checkpoint: {error}"),
    _event(
        events.LocationInitialized,
        PLUMBING,
        "The directory of checkpoint {cp} exists",
        change=changes.step("asking hooks and operator coordinators"),
    ),
    _event(events.LocationFailed, DETAIL, "The directory of checkpoint {cp} cannot be created: {error}"),
    _event(
        events.CheckpointOperatorCoordinator, PLUMBING, "An operator coordinator takes its snapshot for checkpoint {cp}"
    ),
    _event(events.MasterHookTriggered, PLUMBING, "The hook {hook} returns its state for checkpoint {cp}"),
    _event(events.MasterHookFailed, DETAIL, "The hook {hook} failed: {error}"),
    _event(events.MasterHooksReset, PLUMBING, "The hooks are reset: the job starts without a checkpoint"),
    _event(events.MasterHooksRestored, PLUMBING, "The hooks are restored from checkpoint {cp}"),
    _event(events.MetadataWritten, MAIN, "The _metadata of checkpoint {cp} is written"),
    _event(events.MetadataFailed, MAIN, "The _metadata of checkpoint {cp} could not be written: {error}"),
    _event(events.CheckpointStored, PLUMBING, "Checkpoint {cp} is in the store: a restart will find it"),
    _event(events.CheckpointStoreFailed, MAIN, "Checkpoint {cp} could not be stored: {error}"),
    _event(events.StateDiscarded, PLUMBING, "{files} are deleted"),
    _event(events.JobResultStored, PLUMBING, "The result of the job is in the store"),
    _event(events.ParallelismStored, PLUMBING, "The wanted parallelism of the job is in the store"),
    _event(events.RequestCheckpoint, MAIN, "The user requests a checkpoint"),
    _event(events.RequestSavepoint, MAIN, "The user requests a savepoint"),
    _event(events.RequestStop, MAIN, "The user requests to stop the job with a savepoint"),
    _event(events.RequestRescale, MAIN, "The user requests another parallelism: {parallelisms}"),
    _event(events.RequestCancel, MAIN, "The user cancels the job"),
    _event(events.StateRead, PLUMBING, "{who} has read its state"),
    _event(events.StateReadFailed, DETAIL, "{who} could not read its state: {error}"),
    _event(
        events.ElementReceived,
        _of_element,
        "{element} reaches {who} from {source}",
        change=channels.receive,
    ),
    _event(events.CreditReceived, BULK, "{who} receives a credit from {to}"),
    _event(events.ProcessInput, BULK, "{who} processes its input"),
    _event(events.SplitRead, BULK, "{who} has read {rows} from its source"),
    _event(events.RowsAvailable, BULK, "The source of {who} has rows available"),
    _event(events.SplitReadFailed, DETAIL, "{who} could not read its input: {error}"),
    _event(
        events.SnapshotWritten,
        MAIN,
        "{who}'s state for checkpoint {cp} is written",
        change=changes.written,
        path=Path.written,
    ),
    _event(events.SnapshotFailed, MAIN, "{who}'s part of checkpoint {cp} could not be written: {error}"),
    _event(
        events.EffectsCommitted,
        MAIN,
        "{who} has published its output up to checkpoint {cp}",
        change=changes.published,
    ),
    _event(events.RowsNotWritten, DETAIL, "{who} could not write its output: {error}"),
    _event(events.EffectsFailed, DETAIL, "{who} could not publish its output: {error}"),
    _event(events.ChannelStateFileWritten, PLUMBING, "The file with in-flight data of checkpoint {cp} is written"),
    _event(
        events.ChannelStateFileFailed,
        DETAIL,
        "The file with in-flight data of checkpoint {cp} could not be written: {error}",
    ),
)

_COMMANDS = (
    _command(commands.ScheduleTimer, BULK, "{who} sets a timer: {timer_is_for}"),
    _command(commands.CancelTimer, BULK, "{who} cancels its timer {timer}"),
    _command(commands.EnumerateSplits, PLUMBING, "{who} asks a source for its splits"),
    _command(commands.DiscoverSplits, PLUMBING, "{who} asks a source for new splits"),
    _command(commands.ResolveSnapshot, PLUMBING, "{who} looks for the checkpoint at {path}"),
    _command(
        commands.DiscardLaterOutput,
        PLUMBING,
        "{who} requests the deletion of all output published after checkpoint {cp}",
    ),
    _command(commands.RecoverCheckpoints, PLUMBING, "{who} opens the store of completed checkpoints"),
    _command(commands.RemoveOrphans, PLUMBING, "{who} requests the deletion of files that earlier runs left behind"),
    _command(
        commands.StartEpoch, MILESTONE, "Epoch {epoch} begins: every task is deployed", change=changes.start_epoch
    ),
    _command(commands.StopEpoch, PLUMBING, "{who} stops all workers of epoch {epoch}"),
    _command(commands.StopTasks, PLUMBING, "{who} stops {tasks_in_short}"),
    _command(
        commands.StartTasks,
        MILESTONE,
        "{started} are deployed again, and all others keep running",
        change=changes.start_tasks,
    ),
    _command(commands.AllocateCheckpointId, PLUMBING, "{who} asks for the id of the next checkpoint"),
    _command(commands.SetCheckpointIdCounter, PLUMBING, "The next checkpoint will have id {next_id}"),
    _command(
        commands.InitializeLocation,
        PLUMBING,
        "{who} asks for the directory of checkpoint {cp}",
        change=changes.step("creating its directory"),
    ),
    _command(
        commands.ScheduleCoordinatorCheckpoint,
        PLUMBING,
        "{who} asks an operator coordinator for its snapshot for checkpoint {cp}",
    ),
    _command(commands.TriggerMasterHook, PLUMBING, "{who} asks the hook {hook} for its state for checkpoint {cp}"),
    _command(commands.RestoreMasterHooks, PLUMBING, "{who} restores the hooks from checkpoint {cp}"),
    _command(commands.ResetMasterHooks, PLUMBING, "{who} resets the hooks"),
    _command(commands.CloseMasterHooks, PLUMBING, "{who} closes the hooks: the job has ended"),
    _command(
        commands.WriteMetadata,
        MAIN,
        "All tasks have acknowledged: {who} writes the _metadata of checkpoint {cp}",
        change=changes.step("all acknowledged: writing _metadata"),
    ),
    _command(
        commands.StoreCheckpoint,
        PLUMBING,
        "{who} adds checkpoint {cp} to the store of completed checkpoints",
        change=changes.step("_metadata is written: adding it to the store"),
    ),
    _command(commands.RemoveStored, PLUMBING, "{who} removes checkpoint {cp} from the store"),
    _command(commands.StoreJobResult, PLUMBING, "{who} stores the result of the job: {now}"),
    _command(commands.StoreParallelism, PLUMBING, "{who} stores the parallelism that the user wants: {parallelisms}"),
    _command(commands.DiscardState, PLUMBING, "{who} requests the deletion of {files}"),
    _command(commands.CompleteRequest, PLUMBING, "The user's request is answered: {answer}"),
    _command(commands.JobStatusChanged, MILESTONE, "The job is now {now}{because_error}", change=changes.job_status),
    _command(commands.SendElement, _of_element, "{who} sends {element} to {to}{overtaking}", change=channels.send),
    _command(
        commands.ElementQueued, BULK, "{who} queues {element} for {to}, which has no credit left", change=channels.queue
    ),
    _command(commands.ElementTaken, BULK, "{who} takes an event from {source}", change=channels.taken),
    _command(commands.GrantCredit, BULK, "{who} grants {source} a credit", change=channels.credit),
    _command(commands.ReadState, PLUMBING, "{who} reads its state from the checkpoint's files"),
    _command(commands.ReadSplit, BULK, "{who} reads its source from row {position}"),
    _command(commands.AwaitRows, BULK, "{who} waits until its source has rows"),
    _command(
        commands.WriteSnapshot,
        MAIN,
        "{who} has copied its state for checkpoint {cp}; the copy is being written",
        change=changes.own_phase(WRITING),
        path=Path.copied,
    ),
    _command(
        commands.CancelSnapshot,
        DETAIL,
        "{who} stops writing its part of checkpoint {cp}",
        change=changes.own_phase(ABORTED),
    ),
    _command(commands.DiscardSnapshot, PLUMBING, "{who} deletes its files of a checkpoint that was aborted"),
    _command(commands.PruneLocalState, PLUMBING, "{who} deletes local copies of state that no restore needs"),
    _command(commands.WriteRows, PLUMBING, "{who} writes output that no checkpoint covers yet"),
    _command(commands.CommitEffects, DETAIL, "{who} publishes the output that waited for checkpoint {cp}"),
    _command(commands.DropEffects, PLUMBING, "{who} drops output that no checkpoint will publish"),
    _command(
        commands.WriteChannelStateFile,
        PLUMBING,
        "{who} has all in-flight data of checkpoint {cp} and writes it to a file",
    ),
    _command(
        commands.CancelChannelStateFile, PLUMBING, "{who} stops writing the file with in-flight data of checkpoint {cp}"
    ),
)

_MESSAGES = (
    _message(
        messages.DeployTask,
        DETAIL,
        command=Side("{task} is deployed {with_state}", change=changes.deploy),
        event=Side("{who} starts at its worker {with_state}"),
        mail="deploy",
    ),
    _message(
        messages.TriggerTaskCheckpoint,
        MAIN,
        command=Side("{who} triggers checkpoint {cp} at {task}", change=changes.triggered),
        event=Side(
            "{who} begins checkpoint {cp}: a source waits for no barrier",
            change=changes.own_phase(ALIGNING),
            path=Path.reached,
        ),
        mail="begin",
    ),
    _message(
        messages.NotifyCheckpointComplete,
        DETAIL,
        command=Side("{who} notifies {task} that checkpoint {cp} is complete"),
        event=Side("{who} is notified that checkpoint {cp} is complete"),
        mail="complete",
    ),
    _message(
        messages.NotifyCheckpointAborted,
        DETAIL,
        command=Side("{who} notifies {task} that checkpoint {cp} is aborted"),
        event=Side("{who} is notified that checkpoint {cp} is aborted", change=changes.notified_of_abort),
        mail="aborted",
    ),
    _message(
        messages.OperatorEventToTask,
        BULK,
        command=Side("An operator coordinator sends an event to {task}"),
        event=Side("{who} receives an event from its operator coordinator"),
    ),
    _message(
        messages.CancelTask,
        MAIN,
        command=Side("{who} cancels {task}"),
        event=Side("{who} is cancelled", change=changes.task_gone),
        mail="leave",
    ),
    _message(
        messages.TaskStateChanged,
        _of_task_state,
        command=Side("{who} reports that it is {now}{because_error}", change=changes.task_state),
        event=Side("{who} learns that {task} is {now}{because_error}", change=changes.task_state_heard),
        mail="state",
    ),
    _message(
        messages.AcknowledgeCheckpoint,
        MAIN,
        command=Side("{who} acknowledges checkpoint {cp}", change=changes.own_phase(SENT), path=Path.sent),
        event=Side("{who} receives {task}'s acknowledgement of checkpoint {cp}"),
        mail="ack",
    ),
    _message(
        messages.DeclineCheckpoint,
        MAIN,
        command=Side("{who} declines checkpoint {cp}: {why}", change=changes.declined, path=Path.declined),
        event=Side("{who} learns that {task} declined checkpoint {cp}: {why}"),
        mail="decline",
    ),
    _message(
        messages.ReportCheckpointMetrics,
        PLUMBING,
        command=Side("{task} reports its metrics for checkpoint {cp}, which was aborted"),
        event=Side("{who} receives {task}'s metrics for checkpoint {cp}, which was aborted"),
    ),
    _message(
        messages.OperatorEventToCoordinator,
        BULK,
        command=Side("{who} sends an event to its operator coordinator"),
        event=Side("The operator coordinator receives an event from {task}"),
    ),
)

_WITHIN_A_SLOT = (
    _message(
        messages.SubmitChannelState,
        BULK,
        command=Side("{who} keeps in-flight data for a checkpoint"),
        event=Side("{who} takes in-flight data of {task} for a checkpoint"),
    ),
    _message(
        messages.OutputDataDecided,
        BULK,
        command=Side("{who} reports its in-flight data to one receiver"),
        event=Side("{who} receives the in-flight data of {task} to one receiver"),
    ),
    _message(
        messages.ChannelStateWritten,
        PLUMBING,
        command=Side("{who} tells {task} that its in-flight data of checkpoint {cp} is written"),
        event=Side("{who}'s in-flight data of checkpoint {cp} is written"),
    ),
    _message(
        messages.ChannelStateFailed,
        DETAIL,
        command=Side("{who} tells {task} that its in-flight data of checkpoint {cp} could not be written"),
        event=Side("{who}'s in-flight data of checkpoint {cp} could not be written: {error}"),
    ),
)

_NOTES = (
    _command(
        notes.StateAssigned,
        MILESTONE,
        "{who} has assigned the state of checkpoint {cp} to {restored_tasks}",
        change=changes.state_assigned,
        mark="restore",
    ),
    _command(notes.AllTasksRunning, MAIN, "All tasks of epoch {epoch} are running", span="ends"),
    _command(
        notes.RegionsFailed,
        MILESTONE,
        "{regions_said} restarts, and {running} tasks keep running: {error}",
        change=changes.regions_failed,
        mark="failure",
    ),
    _command(notes.RescalePhaseChanged, MAIN, "{rescale_phase}: {moment}"),
    _command(
        notes.JobRescaled,
        MILESTONE,
        "The job continues at another parallelism, from {rescaled}: {moment}",
        mark="restore",
    ),
    _command(notes.RescaleRefused, MILESTONE, "The job is not rescaled: {error}"),
    _command(
        notes.WaitingForSlots,
        MILESTONE,
        "{who} waits for slots: {slots} are available, {least} are needed",
        mark="failure",
    ),
    _command(notes.PeriodicTriggerScheduled, BULK, "The next periodic checkpoint is due in {due_in}"),
    _command(notes.RequestQueued, DETAIL, "{request} is queued"),
    _command(notes.RequestRefused, MILESTONE, "{request} is refused: {detail_or_reason}"),
    _command(notes.TriggeringStarted, PLUMBING, "{who} begins a checkpoint", change=changes.planned),
    _command(notes.TriggeringFailed, MILESTONE, "A checkpoint could not be triggered: {detail_or_reason}"),
    _command(notes.CoordinatorAcknowledged, PLUMBING, "An operator coordinator has acknowledged checkpoint {cp}"),
    _command(
        notes.SubtaskReset,
        DETAIL,
        "The operator coordinator of {operator} keeps its state, and its subtask {subtask} {goes_back}",
    ),
    _command(notes.CoordinatorReset, DETAIL, "The operator coordinator of {operator} {goes_back}"),
    _command(
        notes.CoordinatorNotified,
        PLUMBING,
        "The operator coordinator of {operator} is notified that checkpoint {cp} is {outcome}",
    ),
    _command(
        notes.ListenerNotified,
        DETAIL,
        "The user's listener at {operator} in {who} is notified that checkpoint {cp} is {outcome}",
    ),
    _command(notes.MasterHookAcknowledged, PLUMBING, "The hook {hook} has acknowledged checkpoint {cp}"),
    _command(
        notes.CheckpointPending,
        PLUMBING,
        "{kind_of} {cp} is pending: every task must acknowledge it",
        change=changes.pending,
    ),
    _command(
        notes.CheckpointPlannedAgain,
        PLUMBING,
        "Tasks have finished meanwhile: {who} continues checkpoint {cp} without them",
        change=changes.planned_again,
    ),
    _command(notes.CheckpointTriggered, MILESTONE, "Checkpoint {cp} is triggered: {sources} begin", mark="checkpoint"),
    _command(
        notes.TaskAcknowledged,
        PLUMBING,
        "{task} has acknowledged checkpoint {cp}",
        change=changes.acknowledged,
        path=Path.acknowledged,
    ),
    _command(
        notes.AcknowledgeIgnored, PLUMBING, "An acknowledgement of checkpoint {cp} from {task} is ignored: {result}"
    ),
    _command(notes.DeclineIgnored, PLUMBING, "A decline of checkpoint {cp} from {task} is ignored: {result}"),
    _command(notes.MetricsIgnored, PLUMBING, "The metrics of {task} for checkpoint {cp} are ignored: {result}"),
    _command(notes.CheckpointFinalizing, PLUMBING, "Checkpoint {cp} has all acknowledgements"),
    _command(
        notes.CheckpointCompleted,
        MILESTONE,
        "{kind_of} {cp} is complete",
        change=changes.completed,
        mark="checkpoint",
    ),
    _command(
        notes.CheckpointAborted,
        MILESTONE,
        "Checkpoint {cp} is aborted: {detail_or_reason}",
        change=changes.aborted,
        mark="checkpoint",
    ),
    _command(notes.CheckpointSubsumed, DETAIL, "Checkpoint {cp} is subsumed by a newer one"),
    _command(notes.CheckpointDiscarded, PLUMBING, "Checkpoint {cp} is deleted"),
    _command(notes.CheckpointRestored, MILESTONE, "The job restores checkpoint {cp}", span="begins", mark="restore"),
    _command(
        notes.BarrierAnnounced,
        DETAIL,
        "Barrier {cp} from {source} is announced to {who}: data is queued ahead of it",
        path=Path.reached,
    ),
    _command(
        notes.BarrierPrioritized,
        MAIN,
        "{who} takes barrier {cp} from {source} before the data ahead of it",
        change=channels.barrier_prioritized,
    ),
    _command(
        notes.BarrierAligned,
        MAIN,
        "{who} takes barrier {cp} from {source}{and_waits}",
        change=channels.barrier_aligned,
        path=Path.reached,
    ),
    _command(
        notes.BarrierCounted,
        MAIN,
        "{who} counts barrier {cp} from {source} and continues to read that channel",
        change=channels.barrier_counted,
        path=Path.reached,
    ),
    _command(
        notes.EndCounted, DETAIL, "{who} counts the end of {source} as its barrier {cp}", change=channels.end_counted
    ),
    _command(
        notes.AlignmentTimedOut, MAIN, "{who} has reached the alignment timeout: barrier {cp} overtakes from now on"
    ),
    _command(notes.RowsBehindWatermark, PLUMBING, "{who}: {late_rows} so far behind the watermark of {operator}"),
    _command(
        notes.SplitsPaused, DETAIL, "{who} pauses its splits, which are ahead of others by more than the allowed drift"
    ),
    _command(notes.SplitsResumed, DETAIL, "{who} reads its splits again, which alignment had paused"),
    _command(notes.LateRowsDropped, DETAIL, "{who}: {late_rows} dropped by {operator} so far, as late"),
    _command(
        notes.BarrierIgnored,
        PLUMBING,
        "{who} ignores barrier {cp} from {source}: this checkpoint has ended for it",
        change=channels.barrier_ignored,
    ),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*_EVENTS, *_COMMANDS, *_MESSAGES, *_WITHIN_A_SLOT, *_NOTES)}
"""The kinds, by the name of the message, event, command or note."""

FAULT = Kind("", MAIN, fault=Side("In the lab: {text}", changes.fault))
"""The presentation of every fault: its sentence comes from the lab's table of faults and is in the record."""
OTHER = Kind("", DETAIL)
"""The presentation of a kind without an entry, which may come from a newer or older trace."""


def kind_of(record: TraceRecord) -> Kind:
    """Return the entry of a record's kind."""
    return KINDS.get(record.kind) or (FAULT if record.role == "fault" else OTHER)


def level_of(record: TraceRecord) -> int:
    """Return how much a record matters."""
    return kind_of(record).level_of(record)
