"""The mutants: faults that look like real bugs (off by one, a branch forgotten, the wrong order, the wrong comparison),
each in one function of the kit, with what finds it at least cost.

A random job of the swarm has the input for four mutants that a test finds nevertheless. A watermark from an idle
channel (`idle-channel-counted`) is sent by no operator of the kit. Which of two inputs becomes idle last
(`last-input-behind-others`) is a matter of the schedule, so both results are right. A side output whose barrier waits
its turn (`side-output-not-captured`) loses nothing. Failures, a savepoint and failures again in one trial
(`savepoint-forgives-nothing`) are too rare: 200 seeds of jobs made for it did not find it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.mutants.finders import ByExplore, BySwarm, ByTest, Finder
from tests.mutants.planting import Mutant
from tests.mutants.several import SEVERAL
from tests.mutants.spilled import SPILLED
from tests.mutants.surroundings import SURROUNDINGS

SWARM = BySwarm()
EXPLORE = ByExplore()
MIXED = "restore_check/test_mixed_findings.py"
Row = tuple[str, str, str, str, str, Finder]
"""Name, what it breaks, the function, the fragment of it that changes, what it becomes, what finds it."""

REGIONS: tuple[Row, ...] = (
    (
        "region-without-its-state",
        "a region that restarts is not restored from the latest checkpoint",
        "kit.machines.job.job_master:JobMaster._deploy_regions_when_restored",
        "{} if restoring is None else restoring.job.restores",
        "{}",
        ByExplore(job="copies", checkpoints=0, fault="kill"),
    ),
    (
        "splits-of-a-region-lost",
        "the splits of a reader that fails alone do not come back",
        "kit.machines.job.operator_coordinators:OperatorCoordinators.reset",
        "holder.subtask_reset(subtask, checkpoint_id)",
        "...",
        ByExplore(job="copies", checkpoints=0, fault="kill"),
    ),
    (
        "other-regions-stopped",
        "the tasks of all regions are stopped, and only those of the one that failed start again",
        "kit.machines.job.region_failover:RegionFailover.begin",
        "StopTasks(epoch=host.epoch, restart=restart.number, tasks=restart.tasks)",
        "StopTasks(epoch=host.epoch, restart=restart.number, tasks=tuple(host.tasks))",
        ByExplore(job="pair", checkpoints=0, fault="fail"),
    ),
)

COORDINATOR: tuple[Row, ...] = (
    (
        "two-complete-at-once",
        "a checkpoint that all have acknowledged does not wait while another one is being completed",
        "kit.machines.coordinator.completing:CheckpointCompletion.go_on",
        "self._queue and not any(each.state in _IN_TURN for each in self._ledger.pending.values())",
        "self._queue",
        ByExplore(job="collects", checkpoints=2),
    ),
    (
        "older-not-subsumed",
        "when a checkpoint completes, the older ones go on",
        "kit.machines.coordinator.ledger:CheckpointLedger.abort_subsumed",
        "checkpoint.checkpoint_id < checkpoint_id",
        "checkpoint.checkpoint_id > checkpoint_id",
        ByExplore(job="collects", checkpoints=2),
    ),
    (
        "late-ack-forgotten",
        "the state of an acknowledgement that comes after its checkpoint was aborted is never deleted",
        "kit.machines.coordinator.acknowledging:CheckpointAcknowledgement._ignore",
        "self._delete(event.checkpoint_id, paths)",
        "shared_is_registered or self._delete(event.checkpoint_id, paths)",
        ByTest(
            "machines/coordinator/test_completing.py::test_state_that_nobody_wants_is_discarded_but_never_another_jobs"
        ),
    ),
    (
        "last-ack-not-awaited",
        "a checkpoint completes when one task has not acknowledged",
        "kit.machines.coordinator.pending_checkpoint:PendingCheckpoint.is_fully_acknowledged",
        "self.not_yet_acked_tasks",
        "len(self.not_yet_acked_tasks) > 1",
        EXPLORE,
    ),
    (
        "notify-before-storing",
        "the tasks hear that a checkpoint is complete before it is in the store",
        "kit.machines.coordinator.completing:CheckpointCompletion.on_metadata_written",
        "self._storing = checkpoint, completed",
        "self._storing = checkpoint, completed\nself._notify(checkpoint, -1)",
        EXPLORE,
    ),
    (
        "stale-epoch-accepted",
        "an acknowledgement of an earlier attempt of the task counts",
        "kit.machines.coordinator.pending_checkpoint:PendingCheckpoint.acknowledge_task",
        "attempt != self.plan.attempts.of(task)",
        "attempt > self.plan.attempts.of(task)",
        ByTest("machines/coordinator/test_pending_checkpoint.py::test_acks_are_told_apart"),
    ),
    (
        "id-given-out-again",
        "after a restore the checkpoint that was restored gets its id again",
        "kit.machines.coordinator.restore_point:CheckpointRestore.add_savepoint",
        "completed.checkpoint_id + 1",
        "completed.checkpoint_id",
        SWARM,
    ),
    (
        "oldest-restored",
        "a job goes back to the oldest retained checkpoint instead of the newest",
        "kit.machines.coordinator.completed.completed_checkpoint_store:CompletedCheckpointStore.latest",
        "self.checkpoints[-1]",
        "self.checkpoints[0]",
        ByTest("machines/coordinator/test_store.py::test_the_latest_is_the_last_added"),
    ),
    (
        "savepoint-subsumes",
        "a savepoint aborts the older checkpoints that are pending",
        "kit.machines.coordinator.completing:CheckpointCompletion._complete",
        "not completed.properties.is_savepoint or completed.properties.is_synchronous",
        "True",
        ByTest(
            "machines/coordinator/test_savepoints.py::test_a_savepoint_completes_is_not_kept_and_confirmed_to_nobody"
        ),
    ),
    (
        "savepoint-subsumed",
        "a newer checkpoint aborts a pending savepoint, which somebody waits for",
        "kit.machines.coordinator.pending_checkpoint:PendingCheckpoint.can_be_subsumed",
        "not self.properties.is_savepoint",
        "True",
        ByTest("machines/coordinator/test_savepoints.py::test_checkpoints_subsume_older_checkpoints_but_no_savepoint"),
    ),
    (
        "abort-told-to-sources-only",
        "only the tasks that were triggered hear that a checkpoint was aborted",
        "kit.machines.coordinator.ledger:CheckpointLedger._send_aborted",
        "checkpoint.plan.tasks_to_commit_to",
        "checkpoint.plan.tasks_to_trigger",
        ByTest(
            "machines/coordinator/test_completing.py::test_a_newer_checkpoint_ends_an_older_one_and_discards_what_it_had_and_what_still_comes"
        ),
    ),
    (
        "complete-told-to-sources-only",
        "only the tasks that were triggered hear that a checkpoint is complete",
        "kit.machines.coordinator.completing:CheckpointCompletion._notify",
        "checkpoint.plan.tasks_to_commit_to",
        "checkpoint.plan.tasks_to_trigger",
        EXPLORE,
    ),
    (
        "sweep-takes-completed",
        "when the workers have left, the directories of their completed checkpoints are deleted with the aborted ones",
        "kit.machines.job.leftovers:Leftovers.sweep",
        "not (checkpoint_id in self._checkpoints.pending or self._checkpoints.ledger.is_completed(checkpoint_id))",
        "checkpoint_id not in self._checkpoints.pending",
        SWARM,
    ),
    (
        "sweep-forgets-aborted",
        "what a task had written for an aborted checkpoint stays when its worker dies during the next one",
        "kit.machines.job.leftovers:Leftovers.begin",
        "self._begun[checkpoint_id] = location",
        "self._begun = {checkpoint_id: location}",
        ByTest("hosts/lab/test_scenarios.py::test_a_scenario_comes_out_as_it_says[what-a-dead-worker-wrote]"),
    ),
    (
        "recovers-behind-the-savepoint",
        "a job whose savepoint to stop with stands goes back to an older checkpoint when a worker dies",
        "kit.machines.job.job_master:JobMaster._on_failure",
        "self.stopping.stands",
        "self.stopping.stands and not recoverable",
        ByTest("machines/job/test_stop_with_savepoint.py::test_once_the_savepoint_stands_no_failure_is_recovered_from"),
    ),
    (
        "last-checkpoint-twice",
        "the timer of the next attempt at the last checkpoint outlives the epoch and begins a second one",
        "kit.machines.job.last_checkpoint:LastCheckpoint.forget",
        "if self._retries:\n    ...",
        "if False:\n    ...",
        ByTest("machines/job/test_life.py::test_after_a_restart_the_last_checkpoint_is_taken_once"),
    ),
    (
        "hooks-not-awaited",
        "tasks are deployed before the master hooks have been told that the job begins from nothing",
        "kit.machines.coordinator.restore_point:CheckpointRestore.restore_hooks",
        "return bool(hooks)",
        "return False",
        ByTest("machines/job/test_life.py::test_a_hook_that_cannot_be_reset_fails_the_job_before_a_task_is_deployed"),
    ),
    (
        "failures-never-forgiven",
        "a completed checkpoint does not reset the count of failures in a row",
        "kit.machines.coordinator.failure_manager:CheckpointFailureManager.handle_success",
        "self._clear()",
        "pass",
        ByTest("machines/coordinator/test_failure_manager.py::test_counts_as_flink_does"),
    ),
    (
        "pause-measured-from-trigger",
        "periodic checkpoints do not keep the pause after the last completion",
        "kit.machines.coordinator.request_decider:CheckpointRequestDecider.choose",
        "delay_ms > 0",
        "delay_ms > self.min_pause_ms",
        ByTest("machines/coordinator/test_request_decider.py::test_decides_as_flink_does"),
    ),
    (
        "periodic-trigger-drifts",
        "a trigger that comes late shifts all those after it",
        "kit.machines.coordinator.periodic:PeriodicTrigger.on_timer",
        "due_ms + self.interval_ms",
        "self._context.at + self.interval_ms",
        ByTest("machines/coordinator/test_periodic.py::test_a_timer_that_fires_late_does_not_shift_those_after_it"),
    ),
    (
        "savepoint-forgives-nothing",
        "a completed savepoint does not reset the count of failures in a row",
        "kit.machines.coordinator.ledger:CheckpointLedger.complete",
        "self.failures.handle_success(completed.checkpoint_id)",
        "completed.properties.is_savepoint or self.failures.handle_success(completed.checkpoint_id)",
        ByTest(
            "machines/coordinator/test_savepoints.py::test_a_savepoint_that_completes_clears_the_count_of_failures_like_a_checkpoint"
        ),
    ),
    (
        "hooks-by-any-case",
        "of two master hooks whose names differ in case only one gets the other's state",
        "kit.machines.coordinator.restore_point:restore_command",
        "{state.name: state for state in hook_states(states)}",
        "{name: each for each in hook_states(states) for name in hooks if name.lower() == each.name.lower()}",
        BySwarm(job="hooks=2", kinds="kill,stop,driver"),
    ),
    (
        "recovers-in-any-order",
        "a new driver takes the checkpoint whose location sorts last for the newest",
        "kit.machines.coordinator.completed.completed_checkpoint_store:CompletedCheckpointStore.recover",
        "each.checkpoint_id",
        "each.location",
        BySwarm(
            seeds=100,
            job="store=filesystem, max_retained=3, interval_ms=10, min_pause_ms=0, rows=30, splits=1, batch_rows=1",
            kinds="driver",
        ),
    ),
    (
        "older-ack-lowers-last-use",
        "a late acknowledgement of an older checkpoint lets a shared file go that a newer one uses",
        "kit.machines.coordinator.completed.shared_state_registry:SharedStateRegistry.register",
        "max(entry.last_used_id, checkpoint_id)",
        "checkpoint_id",
        ByTest("machines/coordinator/test_files_of_checkpoints.py"),
    ),
    (
        "first-private-file-only",
        "of the private files of incremental state only the first is deleted",
        "kit.machines.coordinator.completed.shared_state_registry:private_files",
        "handle.private_state",
        "handle.private_state[:1]",
        ByTest("machines/coordinator/test_files_of_checkpoints.py"),
    ),
    (
        "shared-by-the-last-operator-only",
        "of a restored checkpoint only the last operator's shared files are registered",
        "kit.machines.coordinator.completed.shared_state_registry:shared_handles",
        "{part.handle.physical_id: part.handle for state in states for part in shared_parts(state)}",
        "{part.handle.physical_id: part.handle for state in list(states)[-1:] for part in shared_parts(state)}",
        ByTest("machines/coordinator/test_files_of_checkpoints.py"),
    ),
    (
        "last-acked-completes-first",
        "of several checkpoints that wait for one being stored, the last one acknowledged is completed first",
        "kit.machines.coordinator.completing:CheckpointCompletion.on_acknowledged",
        "self._queue.append(checkpoint)",
        "self._queue.insert(0, checkpoint)",
        ByTest(
            "machines/coordinator/test_completing.py::test_of_several_that_all_have_acked_one_is_completed_at_a_time_in_the_order_of_their_last_acks"
        ),
    ),
    (
        "late-state-of-one-operator-only",
        "of a late acknowledgement only the head's files are deleted",
        "kit.machines.coordinator.acknowledging:CheckpointAcknowledgement._ignore",
        "snapshot.subtask_states.values()",
        "list(snapshot.subtask_states.values())[:1]",
        ByTest("machines/coordinator/test_any_order.py"),
    ),
    (
        "union-list-of-the-head-only",
        "a partly finished task whose union list is not in the head of its chain loses entries",
        "kit.machines.coordinator.plan:_uses_union_list_state",
        "task.vertex.operators",
        "task.vertex.operators[:1]",
        ByTest("machines/coordinator/test_plan.py::test_one_union_list_among_many_is_found"),
    ),
    (
        "savepoints-swept-at-the-end",
        "a job that ends deletes the savepoints that it took",
        "kit.machines.coordinator.ledger:CheckpointLedger._retain",
        "self.savepoints.add(completed.checkpoint_id)",
        "pass",
        ByTest("machines/job/test_any_order.py"),
    ),
    (
        "one-coordinator-of-a-chain",
        "of several operator coordinators in one chain only the last hears of its subtasks",
        "kit.machines.job.operator_coordinators:OperatorCoordinators._at",
        "self._by_vertex.get(vertex, ())",
        "self._by_vertex.get(vertex, [])[-1:]",
        ByTest("machines/job/test_operator_coordinators.py"),
    ),
    (
        "gates-of-one-coordinator",
        "when triggering is aborted only the first coordinator's gates open",
        "kit.machines.job.operator_coordinators:OperatorCoordinators.abort_triggering",
        "self._holders.values()",
        "list(self._holders.values())[:1]",
        ByTest(
            "machines/job/test_operator_coordinator_holder.py::test_the_gates_of_all_subtasks_of_all_coordinators_open[abort_triggering]"
        ),
    ),
    (
        "backlog-never-ends",
        "an operator that processes a backlog does so for good, although its subtasks have no more input",
        "kit.machines.job.operator_coordinators:OperatorCoordinatorHolder.data_ended",
        "self._ended.add(subtask)",
        "pass",
        ByTest(
            "machines/job/test_operator_coordinator_holder.py::test_a_backlog_ends_with_the_last_subtask_of_each_operator_at_each_parallelism"
        ),
    ),
    (
        "rescale-notes-overtake",
        "of two rescale requests under way at the same time the durable store keeps the first only",
        "kit.machines.job.rescaling:Rescaling._note_next",
        "self._is_noting or not (self._noting or self._is_stale)",
        "not (self._noting or self._is_stale)",
        BySwarm(job="store=filesystem", kinds="rescale"),
    ),
)


TASK: tuple[Row, ...] = (
    (
        "barrier-not-passed-on",
        "a task takes its snapshot and keeps the barrier to itself",
        "kit.machines.task.subtask_coordinator:SubtaskCheckpointCoordinator.checkpoint_state",
        "self._task.outputs.broadcast(barrier)",
        "pass",
        EXPLORE,
    ),
    (
        "end-of-data-not-reported",
        "nobody hears that a task has seen all its input, so nobody begins the last checkpoint",
        "kit.machines.task.stream_task:StreamTask._end_data",
        "messages.TaskStateChanged(task=self.name, attempt=self.attempt, state=self.state, end_of_data=True)",
        "messages.TaskStateChanged(task=self.name, attempt=self.attempt, state=self.state)",
        EXPLORE,
    ),
    (
        "one-channel-not-aligned",
        "the barrier handler takes the checkpoint when one channel's barrier is still to come",
        "kit.machines.task.single_barrier_handler:SingleCheckpointBarrierHandler._check_new_checkpoint",
        "len(self._gates.open_channels)",
        "max(1, len(self._gates.open_channels) - 1)",
        SWARM,
    ),
    (
        "ack-before-channel-state",
        "a task acknowledges as soon as its operators' state is written, its in-flight data or not",
        "kit.machines.task.subtask_coordinator:AsyncCheckpoint.complete",
        "self.written is not None and self.channels.done and self.channels.error is None",
        "self.written is not None and self.channels.error is None",
        SWARM,
    ),
    (
        "barrier-after-snapshot",
        "operators that flush before the barrier do so after it has gone",
        "kit.machines.task.subtask_coordinator:SubtaskCheckpointCoordinator.checkpoint_state",
        "chain.prepare_snapshot_pre_barrier(checkpoint_id)\nself._task.outputs.broadcast(barrier)",
        "self._task.outputs.broadcast(barrier)\nchain.prepare_snapshot_pre_barrier(checkpoint_id)",
        ByTest(
            "machines/task/test_checkpoints.py::test_the_barrier_goes_out_between_preparation_and_snapshot_and_the_ack_last"
        ),
    ),
    (
        "early-abort-forgotten",
        "a task that hears of an abort before the barrier takes that checkpoint all the same",
        "kit.machines.task.subtask_coordinator:SubtaskCheckpointCoordinator.notify_checkpoint_aborted",
        "checkpoint_id > self.last_checkpoint_id",
        "checkpoint_id < self.last_checkpoint_id",
        ByExplore(job="collects", fault="repeat"),
    ),
    (
        "leaves-before-publishing",
        "a task leaves before its last output is published",
        "kit.machines.task.stream_task:StreamTask._may_leave",
        "self._commits_pending or self.checkpoints.running",
        "self.checkpoints.running",
        EXPLORE,
    ),
    (
        "any-checkpoint-is-the-last",
        "a task that has ended leaves after a checkpoint that began before its end",
        "kit.machines.task.final_checkpoint:FinalCheckpoint.complete",
        "if self._checkpoint_id is not None and checkpoint_id >= self._checkpoint_id:\n    self._completed = True",
        "self._completed = True",
        EXPLORE,
    ),
    (
        "ended-channel-awaited",
        "a barrier is waited for on a channel that ends during the alignment",
        "kit.machines.task.single_barrier_handler:SingleCheckpointBarrierHandler.process_end_of_partition",
        "self._mark_aligned(channel, barrier)",
        "pass",
        SWARM,
    ),
    (
        "newer-barrier-joins-older",
        "a newer barrier during an alignment does not give the older checkpoint up",
        "kit.machines.task.single_barrier_handler:SingleCheckpointBarrierHandler._check_new_checkpoint",
        "self._pending_barrier is not None",
        "self._pending_barrier is not None and not self._aligned",
        ByTest("machines/task/test_alignment.py::test_a_newer_barrier_gives_the_current_alignment_up"),
    ),
    (
        "no-cancel-marker",
        "those downstream of a task that gives a checkpoint up are not told not to wait for its barrier",
        "kit.machines.task.subtask_coordinator:SubtaskCheckpointCoordinator.abort_checkpoint_on_barrier",
        "self._task.outputs.broadcast(CancelCheckpointMarker(checkpoint_id))",
        "pass",
        ByTest("machines/task/test_alignment.py::test_a_cancel_marker_alone_declines_and_is_passed_on"),
    ),
    (
        "aborted-rows-dropped",
        "the rows that a sink staged for an aborted checkpoint are gone with it",
        "kit.stream.connectors.sink:SinkOperator.notify_checkpoint_aborted",
        "self.context.drop(effects)",
        "self.context.drop(effects)\nself._parts.clear()",
        SWARM,
    ),
    (
        "restored-output-not-published",
        "what a restored checkpoint had staged is not published again",
        "kit.stream.connectors.sink:SinkOperator.open",
        "self._publishing.items()",
        "()",
        ByExplore(job="collects", fault="kill"),
    ),
    (
        "recovered-idleness-ignored",
        "a channel that was idle at the checkpoint holds event time back after the restore",
        "kit.machines.task.task_input:TaskInput.take_recovered",
        "element is not None",
        "element is not None and not isinstance(element, WatermarkStatus)",
        BySwarm(job="stages=paced, mode=unaligned", kinds="kill"),
    ),
    (
        "recovered-watermarks-dropped",
        "watermarks that were in flight at the checkpoint are lost",
        "kit.machines.task.task_input:TaskInput.take_recovered",
        "element is not None",
        "element is not None and not isinstance(element, Watermark)",
        BySwarm(job="stages=paced, mode=unaligned", kinds="kill"),
    ),
    (
        "idle-channel-counted",
        "a watermark that an idle channel sends holds event time back",
        "kit.machines.task.watermark_valve:WatermarkValve.watermark",
        "(state.idle and not ends) or timestamp_ms <= state.watermark_ms",
        "timestamp_ms <= state.watermark_ms",
        ByTest(
            "machines/task/test_watermark_valve.py::test_a_watermark_of_an_idle_channel_does_not_hold_the_others_back_later"
        ),
    ),
    (
        "last-input-behind-others",
        "the last input to become idle lets event time go on to the lowest mark of all inputs, not to its own",
        "kit.machines.task.watermark_valve:InputWatermarks._combined",
        "active or last",
        "active or self._valves.values()",
        ByTest(
            "machines/task/test_watermark_valve.py::test_event_time_goes_on_to_the_mark_of_the_last_input_to_become_idle"
        ),
    ),
    (
        "restored-session-stands-alone",
        "no row joins a session that was restored as the only one of its subtask",
        "kit.stream.operators.windows.merging_window_operator:MergingWindowOperator.initialize_state",
        'self._index.add(codes, starts, ends, rows["namespace"].to_numpy())',
        'len(codes) > 1 and self._index.add(codes, starts, ends, rows["namespace"].to_numpy())',
        BySwarm(job="branch=sessions", kinds="kill,stop"),
    ),
    (
        "timers-not-armed",
        "processing-time timers that were restored wait for the next row before they fire",
        "kit.machines.task.stream_task:StreamTask._run_when_recovered",
        "self._timer.arm()",
        "pass",
        BySwarm(job="stages=waits", kinds="kill,time"),
    ),
    (
        "side-output-lost",
        "what barriers overtake in a side output is missing from the snapshot",
        "kit.machines.task.task_outputs:TaskOutputs.__init__",
        "ResultPartition(\n"
        "    partition.index,\n"
        "    [(number, graph.channel(number).target_task) for number in partition.channels],\n"
        "    send,\n"
        "    waits,\n"
        "    writer,\n"
        "    supports_unaligned=partition.edge.supports_unaligned,\n"
        "    full=self._full,\n"
        "    capture=capture,\n"
        ")",
        "ResultPartition(\n"
        "    partition.index,\n"
        "    [(number, graph.channel(number).target_task) for number in partition.channels],\n"
        "    send,\n"
        "    waits,\n"
        '    writer if partition.edge.output_tag is None else __import__("unittest.mock").mock.Mock(),\n'
        "    supports_unaligned=partition.edge.supports_unaligned,\n"
        "    full=self._full,\n"
        "    capture=capture,\n"
        ")",
        BySwarm(job="stages=aside rebalance, mode=unaligned", kinds="kill"),
    ),
    (
        "side-output-not-captured",
        "barriers do not overtake what waits in a side output, and it is missing from the snapshot",
        "kit.machines.task.task_outputs:TaskOutputs.__init__",
        "partition.edge.supports_unaligned",
        "partition.edge.supports_unaligned and partition.edge.output_tag is None",
        ByTest(
            "machines/task/test_recovery.py::test_what_waits_in_a_side_output_is_in_the_checkpoint_and_sent_after_the_restore"
        ),
    ),
)


CHANNEL: tuple[Row, ...] = (
    (
        "persists-behind-the-barrier",
        "data that arrives on a channel after its barrier is in-flight data too",
        "kit.machines.channel.channel_state.channel_state_persister:ChannelStatePersister.maybe_persist",
        "self.status is CheckpointStatus.BARRIER_PENDING",
        "self.status is not CheckpointStatus.COMPLETED",
        SWARM,
    ),
    (
        "in-flight-forgotten",
        "what is queued on a channel when an unaligned checkpoint begins is not stored",
        "kit.machines.channel.channel_state.channel_state_persister:ChannelStatePersister.start_persisting",
        "if known:\n    ...",
        "if known and self.status is CheckpointStatus.COMPLETED:\n    ...",
        ByExplore(job="overtakes"),
    ),
    (
        "in-flight-twice",
        "what is queued on a channel when an unaligned checkpoint begins is stored twice",
        "kit.machines.channel.input_channel:InputChannel.checkpoint_started",
        "self._in_flight()",
        "self._in_flight() * 2",
        ByExplore(job="overtakes"),
    ),
    (
        "fragments-forgotten",
        "the fragments of an unfinished record are not in-flight data",
        "kit.machines.channel.input_channel:InputChannel._in_flight",
        "[*self.assembler.fragments]",
        "[]",
        ByTest(
            "machines/task/test_fragments.py::test_what_was_taken_of_a_record_is_in_flight_before_what_is_queued_and_what_still_comes"
        ),
    ),
    (
        "overtakes-behind-the-barrier",
        "all that is queued counts as overtaken, also what came after the barrier",
        "kit.machines.channel.input_channel:InputChannel._in_flight",
        "self._last_barrier_number != NONE and item.sequence_number >= self._last_barrier_number",
        "False",
        ByTest("machines/task/test_barriers_in_any_order.py::test_aligned_until_it_takes_too_long"),
    ),
    (
        "single-buffer-not-stored",
        "a barrier that overtakes one buffer only does not give it to the checkpoint",
        "kit.machines.channel.result_partition:ResultSubpartition._overtake",
        "if data:\n    ...",
        "if len(data) > 1:\n    ...",
        SWARM,
    ),
    (
        "timeout-stores-the-whole-queue",
        "an output barrier that times out stores what is queued behind it as well",
        "kit.machines.channel.result_partition:ResultSubpartition.aligned_barrier_timeout",
        "[element for at, element in enumerate(self.queue) if at < position]",
        "list(self.queue)",
        ByTest(
            "machines/channel/test_queues.py::test_a_barrier_whose_time_is_up_turns_unaligned_and_overtakes_what_is_before_it"
        ),
    ),
    (
        "held-data-let-in",
        "when a channel is resumed, what follows the next aligned barrier is let in as well",
        "kit.machines.channel.input_channel:InputChannel.resume",
        "self._held and self._closed_by is None",
        "self._held",
        ByTest("machines/channel/test_queues.py::test_what_comes_behind_an_aligned_barrier_waits_for_resume"),
    ),
    (
        "old-event-time-recovered",
        "after a rescale the watermarks of old senders count, and rows that new ones have still to read are late",
        "kit.machines.task.task_input:TaskInput._on_watermark",
        "channel.number in self._old_event_time",
        "False",
        ByTest("hosts/lab/test_event_time_of_rescaled_senders.py"),
    ),
    (
        "old-senders-further-upstream-forgotten",
        "watermarks behind an operator that was not rescaled count, although the readers before it were",
        "kit.machines.restore.state_assignment:_senders_of",
        "to_visit += [each.source for each in edges if each.target == vertex and not each.is_redistributable]",
        "pass",
        ByTest("hosts/lab/test_event_time_of_rescaled_senders.py"),
    ),
    (
        "recovered-idleness-stays",
        "the watermarks of a sender that was idle at the checkpoint are ignored after the restore",
        "kit.machines.task.task_input:TaskInput._on_watermark_status",
        "idle and channel.number in self._before_live",
        "False",
        ByTest(
            "machines/task/test_recovery.py::test_a_sender_whose_idleness_was_recovered_is_active_with_its_next_watermark"
        ),
    ),
    (
        "wrong-records-recovered",
        "after a rescale recovered records are filtered where they are not ambiguous, and not where they are",
        "kit.machines.channel.demultiplexer:Demultiplexer.__init__",
        "create_filter() if subtask in gate.ambiguous else accept_all",
        "accept_all if subtask in gate.ambiguous else create_filter()",
        ByTest("machines/channel/test_demultiplexer.py::test_only_ambiguous_connections_are_filtered"),
    ),
    (
        "recovered-input-dropped",
        "a restore drops the in-flight data of the inputs",
        "kit.machines.channel.channel_state.channel_state_reader:SequentialChannelStateReader.read_input_data",
        "(SubtaskStateKind.INPUT_CHANNEL, SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER)",
        "(SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER,)",
        ByTest("unaligned/test_flinks_jobs.py::test_failures_at_every_stage[union-5-unaligned]"),
    ),
    (
        "recovered-output-dropped",
        "a restore drops the in-flight data of the outputs",
        "kit.machines.channel.channel_state.channel_state_reader:SequentialChannelStateReader.read_output_data",
        "self._read(SubtaskStateKind.RESULT_SUBPARTITION, handler)",
        "pass",
        ByTest("unaligned/test_matrix.py::test_rescale_in_the_lab[PIPELINE-3-3-unaligned]"),
    ),
    (
        "recovered-records-unfiltered",
        "after a rescale each new receiver keeps all records of an old channel that several took over",
        "kit.machines.channel.demultiplexer:Demultiplexer.__init__",
        "create_filter() if subtask in gate.ambiguous else accept_all",
        "accept_all",
        ByTest("unaligned/test_matrix.py::test_rescale_in_the_lab[PIPELINE-1-2-unaligned]"),
    ),
    (
        "file-ends-with-the-inputs",
        "a shared channel state file is written as soon as a subtask's inputs are there, its outputs or not",
        "kit.machines.channel.channel_state.channel_state_checkpoint_writer:ChannelStatePendingResult.complete",
        "self.all_inputs_received and self.all_outputs_received",
        "self.all_inputs_received",
        SWARM,
    ),
)

RESTORE: tuple[Row, ...] = (
    (
        "union-as-split",
        "union list state is dealt out entry by entry instead of given to all",
        "kit.machines.restore.repartition:_Grouped.__init__",
        "states = by_mode[info.mode]",
        "states = by_mode[OperatorStateMode.SPLIT_DISTRIBUTE if info.mode is OperatorStateMode.UNION else info.mode]",
        ByTest("machines/restore/test_repartition.py::test_every_vector"),
    ),
    (
        "remainder-not-dealt",
        "when entries cannot be dealt out evenly, those left over are lost",
        "kit.machines.restore.repartition:_cut",
        "base + (turns < remainder)",
        "np.full(parallelism, base)",
        SWARM,
    ),
    (
        "last-key-group-lost",
        "a rescale takes the range of key groups to end one earlier",
        "kit.machines.restore.keyed:_overlaps",
        "[covered.end for covered in ranges]",
        "[covered.end - 1 for covered in ranges]",
        ByTest("machines/restore/test_state_assignment.py::test_every_vector"),
    ),
    (
        "key-groups-shifted",
        "where a handle is cut, the offsets of its key groups are taken one further on",
        "kit.machines.restore.keyed:_cut",
        "handle.offsets[common.start - start : common.end - start + 1]",
        "(handle.offsets * 2)[common.start - start + 1 : common.end - start + 2]",
        SWARM,
    ),
    (
        "first-old-subtask-only",
        "at a smaller parallelism a subtask recovers the in-flight data of one old subtask only",
        "kit.machines.restore.subtask_state_mapper:SubtaskStateMapper.get_old_subtasks",
        "tuple(range(new_index, old_parallelism, new_parallelism))",
        "tuple(range(new_index, old_parallelism, new_parallelism))[:1]",
        SWARM,
    ),
    (
        "finished-tasks-run-again",
        "tasks that had finished before a restore begin from nothing",
        "kit.machines.restore.state_assignment:_restores",
        "assignment.is_fully_finished",
        "assignment.is_fully_finished and recovered",
        SWARM,
    ),
    (
        "shared-file-still-used",
        "a shared file goes while the oldest retained checkpoint still uses it",
        "kit.machines.coordinator.completed.shared_state_registry:SharedStateRegistry.unregister_unused",
        "entry.last_used_id < lowest_id",
        "entry.last_used_id <= lowest_id",
        ByTest("machines/coordinator/test_shared_state_registry.py::test_registers_and_lets_go_as_flink_does"),
    ),
)

STATE: tuple[Row, ...] = (
    (
        "copy-of-another-checkpoint",
        "local recovery looks among the copies of whatever checkpoint the slot has first",
        "kit.files.local_state:LocalState._copies",
        'f"{self._directory}/{slot}/{CHECKPOINT}{checkpoint_id}"',
        "f\"{self._directory}/{slot}/{self._names(f'{self._directory}/{slot}')[0]}\"",
        ByTest("files/test_local_state.py::test_copies_come_first_and_the_truth_last"),
    ),
    (
        "snapshot-shares-arrays",
        "a snapshot of a small state looks at the living arrays, which go on changing",
        "kit.stream.backend.files.frozen_array:FrozenArray.__init__",
        "size <= COPIED_AT_ONCE",
        "size < 0",
        SWARM,
    ),
    (
        "kept-in-the-wrong-order",
        "what was overwritten in a large state is put back the earliest first",
        "kit.stream.backend.files.frozen_array:FrozenArray.array",
        "reversed(kept.copy())",
        "reversed(kept.copy()[::-1])",
        ByTest("stream/backend/test_frozen_array.py::test_every_frozen_array_is_what_the_array_was"),
    ),
    (
        "expiry-not-written-back",
        "an entry that a run of rows finds expired stays in the state",
        "kit.stream.backend.states.ttl_values:TtlEntryTable.found_in",
        "within.entries[position], within.changed[position] = None, 1",
        "within.entries[position] = None",
        ByTest("stream/backend/test_ttl.py::test_a_run_removes_and_renews_what_is_read"),
    ),
    (
        "expired-sum-goes-on",
        "a batch is added to sums that have expired",
        "kit.stream.backend.states.ttl_values:TtlEntryTable.start_again",
        "self.returns_expired",
        "True",
        ByTest("stream/backend/test_ttl.py::test_a_batch_sees_removes_and_renews_entries"),
    ),
    (
        "times-not-restored",
        "what is restored counts as accessed at the restore",
        "kit.stream.backend.states.ttl_table:TtlTable.restore",
        "accesses is None",
        "True",
        ByTest("stream/backend/test_ttl.py::test_a_rescale_keeps_values_with_their_times"),
    ),
    (
        "expired-elements-in-snapshots",
        "a snapshot keeps the expired elements of a list of which others live on",
        "kit.stream.backend.states.ttl_containers:TtlContainerTable.freeze_columns",
        "self.limit_ms() if without_expired else None",
        "None",
        ByTest("stream/backend/test_ttl.py::test_a_snapshot_leaves_out_expired_parts_of_lists_and_maps"),
    ),
    (
        "only-first-entries-checked",
        "the accesses to a state check the same entries again and again",
        "kit.stream.backend.states.ttl_table:TtlTable.check_others",
        "self._cleaned if self._cleaned < size else 0",
        "0",
        ByTest("stream/backend/test_ttl.py::test_each_access_checks_other_entries_in_turn"),
    ),
    (
        "operator-snapshot-not-copied",
        "a snapshot of operator state is the living list, which goes on changing",
        "kit.stream.backend.operator_store:OperatorStateStore.snapshot",
        "(state.copy() for _, state in sorted(self._states.items()) if len(state))",
        "(state for _, state in sorted(self._states.items()) if len(state))",
        ByTest("stream/backend/test_operator_store.py::test_a_snapshot_does_not_change_with_its_store"),
    ),
    (
        "timer-lost",
        "the timers of a key group's last key are not restored",
        "kit.stream.backend.timers:TimerQueue._add",
        "self.index.find_or_add(codes)",
        "self.index.find_or_add([column[: max(1, len(column) - 1)] for column in codes])",
        SWARM,
    ),
    (
        "one-key-group-off",
        "keys belong to the key group after their own",
        "kit.stream.backend.keys.key_hashing:key_groups_for_hashes",
        "return groups",
        "return (groups + 1) % max_parallelism",
        ByTest("core/state/test_key_groups.py::test_a_column_of_keys_as_flink"),
    ),
    (
        "entry-removed-first",
        "a checkpoint's entry leaves the durable store before its files, which nobody deletes if that fails",
        "kit.files.job_files:JobFiles._discard",
        "self._storage.discard(command.paths)",
        "command.stored and self._store.remove(command.checkpoint_id)\nself._storage.discard(command.paths)",
        ByTest("files/test_job_files.py::test_the_entry_in_the_store_goes_after_the_files"),
    ),
    (
        "directory-written-again",
        "a new run gives out the id of the newest checkpoint directory that is there",
        "kit.files.job_files:JobFiles._recover",
        "max(self._storage.checkpoint_locations(), default=0) + 1",
        "max(self._storage.checkpoint_locations(), default=0)",
        ByTest("files/test_job_files.py::test_no_id_is_given_out_whose_directory_is_there"),
    ),
)


METADATA: tuple[Row, ...] = (
    (
        "coordinator-state-dropped",
        "the state of an operator's coordinator is not written",
        "kit.core.metadata.operator_states:write_operator_state",
        "write_stream(out, operator.coordinator_state)",
        "write_stream(out, None)",
        ByTest("core/metadata/test_round_trip.py::test_any_metadata_is_read_as_it_was_written"),
    ),
    (
        "finished-marker-off-by-one",
        "the marker of a finished subtask names its neighbour",
        "kit.core.metadata.operator_states:_read_subtasks",
        "index = -index - 1",
        "index = -index",
        ByTest("core/metadata/test_round_trip.py::test_any_metadata_is_read_as_it_was_written"),
    ),
    (
        "raw-and-managed-swapped",
        "raw keyed state is read as managed and the other way around",
        "kit.core.metadata.operator_states:read_subtask_state",
        "OperatorSubtaskState(managed_operator, raw_operator, managed_keyed, raw_keyed, inputs, outputs)",
        "OperatorSubtaskState(managed_operator, raw_operator, raw_keyed, managed_keyed, inputs, outputs)",
        ByTest("core/metadata/test_real_checkpoints.py::test_we_say_all_that_flink_says"),
    ),
    (
        "master-state-length",
        "the length of a master hook's state is written without its version",
        "kit.core.metadata.serializer:_write_master_state",
        "out.blob(content)",
        "out.int32(len(content) - 4)\nout += content",
        ByTest("core/metadata/test_round_trip.py::test_any_metadata_is_read_as_it_was_written"),
    ),
    (
        "base-not-joined",
        "relative paths start from the directory's parent",
        "kit.core.metadata.serializer:read_metadata",
        'base.rstrip("/")',
        'base.rstrip("/").rpartition("/")[0]',
        ByTest("core/metadata/test_real_checkpoints.py::test_every_file_it_refers_to_is_found_and_is_the_one_meant"),
    ),
)

LAB: tuple[Row, ...] = (
    (
        "messages-overtake",
        "messages between a task and the JobMaster arrive in the wrong order",
        "kit.hosts.lab.world.agenda:Agenda.take_message",
        "message = queue[place]\ndel queue[place]",
        "message = queue.pop()",
        ByTest("hosts/lab/test_agenda.py::test_messages_on_one_way_keep_their_order"),
    ),
    (
        "timer-set-anew-fires-early",
        "a timer that is due and is set anew fires at once",
        "kit.hosts.lab.world.agenda:Agenda.schedule",
        "self._due.discard(number)",
        "pass",
        ByTest("hosts/lab/test_agenda.py::test_a_timer_that_is_due_and_is_set_anew_waits_again"),
    ),
    (
        "rewind-loses-elements",
        "after going back, what was under way in the channels is gone",
        "kit.hosts.lab.world.agenda:Agenda.__deepcopy__",
        "{channel: queue.copy() for channel, queue in self._wires.items()}",
        "{channel: type(queue)() for channel, queue in self._wires.items()}",
        ByTest("hosts/lab/test_agenda.py::test_a_copy_goes_on_by_itself"),
    ),
    (
        "rewind-shares-the-disk",
        "a lab that went back sees the files of the time that it undid",
        "kit.filesystems.memory:MemoryFiles.copy",
        "MemoryFiles(dict(self.contents), set(self.directories))",
        "MemoryFiles(self.contents, self.directories)",
        ByTest("hosts/lab/test_stepping.py::test_the_disk_goes_back_too"),
    ),
)

READING: tuple[Row, ...] = (
    (
        "files-of-a-damaged-checkpoint-unused",
        "no file is called unused while a checkpoint cannot be read",
        "kit.snapshots.checkpoints.directory:Checkpoints._orphans",
        "any(each.checkpoint is None and each.has_metadata for each in self.found)",
        "all(each.checkpoint is None and each.has_metadata for each in self.found)",
        ByTest("cli/test_commands.py::test_orphans_lists_no_file_of_a_damaged_checkpoint"),
    ),
    (
        "shrinking-not-warned-of",
        "in-flight rows are told of when a job gets fewer subtasks",
        "kit.restore_check.check:_unknown_exchanges",
        "new != state.parallelism",
        "new > state.parallelism",
        ByTest(f"{MIXED}::test_rows_in_flight_are_told_of_when_a_job_grows_and_when_it_shrinks"),
    ),
    (
        "repeated-hides-lost",
        "what is lost is told although rows are repeated too",
        "kit.restore_check.check:_dropped",
        "effects == {Effect.REPEATED}",
        "Effect.REPEATED in effects",
        ByTest(f"{MIXED}::test_what_is_lost_is_told_although_rows_are_repeated_too"),
    ),
    (
        "lost-field-beside-a-new-one",
        "a field that is lost is told beside one that is new",
        "kit.snapshots.checkpoints.checking:_migrated",
        "any(each.loses for each in changes)",
        "all(each.loses for each in changes)",
        ByTest(f"{MIXED}::test_a_lost_field_is_told_beside_a_new_one"),
    ),
    (
        "nothing-lost-beside-a-warning",
        "a check does not say that nothing is lost beside a warning",
        "kit.snapshots.checkpoints.checking:with_types",
        "all(each.severity is Severity.TELLS for each in found)",
        "any(each.severity is Severity.TELLS for each in found)",
        ByTest(f"{MIXED}::test_a_note_beside_a_warning_does_not_say_that_nothing_is_lost"),
    ),
    (
        "points-for-an-error",
        "an error outside the check gives no points",
        "kit.course.grading.notebooks:_checked",
        '"\\n".join([str(error), *(f"Before that: {each}" for each in errors[:3])]), False',
        '"\\n".join([str(error), *(f"Before that: {each}" for each in errors[:3])]), True',
        ByTest("course/classroom/test_grading.py::test_an_error_outside_the_check_gives_no_points[1 / 0]"),
    ),
    (
        "larger-checkpoint-id-of-a-changelog-lost",
        "version 3 keeps a checkpoint id that is above the materialization's",
        "kit.core.metadata.keyed_handles:_write_changelog",
        "handle.checkpoint_id != handle.materialization_id",
        "handle.checkpoint_id < handle.materialization_id",
        ByTest("core/metadata/test_round_trip.py::test_both_ids_of_a_changelog_are_kept"),
    ),
    (
        "nanoseconds-in-a-struct",
        "Spark does not read nanoseconds inside a struct",
        "kit.hosts.spark.frames.output_columns:_types_in",
        "yield from _types_in(type.field(number).type)",
        "pass",
        ByTest("hosts/spark/test_output_frame.py::test_nanoseconds_anywhere_in_a_column_are_left_to_arrow"),
    ),
    (
        "state-deleted-before-metadata",
        "a deletion that is cut off leaves no metadata without its files",
        "kit.files.disposal:_delete",
        "([metadata_path], state_files)",
        "(state_files, [metadata_path])",
        ByTest("machines/restore/test_dispose_savepoint.py::test_the_metadata_goes_before_the_state"),
    ),
    (
        "end-of-a-value-guessed-inside-a-map",
        "a value inside a map whose end is not known is refused",
        "kit.snapshots.formats.heap:HeapGroups._unreadable_part",
        "isinstance(state.value, Opaque) and is_searched",
        "is_searched or True",
        ByTest("snapshots/test_unknown_ends.py::test_a_state_with_parts_of_unknown_ends_is_refused_by_each_reader"),
    ),
    (
        "null-makes-floats",
        "a null in a list makes no floating-point numbers of its integers",
        "kit.files.output_frame:_is_changed",
        "_changes_itself(whole) or any(_changes_itself(each) or _has_nanoseconds(each.type) for each in parts)",
        "_changes_itself(whole)",
        ByTest("hosts/spark/test_output_frame.py::test_no_value_changes"),
    ),
    (
        "oldest-checkpoint-of-a-task",
        "the metrics of a task are those of its newest checkpoint",
        "kit.run.statistics:CheckpointStatistics.task_metrics",
        "reversed(self._snapshot.checkpoints)",
        "self._snapshot.checkpoints",
        ByTest("run/test_statistics.py::test_the_metrics_that_flink_documents"),
    ),
    (
        "nanoseconds-are-microseconds",
        "metrics in nanoseconds are a million times those in milliseconds",
        "kit.run.statistics:_nanos",
        "ms * 1_000_000",
        "ms * 1_000",
        ByTest("run/test_statistics.py::test_the_metrics_that_flink_documents"),
    ),
    (
        "first-acknowledgement-is-the-latest",
        "the latest acknowledgement of a vertex is its last one",
        "kit.run.statistics:CheckpointStatistics.operators",
        'acked["ack_at_ms"].max',
        'acked["ack_at_ms"].min',
        ByTest("run/test_statistics.py::test_each_checkpoint_has_its_own_figures"),
    ),
    (
        "restore-ends-as-it-begins",
        "the span of each restore ends when all tasks run",
        "kit.run.statistics:CheckpointStatistics._initializations",
        '("JobInitialization", began.at_ms, record.at_ms, began.checkpoint_id, size, "COMPLETED")',
        '("JobInitialization", began.at_ms, began.at_ms, began.checkpoint_id, size, "COMPLETED")',
        ByTest("run/test_statistics.py::test_each_restore_has_its_own_span"),
    ),
    (
        "last-barrier-ends-the-start-delay",
        "the first barrier ends a subtask's start delay",
        "kit.run.checkpoint_path:Path._end",
        "self.ends.setdefault(phase, at_ms)",
        "self.ends[phase] = at_ms",
        ByTest("run/test_checkpoint_path.py"),
    ),
    (
        "declined-subtask-goes-on",
        "an open phase of a subtask that declined ends there",
        "kit.run.checkpoint_path:spans_of",
        "path.declined_ms if path.declined_ms is not None else until_ms",
        "until_ms",
        ByTest("run/test_checkpoint_path.py"),
    ),
    (
        "oldest-checkpoint-before-a-rejection",
        "the pause between checkpoints is counted from the newest one",
        "kit.why.requests:_grounds",
        "[each for each in complete if evidence.position(each) < evidence.position(record)][-1:]",
        "[each for each in complete if evidence.position(each) < evidence.position(record)][:1]",
        ByTest("why/test_requests.py::test_a_later_one_that_comes_too_soon_names_the_newest_checkpoint"),
    ),
    (
        "later-is-now",
        "a rescale waits for the next checkpoint if the user says so",
        "widgets.panels.rescale_panel:RescalePanel._ask",
        "lab.rescale(wanted, at_once=at_once)",
        "lab.rescale(wanted)",
        ByTest("widgets/test_questions.py::test_a_rescale_waits_for_the_next_checkpoint_if_the_user_says_so"),
    ),
    (
        "barrier-of-another-checkpoint-has-come",
        "a task box counts the barriers of its own checkpoint only",
        "kit.draw.stage.scene:_aligning",
        "(state.taken or 0) >= number",
        "(state.taken or 0) > 0",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "rows-behind-an-aborted-barrier",
        "rows are behind a barrier only while its checkpoint is pending",
        "kit.draw.stage.scene:_is_after",
        "(COMPLETED, ABORTED)",
        "(COMPLETED,)",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "one-colour-for-all-checkpoints",
        "barriers of successive checkpoints differ in colour",
        "kit.draw.stage.scene:colour",
        "checkpoint_id % COLOURS",
        "0",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "ended-checkpoint-in-a-task-box",
        "a task that only met an ended checkpoint runs",
        "kit.draw.stage.scene:_task_lines",
        "met is None or met[0] not in sight.pending",
        "met is None",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "badge-of-an-ended-checkpoint-is-lit",
        "the badge of an ended checkpoint is pale while another is pending",
        "kit.draw.stage.scene:task_sprites",
        "number in sight.pending",
        "sight.pending",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "gate-in-the-colour-of-the-first",
        "a gate has the colour of the barrier that it waits for",
        "kit.draw.stage.scene:_gate",
        "colour(awaited)",
        "colour(1)",
        ByTest("draw/test_second_checkpoint.py"),
    ),
    (
        "bundle-asks-for-the-newest-barrier",
        "a bundle asks for the oldest barrier that it waits for",
        "kit.draw.stage.scene:bundle_sprites",
        "awaited[0][0] if awaited else None",
        "awaited[-1][0] if awaited else None",
        ByTest("draw/test_second_checkpoint.py"),
    ),
)

SPARK: tuple[Row, ...] = (
    (
        "data-plane-not-fenced",
        "a slot of an earlier deployment may connect to the data plane",
        "kit.hosts.spark.wire.channels:DataPlane._judge",
        "party.deployment != self.deployment",
        "party.deployment > self.deployment",
        ByTest("hosts/spark/test_channels.py::test_a_slot_of_another_epoch_or_job_cannot_connect"),
    ),
    (
        "control-not-fenced",
        "a slot of an earlier deployment may join the driver",
        "kit.hosts.spark.wire.control:ControlServer._judge",
        "self._admitted.get(party.deployment)",
        "next(iter(self._admitted.values()), None)",
        ByTest("hosts/spark/test_control.py::test_a_slot_of_another_deployment_is_refused"),
    ),
    (
        "any-slot-number-joins",
        "a process with the secret may join as a slot that the deployment does not have",
        "kit.hosts.spark.wire.control:ControlServer._judge",
        "party.slot not in slots",
        "party.slot < 0",
        ByTest("hosts/spark/test_control.py::test_a_slot_that_the_deployment_does_not_have_is_refused"),
    ),
    (
        "old-slots-may-join",
        "slots of a deployment that has ended may join",
        "kit.hosts.spark.wire.control:ControlServer.fence",
        "self._admitted.pop(deployment, None)",
        "pass",
        ByTest("hosts/spark/test_control.py::test_a_deployment_ends_beside_others"),
    ),
    (
        "others-leave-too",
        "when the slots of a deployment are told to leave, those of the others are as well",
        "kit.hosts.spark.wire.control:ControlServer.fence",
        "slot.party.deployment == deployment",
        "True",
        ByTest("hosts/spark/test_control.py::test_a_deployment_ends_beside_others"),
    ),
    (
        "region-takes-the-others",
        "the restart of a region stops the slots of the others",
        "kit.hosts.spark.driver.slots:Slots.stop_tasks",
        "not slots.isdisjoint(each.slots)",
        "True",
        ByTest("hosts/spark/test_regions.py::test_a_task_that_fails_restarts_its_region_only"),
    ),
    (
        "secret-in-the-closure",
        "the job's secret and the key of its TLS are in a broadcast of Spark",
        "kit.hosts.spark.driver.gang:_SlotTask.__init__",
        "ticket.without_credentials()",
        "ticket",
        ByTest("hosts/spark/test_gang.py::test_the_credentials_travel_beside_the_closure"),
    ),
    (
        "client-without-certificate",
        "a client that presents no certificate passes TLS",
        "kit.hosts.spark.wire.tls:_contexts",
        "ssl.CERT_REQUIRED",
        "ssl.CERT_REQUIRED if context is dials else ssl.CERT_OPTIONAL",
        ByTest("hosts/spark/test_tls.py::test_a_client_without_a_certificate_is_refused"),
    ),
    (
        "session-open-to-all",
        "Spark serves the blocks of a session of the kit to every user of the machine",
        "kit.hosts.spark.session:session_settings",
        "LOCAL | AUTHENTICATED",
        "LOCAL",
        ByTest("hosts/spark/test_other_users.py::test_another_user_gets_nothing_of_a_session_of_the_kit"),
    ),
    (
        "restarted-without-a-cluster",
        "a job whose Spark session was stopped while it waited for its restart is restarted",
        "kit.machines.job.job_master:JobMaster._cluster_stopped",
        "self._dismiss_workers(JobEvent.FAIL_FOR_GOOD, event.error)",
        "pass",
        ByTest("machines/job/test_cluster_stopped.py::test_a_job_whose_cluster_was_stopped_ends_at_once"),
    ),
    (
        "outage-of-a-task-counted",
        "a task that fails three times because of an outage ends the job",
        "kit.machines.job.failures:FailureCause.of_task",
        "message.may_pass",
        "False",
        ByTest("machines/job/test_failures.py::test_what_the_job_is_not_to_blame_for_may_come_as_often_as_it_likes"),
    ),
    (
        "outage-of-storage-counted",
        "three checkpoints that fail because of an outage end the job",
        "kit.machines.coordinator.failure_manager:may_pass",
        "why.may_pass or why.reason is CheckpointFailureReason.CHECKPOINT_EXPIRED",
        "why.reason is CheckpointFailureReason.CHECKPOINT_EXPIRED",
        ByTest(
            "machines/job/test_failures.py::test_checkpoints_that_fail_in_the_same_way_end_the_job_unless_it_is_an_outage"
        ),
    ),
    (
        "default-in-a-record",
        "the data of a note has the fields that are left out",
        "kit.core.protocol.notes:Note.recorded",
        "default is not MISSING and value == default",
        "default is MISSING",
        ByTest("core/trace/test_trace.py::test_a_record_of_a_note_has_its_fields_and_gives_it_back"),
    ),
    (
        "outage-not-told",
        "an error of the storage is reported without saying that it is an outage",
        "kit.core.protocol.duties:Command.failed",
        'facts["may_pass"] = may_pass(error)',
        "pass",
        ByTest("hosts/spark/test_outages.py::test_a_job_goes_on_through_an_outage_of_its_storage[lab-I/O error]"),
    ),
    (
        "cause-of-an-error-ignored",
        "an outage that a store explains in an error of its own is taken for the job's fault",
        "kit.core.protocol.outages:may_pass",
        "any(map(_is_outage, _chain(error)))",
        "_is_outage(error)",
        ByTest("core/protocol/test_outages.py::test_an_outage_may_pass"),
    ),
    (
        "every-oserror-an-outage",
        "a directory without permission is retried forever",
        "kit.core.protocol.outages:_is_outage",
        "error.errno in _NUMBERS",
        "error.errno not in (2, 20)",
        ByTest("core/protocol/test_outages.py::test_a_fault_of_the_jobs_own_does_not_pass"),
    ),
    (
        "steady-receiver-lost",
        "a receiver that takes data slowly and steadily is called lost",
        "kit.hosts.spark.wire.switchboard:Line.check_peer",
        "not self._out or self._sent_s != self._seen_sent_s",
        "not self._out",
        ByTest("hosts/spark/test_switchboard.py::test_a_receiver_that_is_slow_and_steady_is_not_lost"),
    ),
    (
        "added-frame-reads-nothing",
        "a DataFrame that is added at a restore is not copied, because another source was restored",
        "kit.hosts.spark.frames.staging:Staging.is_restored",
        "state.operator_id == operator_id and state.coordinator_state is not None",
        "state.coordinator_state is not None",
        ByTest("hosts/spark/frames/test_staging.py::test_only_a_source_that_the_snapshot_knows_is_restored"),
    ),
    (
        "failed-put-counts-as-done",
        "a put into an object store that failed counts as done if there is an object",
        "kit.files.stores.object_records:ObjectRecords._look_up",
        "found is None or found[0] != data",
        "found is None",
        ByTest("files/test_object_records.py::test_a_put_that_failed_without_effect_is_an_error"),
    ),
    (
        "others-directory-not-synced",
        "a directory that another process made may be gone after a loss of power",
        "kit.filesystems.local_disk:LocalDisk.make_directory",
        "missing[:-1] or missing",
        "missing[:-1]",
        ByTest("filesystems/test_made_directories.py::test_a_directory_that_another_process_made_is_synced_too"),
    ),
    (
        "sqlite-not-synced",
        "a record in SQLite may be gone after a loss of power",
        "kit.files.stores.sqlite:SqliteRecords._opened",
        '"PRAGMA synchronous = FULL"',
        '"PRAGMA synchronous = NORMAL"',
        ByTest("files/test_sqlite.py::test_a_commit_is_on_the_disk_when_it_returns"),
    ),
    (
        "pairs-in-another-order",
        "rows of one key are joined in another order after a restore",
        "kit.stream.operators.windows.row_buffer:RowBuffer.__init__",
        'np.argsort(numbers, kind="stable")',
        "np.arange(len(numbers))",
        ByTest("stream/operators/test_row_buffer.py::test_rows_of_one_key_and_time_keep_their_order_after_a_restore"),
    ),
    (
        "late-files-stay",
        "what a slot writes late for a checkpoint that is gone stays when the epoch is over",
        "kit.hosts.spark.driver.driver:JobDriver.epoch_over",
        "self._dispose(locations)",
        "None",
        ByTest(
            "hosts/spark/test_aborted_files.py::test_what_a_slot_writes_for_a_checkpoint_that_is_gone_goes_with_its_epoch"
        ),
    ),
    (
        "clock-follows-the-wall",
        "a slot's clock goes back when the machine's wall clock is set back",
        "kit.hosts.spark.driver.background:HostClock.__call__",
        "self._start_s + time.monotonic()",
        "time.time()",
        ByTest("hosts/spark/test_slot.py::test_the_clock_does_not_go_back"),
    ),
    (
        "survivors-not-heard-out",
        "what workers still did after one of them was lost is not in the trace",
        "kit.hosts.spark.driver.slots:Slots._said_too_late",
        "item.deployment in self._deployments",
        "item.deployment not in self._deployments",
        ByTest("hosts/spark/test_recorded.py::test_a_worker_killed_in_the_middle_of_a_checkpoint_dies_so_in_the_lab"),
    ),
    (
        "acknowledged-before-staged",
        "a slot acknowledges before what its sinks staged is on the disk",
        "kit.files.task_files:TaskFiles._write_snapshot",
        "self._output.stage(effect)",
        '__import__("threading").Timer(2, self._output.stage, (effect,)).start()',
        ByTest("hosts/spark/test_spark_job.py::test_a_killed_worker_costs_no_row_and_repeats_none"),
    ),
    (
        "credit-given-twice",
        "a task gives the senders in other slots a credit more than it has room for",
        "kit.hosts.spark.slot.task_host:TaskHost._grant",
        "self._wires.grant(command.channel, command.credits, command.max_rows)",
        "self._wires.grant(command.channel, command.credits + 1, command.max_rows)",
        ByTest("hosts/spark/test_spark_job.py::test_a_job_publishes_each_row_once"),
    ),
)

AREAS: dict[str, tuple[Row, ...]] = {
    "regions": REGIONS,
    "coordinator": COORDINATOR,
    "task": TASK,
    "channel": CHANNEL,
    "restore": RESTORE,
    "state": STATE,
    "metadata": METADATA,
    "lab host": LAB,
    "Spark host": SPARK,
    "reading": READING,
    "several": SEVERAL,
    "state on disk": SPILLED,
    "surroundings": SURROUNDINGS,
}


def _all() -> Iterator[Mutant]:
    for area, rows in AREAS.items():
        for name, breaks, where, old, new, found_by in rows:
            yield Mutant(name=name, area=area, breaks=breaks, where=where, old=old, new=new, found_by=found_by)


MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in _all()}
"""All of them, by name."""
