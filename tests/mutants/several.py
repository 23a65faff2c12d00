"""Faults that show only where there are several of a thing: the first is taken for the last, any for all, or one unit
for another. A fixture with one checkpoint, task, key or handle passes with all of them.
"""

from __future__ import annotations

from tests.mutants.finders import ByTest, Finder

SEVERAL: tuple[tuple[str, str, str, str, str, Finder], ...] = (
    (
        "coldest-of-the-hot-keys",
        "of several hot keys, the one with the least load is named",
        "kit.advice.plan:ParallelismPlan.verdict",
        "key, share = hot[0]",
        "key, share = hot[-1]",
        ByTest("advice/test_plan.py::test_of_several_hot_keys_the_hottest_is_named"),
    ),
    (
        "bytes-a-millisecond",
        "the speed of writing is given for a millisecond",
        "kit.advice.advise:writing_is_slow",
        'rows["checkpointed_bytes"] / rows["async_ms"] * 1_000',
        'rows["checkpointed_bytes"] / rows["async_ms"]',
        ByTest("advice/test_advice.py::test_the_speed_of_writing_is_that_of_a_subtask_in_a_second"),
    ),
    (
        "any-handle-alike",
        "two restores are equal if any subtask has the same state",
        "kit.machines.restore.per_subtask:PerSubtask.__eq__",
        "all(mine == theirs for mine, theirs in zip(self, other, strict=True))",
        "any(mine == theirs for mine, theirs in zip(self, other, strict=True))",
        ByTest("machines/restore/test_state_assignment.py"),
    ),
    (
        "any-shared-handle-alike",
        "two sets of handles are equal if any handle is the same",
        "kit.machines.restore.shared_handles:SharedHandles.__eq__",
        "all(mine == theirs for mine, theirs in zip(self, other, strict=True))",
        "any(mine == theirs for mine, theirs in zip(self, other, strict=True))",
        ByTest("machines/restore/test_repartition.py::test_a_union_list_is_shared_not_copied"),
    ),
    (
        "gate-of-the-oldest-opened",
        "when the newest checkpoint is given up, the gate of the oldest opens",
        "kit.machines.job.subtask_gateway:GatedSubtask.open_latest",
        "max(self._marked)",
        "min(self._marked)",
        ByTest(
            "machines/job/test_operator_coordinator_holder.py"
            "::test_of_two_checkpoints_that_are_triggered_the_latest_opens_the_gate"
        ),
    ),
    (
        "first-driver-leads",
        "the driver with the smallest number is taken for the leader",
        "kit.files.stores.file_records:FileRecords.leader",
        "max(found, key=lambda each: int(each[1]))",
        "min(found, key=lambda each: int(each[1]))",
        ByTest("files/test_stores.py::test_of_several_drivers_the_one_with_the_largest_number_leads"),
    ),
    (
        "less-output-than-before",
        "a run accounts for less of its output after it went back",
        "kit.core.protocol.lineage:CoveredOutput.extended",
        "max([checkpoint_id, *(each.checkpoint_id for each in same)])",
        "min([checkpoint_id, *(each.checkpoint_id for each in same)])",
        ByTest("core/protocol/test_lineage.py::test_a_run_covers_no_less_than_before_wherever_it_stands"),
    ),
    (
        "old-time-of-no-timers",
        "an emptied queue of timers keeps the time of its earliest timer",
        "kit.stream.backend.timers:TimerQueue._remove",
        "self._earliest_known = False",
        "self._earliest_known = not len(self)",
        ByTest("stream/backend/test_timers.py::test_timers_that_come_after_all_were_gone_are_due_at_their_own_time"),
    ),
    (
        "numbers-given-again",
        "after removals a new split takes the place of one that waits",
        "kit.stream.operators.sources.split_enumerator:SplitEnumerator.restore",
        'state["next_index"]',
        'len(state["known"])',
        ByTest(
            "stream/operators/test_source.py::test_after_removals_a_restored_enumerator_gives_new_splits_new_places"
        ),
    ),
    (
        "read-beyond-the-end",
        "rows of a job that the end of a batch does not know are read with it, and again with the next",
        "kit.hosts.spark.frames.output_stream:CommittedStream.partitions",
        "start.get(part.writer, 0) < part.checkpoint_id <= end.get(part.writer, 0)",
        "start.get(part.writer, 0) < part.checkpoint_id <= end.get(part.writer, part.checkpoint_id)",
        ByTest("hosts/spark/test_output_stream.py::test_a_job_that_the_end_does_not_know_is_left_to_the_next_batch"),
    ),
    (
        "one-finished-is-enough",
        "a checkpoint goes on without tasks of which one has finished and another failed",
        "kit.machines.coordinator.triggering:CheckpointTrigger._plan_again",
        "all(context.execution_state(task) is ExecutionState.FINISHED for task in gone)",
        "any(context.execution_state(task) is ExecutionState.FINISHED for task in gone)",
        ByTest(
            "machines/coordinator/test_triggering.py::test_a_task_that_failed_beside_one_that_finished_ends_the_checkpoint"
        ),
    ),
    (
        "size-of-the-largest-operator",
        "a checkpoint is as large as its largest operator",
        "kit.machines.coordinator.completed.completed_checkpoint:CompletedCheckpoint.state_size",
        "sum(state.state_size for state in self.operator_states.values())",
        "max(state.state_size for state in self.operator_states.values())",
        ByTest("machines/coordinator/test_completing.py::test_the_size_of_a_checkpoint_is_that_of_all_its_operators"),
    ),
    (
        "failures-without-a-listener",
        "nobody who listens hears of failed checkpoints",
        "kit.machines.coordinator.ledger:CheckpointLedger._tell_of_failure",
        "self._listener.on_failed_checkpoint()",
        "pass",
        ByTest(
            "machines/coordinator/test_completing.py::test_a_listener_is_told_once_of_each_end_and_of_no_completed_savepoint"
        ),
    ),
    (
        "answer-forgotten-after-the-end",
        "who asked for a checkpoint that was stored after the end of the job gets no answer",
        "kit.machines.coordinator.ledger:CheckpointLedger.stored_after_shutdown",
        "self.answer_with_error(checkpoint.request, why)",
        "pass",
        ByTest(
            "machines/coordinator/test_completing.py"
            "::test_a_checkpoint_stored_after_the_end_of_the_job_shares_the_fate_of_the_others"
        ),
    ),
    (
        "newest-leftover-only",
        "of several aborted checkpoints of an epoch only the last one's directory is deleted",
        "kit.machines.job.leftovers:Leftovers.sweep",
        "begun.items()",
        "list(begun.items())[-1:]",
        ByTest("machines/job/test_leftovers.py::test_every_aborted_checkpoint_of_an_epoch_is_swept_once_and_no_other"),
    ),
    (
        "first-vertex-adopts",
        "only the first vertex takes over the maximum parallelism of its state",
        "kit.machines.job.task_restores:restore_job",
        "zip(job.vertices, assigned.vertices, strict=True)",
        "list(zip(job.vertices, assigned.vertices, strict=True))[:1]",
        ByTest(
            "machines/job/test_restored_states.py::test_each_vertex_adopts_the_maximum_parallelism_that_its_state_has"
        ),
    ),
    (
        "in-flight-data-of-the-first-task",
        "in-flight data counts only if the first task has some",
        "kit.machines.job.task_restores:hold_in_flight_data",
        "restore.state.subtask_states.values()",
        "list(restore.state.subtask_states.values()) if restore is next(iter(restores)) else ()",
        ByTest(
            "machines/job/test_restored_states.py::test_every_task_recovers_channels_if_one_subtask_has_in_flight_data"
        ),
    ),
    (
        "oldest-count-pending",
        "of several checkpoints whose barriers are counted the oldest is called pending",
        "kit.machines.task.barrier_tracker:CheckpointBarrierTracker.pending_checkpoint_id",
        "self._pending[-1].checkpoint_id",
        "self._pending[0].checkpoint_id",
        ByTest(
            "machines/task/test_barrier_tracker.py"
            "::test_of_several_that_are_counted_the_newest_is_pending_with_the_channels_it_awaits"
        ),
    ),
    (
        "last-failure-named",
        "of several operators that fail the last one is named",
        "kit.machines.task.chain:OperatorChain._tell_all",
        "raise failures[0]",
        "raise failures[-1]",
        ByTest(
            "machines/task/test_checkpoints.py::test_of_several_operators_that_fail_the_first_is_named_with_the_others_beside_it"
        ),
    ),
    (
        "rescaled-only-as-a-whole",
        "a vertex is rescaled only if all of its operators were",
        "kit.machines.restore.task_state_assignment:TaskStateAssignment.is_rescaled",
        "any(state.parallelism != self.vertex.parallelism for state in self.states.values())",
        "all(state.parallelism != self.vertex.parallelism for state in self.states.values())",
        ByTest("machines/restore/test_in_flight_data.py::test_a_vertex_is_rescaled_when_any_of_its_operators_was"),
    ),
    (
        "all-senders-rescaled",
        "event time of in-flight data is distrusted only if all senders upstream were rescaled",
        "kit.machines.restore.state_assignment:_find_states",
        "any(assignments[vertex].is_rescaled for vertex in _senders_of(edge, edges))",
        "all(assignments[vertex].is_rescaled for vertex in _senders_of(edge, edges))",
        ByTest(
            "machines/restore/test_in_flight_data.py"
            "::test_event_time_of_a_gate_does_not_hold_when_any_vertex_upstream_of_it_was_rescaled"
        ),
    ),
    (
        "all-exchanges-full",
        "data that goes from all to all is redistributed only if it does so on every input",
        "kit.machines.restore.exchange_end:ExchangeEnd._is_redistributed_at_same_parallelism",
        "any(edge.downstream_mapper is SubtaskStateMapper.FULL for edge in self.edges)",
        "all(edge.downstream_mapper is SubtaskStateMapper.FULL for edge in self.edges)",
        ByTest(
            "machines/restore/test_in_flight_data.py::test_one_full_exchange_and_one_rescaled_sender_redistribute_all_gates"
        ),
    ),
    (
        "idle-with-rows",
        "a source with rows that it has not read is idle",
        "kit.stream.operators.watermarks:TimestampsAndWatermarksOperator.on_processing_time",
        "not self._idle and activity.has_nothing and activity.ms >= self._last_row_ms + idle_ms",
        "not self._idle and activity.ms >= self._last_row_ms + idle_ms",
        ByTest("hosts/lab/test_idleness.py::test_a_source_that_gets_no_turn_is_not_idle"),
    ),
    (
        "woken-split-idle",
        "a split that has rows again is idle until it is read",
        "kit.stream.operators.sources.split_watermarks:SplitWatermarks.find_idle",
        "active_ms >= since_ms + idle_ms and each not in self._unread",
        "active_ms >= since_ms + idle_ms",
        ByTest(
            "stream/operators/test_split_watermarks.py::test_a_split_that_has_rows_again_is_not_idle_before_it_is_read"
        ),
    ),
    (
        "suspension-counts",
        "time in which the process was suspended counts towards idleness",
        "kit.machines.task.task_activity:TaskActivity.observe",
        "span_ms <= self._longest_ms",
        "True",
        ByTest("machines/task/test_task_activity.py::test_a_span_in_which_no_timer_looked_does_not_count"),
    ),
    (
        "backpressure-counts",
        "time in which the outputs were full counts towards idleness",
        "kit.machines.task.task_activity:TaskActivity.observe",
        "self._seen_at_ms is not None and self._outputs.writable",
        "self._seen_at_ms is not None",
        ByTest("machines/task/test_task_activity.py::test_only_time_in_which_the_task_could_emit_counts"),
    ),
    (
        "oldest-stop",
        "a task stops at the savepoint of the first stop, although that failed",
        "kit.why.tasks:_end_of_data",
        "reversed(evidence.of_kind(CheckpointPending))",
        "list(evidence.of_kind(CheckpointPending))",
        ByTest("why/test_several.py"),
    ),
    (
        "one-missing-barrier-of-several",
        "of several barriers that a blocked channel waits for only the first is explained",
        "kit.why.channels:blocked",
        "[inquiry.ask(Topic.BARRIER, channel.held, other) for other in awaited]",
        "[inquiry.ask(Topic.BARRIER, channel.held, other) for other in awaited[:1]]",
        ByTest("why/test_several.py"),
    ),
    (
        "epoch-for-an-epoch",
        "the start of the newest epoch is told for that of any",
        "kit.why.life:restart",
        "evidence.last(StartEpoch, epoch=epoch)",
        "evidence.last(StartEpoch)",
        ByTest("why/test_several.py"),
    ),
    (
        "queued-behind-nothing",
        "a request that waits for the id of another waits for deletions, if anything else is under way",
        "kit.why.requests:_in_the_way",
        "any(each.is_a(AllocateCheckpointId) for each in evidence.under_way(JOB))",
        "all(each.is_a(AllocateCheckpointId) for each in evidence.under_way(JOB))",
        ByTest("why/test_requests.py::test_one_that_waits_for_the_id_of_another_says_so_whatever_else_is_under_way"),
    ),
    (
        "back-to-a-savepoint",
        "the work at risk is that since a savepoint, to which no restart goes back",
        "kit.draw.views.at_risk:at_risk_view",
        "[each.checkpoint_id for each in ended if not each.savepoint]",
        "[each.checkpoint_id for each in ended]",
        ByTest("draw/test_several.py"),
    ),
    (
        "oldest-at-risk",
        "the work at risk is that since the oldest checkpoint",
        "kit.draw.views.at_risk:at_risk_view",
        "max(done, default=None)",
        "min(done, default=None)",
        ByTest("draw/test_several.py"),
    ),
    (
        "any-awaits",
        "a frame in which one barrier awaits others is minor, whatever else is in it",
        "kit.draw.stage.frames:is_minor",
        "all(awaits(record) for record in group if level_of(record) >= MAIN)",
        "any(awaits(record) for record in group if level_of(record) >= MAIN)",
        ByTest("draw/test_frames.py::test_a_frame_is_minor_only_if_all_that_matters_in_it_awaits_barriers"),
    ),
    (
        "share-of-a-millisecond",
        "the busiest subtask's share of a second is given in ms",
        "kit.draw.charts.live:Live.to_pandas",
        'of["busy_ms_per_s"].max() / 1000',
        'of["busy_ms_per_s"].max()',
        ByTest("draw/test_live.py"),
    ),
    (
        "bars-from-the-left",
        "bars of a timeline begin at its left edge",
        "kit.draw.charts.timeline:_row",
        "max((at_ms - start_ms) / (end_ms - start_ms), 0.0)",
        "min((at_ms - start_ms) / (end_ms - start_ms), 0.0)",
        ByTest("draw/test_timeline.py"),
    ),
    (
        "any-word-is-found",
        "a list of actions finds items with any of the words",
        "widgets.base.action_list:ActionList._show",
        "all(_has(_text(each), word) for word in words)",
        "any(_has(_text(each), word) for word in words)",
        ByTest("widgets/test_explorer.py::test_items_are_drawn_by_group_and_found_by_all_words"),
    ),
    (
        "narrowest-vertex",
        "the monitor offers the parallelism of the narrowest vertex",
        "widgets.pictures.monitor:Monitor.refresh",
        "max(vertex.parallelism for vertex in self.job.job.vertices)",
        "min(vertex.parallelism for vertex in self.job.job.vertices)",
        ByTest("widgets/test_monitor.py"),
    ),
    (
        "first-answer-only",
        "of several requests the monitor hears of the first alone",
        "widgets.pictures.monitor:Monitor._hear",
        "self._asked.append((what, answer))",
        "self._asked[:] = [(what, answer)]",
        ByTest("widgets/test_monitor.py"),
    ),
    (
        "first-source-slower",
        "of several sources the first is slower",
        "kit.course.comparing:slow_tasks",
        "{sources[-1]: slower_ms} if len(sources) > 1 else {}",
        "{sources[0]: slower_ms} if len(sources) > 1 else {}",
        ByTest(
            "course/test_comparing.py::test_of_several_sources_the_last_is_slower_and_of_several_tasks_the_last_is_slow"
        ),
    ),
    (
        "any-search-complete",
        "an exploration is complete if any of its searches is",
        "kit.verify.explore.exploration:Exploration.complete",
        "all(each.complete for each in self.searches)",
        "any(each.complete for each in self.searches)",
        ByTest("verify/explore/test_explore.py::test_an_exploration_is_complete_only_if_every_search_is"),
    ),
    (
        "slots-of-the-narrowest",
        "a lost slot is taken from those that the narrowest vertex needs",
        "kit.stream.graph.slot_sharing:TaskSlots.__len__",
        "max(self._parallelism.values())",
        "min(self._parallelism.values())",
        ByTest("hosts/lab/test_rescaling.py::test_with_vertices_of_different_width_the_widest_counts_the_slots"),
    ),
    (
        "oldest-barrier-of-several",
        "a task that has a barrier of a pending checkpoint never gets the next one",
        "widgets.runs.targets:_barrier",
        "max((number for number, phase in phases.items() if phase in HAS_BARRIER), default=0)",
        "min((number for number, phase in phases.items() if phase in HAS_BARRIER), default=0)",
        ByTest("widgets/test_several.py::test_a_task_that_has_one_barrier_gets_the_next"),
    ),
    (
        "tasks-of-the-first-epoch",
        "the explorer runs until a task of the first epoch has its barrier",
        "widgets.runs.targets:targets",
        "lab.look.stages[-1]",
        "lab.look.stages[0]",
        ByTest(
            "widgets/test_explorer.py::test_the_conditions_are_those_of_the_newest_epoch_and_of_the_next_checkpoint"
        ),
    ),
    (
        "any-worker-thawed",
        "a worker is frozen if the newest of all workers' freezes and thaws is a freeze",
        "kit.why.evidence:Evidence.frozen",
        "self.of_kind(kind, worker=worker)",
        "self.of_kind(kind)",
        ByTest(
            "why/test_why_not.py::test_of_several_workers_that_froze_and_thawed_those_that_are_frozen_now_stand_still"
        ),
    ),
    (
        "lost-with-any-worker",
        "a lost task is said to be gone with the worker that was lost last",
        "kit.why.tasks:state",
        "runs_there(task, each)",
        "True",
        ByTest("why/test_several.py"),
    ),
    (
        "one-source-read-again",
        "of several sources only the first is read again after a death",
        "widgets.runs.details:_read_again",
        "for (task, split), position in now.items(): ...",
        "for (task, split), position in list(now.items())[:1]: ...",
        ByTest("widgets/test_several.py::test_a_death_undoes_all_pending_checkpoints_and_the_reads_of_all_sources"),
    ),
    (
        "largest-buffer-in-flight",
        "rows in flight are counted by their largest buffer",
        "kit.restore_check.check:_unknown_exchanges",
        "sum(handle.state_size for handle in held)",
        "max(handle.state_size for handle in held)",
        ByTest(
            "restore_check/test_mixed_findings.py::test_rows_in_flight_are_told_of_when_a_job_grows_and_when_it_shrinks"
        ),
    ),
    (
        "notes-beside-failures",
        "an operator whose restore fails has its notes too",
        "kit.restore_check.findings:in_order",
        "[each for each in found if each.severity is not Severity.TELLS or each.operator not in failing]",
        "list(found)",
        ByTest("restore_check/test_mixed_findings.py::test_each_operator_that_fails_is_listed_without_its_notes"),
    ),
    (
        "costs-if-all-do",
        "a restore costs something only if each finding does",
        "kit.restore_check.restore_check:RestoreCheck.costs",
        "any(finding.effect in (Effect.LOST, Effect.REPEATED) for finding in self.findings)",
        "all(finding.effect in (Effect.LOST, Effect.REPEATED) for finding in self.findings)",
        ByTest("restore_check/test_mixed_findings.py::test_each_operator_that_is_dropped_has_its_own_effect"),
    ),
    (
        "in-flight-data-of-nobody",
        "rows in flight of an operator that the job does not have count for nothing",
        "kit.restore_check.check:_assignable",
        "states.keys() & _owners(shape).keys()",
        "states.keys()",
        ByTest(
            "restore_check/test_mixed_findings.py::test_rows_in_flight_count_as_state_of_an_operator_that_the_job_does_not_have"
        ),
    ),
    (
        "states-behind-a-file-without",
        "a state is read up to the first subtask that does not have it",
        "kit.snapshots.checkpoints.checkpoint:Checkpoint.stream",
        "continue",
        "break",
        ByTest("snapshots/test_several.py::test_subtasks_without_a_state_hide_none_that_have_it"),
    ),
    (
        "topics-behind-the-unknown",
        "topics are listed up to the first whose log is not known",
        "kit.snapshots.checkpoints.outside:of_source",
        "continue",
        "break",
        ByTest("snapshots/test_outside.py::test_each_position_of_each_topic_is_looked_up"),
    ),
    (
        "growth-from-nothing",
        "growth is counted from nothing for each checkpoint",
        "kit.snapshots.checkpoints.directory:Checkpoints.growth",
        "before = each.size",
        "before = 0",
        ByTest("snapshots/test_several.py::test_growth_counts_what_each_checkpoint_adds_to_all_before_it"),
    ),
    (
        "file-that-comes-back",
        "a file counts as new unless the checkpoint before has it",
        "kit.snapshots.checkpoints.directory:Checkpoints.growth",
        "seen |= files.keys()",
        "seen = set(files.keys())",
        ByTest("snapshots/test_several.py::test_growth_counts_what_each_checkpoint_adds_to_all_before_it"),
    ),
    (
        "states-of-the-last-subtask",
        "of the states of several subtasks only those of the last are listed",
        "kit.snapshots.checkpoints.state_parts:StateParts.known_infos",
        "sorted(operator.subtask_states)",
        "sorted(operator.subtask_states)[-1:]",
        ByTest("snapshots/test_several.py::test_states_of_any_subtask_are_listed"),
    ),
    (
        "last-offsets-only",
        "offsets that are set replace those that were set before",
        "kit.snapshots.surgery.offsets:at_offsets",
        "entries if before is None else before(state, entries)",
        "entries",
        ByTest("snapshots/test_several.py::test_offsets_that_are_set_one_after_the_other_all_hold"),
    ),
    (
        "last-of-the-damaged",
        "of several damaged checkpoints the last is named",
        "kit.cli.planning:orphans",
        "unread[0].directory",
        "unread[-1].directory",
        ByTest("cli/test_commands.py::test_orphans_lists_no_file_of_a_damaged_checkpoint"),
    ),
    (
        "ages-in-seconds",
        "ages in minutes count as seconds",
        "kit.cli.planning:_age_ms",
        "int(found[1]) * _UNIT_MS[found[2]]",
        "int(found[1]) * 1_000",
        ByTest("cli/test_commands.py::test_orphans_are_listed_from_an_age_in_seconds_minutes_hours_and_days_on"),
    ),
    (
        "last-share-a-percentage",
        "of the shares of an interval only the last is a percentage",
        "kit.cli.judging:advise",
        '{name: [f"{share:.2%}" for share in intervals[name]] for name in SHARES}',
        '{name: [f"{share:.2%}" for share in intervals[name]] for name in SHARES[-1:]}',
        ByTest("cli/test_judging.py::test_advise_says_what_helps_and_that_there_is_something_to_do"),
    ),
    (
        "settings-of-the-newest-flink",
        "answers without a setting are not read",
        "kit.advice.flink_rest:_figures",
        "{name: config[flink] for flink, name in SETTINGS.items() if flink in config}",
        "{name: config[flink] for flink, name in SETTINGS.items()}",
        ByTest("advice/test_advice.py::test_settings_that_an_older_flink_does_not_tell_are_not_known"),
    ),
    (
        "observed-at-each-part",
        "widgets are updated after each part of an action instead of once",
        "widgets.runs.session:Session.attempt",
        "if is_outermost:\n    self._catch(self._notify)",
        "self._catch(self._notify)",
        ByTest("widgets/test_session.py::test_the_observers_are_called_once_for_an_action"),
    ),
    (
        "parts-stay-open",
        "a widget is closed without the widgets inside it",
        "widgets.base.closing:close_with_parts",
        "close_parts(widget)",
        "pass",
        ByTest("widgets/test_explorer_is_released.py::test_a_closed_explorer_is_collected_with_its_labs"),
    ),
    (
        "made-for-other-subtasks",
        "an operator coordinator stays the one that was made for another parallelism, and keeps splits for nobody",
        "kit.machines.job.operator_coordinators:OperatorCoordinatorHolder.deploy",
        "if again or has_other_subtasks:\n    self._quiesce()\n    self._create()",
        "if again:\n    self._quiesce()\n    self._create()",
        ByTest("hosts/lab/test_rescaling.py::test_a_reactive_job_that_begins_with_fewer_slots_reads_every_split"),
    ),
    (
        "last-orphan-only",
        "of several directories that no checkpoint needs only the last is removed",
        "kit.files.job_files:JobFiles._remove_orphaned_directories",
        "self._storage.checkpoint_locations().items()",
        "[*self._storage.checkpoint_locations().items()][-1:]",
        ByTest("files/test_job_files.py::test_of_several_orphans_of_each_kind_only_those_of_this_run_go"),
    ),
    (
        "made-once-and-for-all",
        "the directory of a checkpoint that failed is not made again",
        "kit.files.storage:CheckpointStorage.dispose_on_failure",
        "self._made.discard(location.directory)",
        "pass",
        ByTest("files/test_storage.py::test_a_directory_that_was_discarded_is_made_again"),
    ),
    (
        "files-behind-a-gap-stay",
        "files that come after one that is gone already are not deleted",
        "kit.files.storage:StateFiles.discard",
        "continue",
        "break",
        ByTest("files/test_storage.py::test_files_that_are_gone_keep_no_other_file_from_being_discarded"),
    ),
    (
        "least-of-a-vertex",
        "the largest figure of a vertex is given for its smallest",
        "kit.run.statistics:CheckpointStatistics.spread",
        "by_vertex.min()",
        "by_vertex.max()",
        ByTest("run/test_several.py"),
    ),
    (
        "shallowest-search",
        "an exploration is as deep as its shallowest search",
        "kit.verify.explore.exploration:Exploration.depth",
        "max((each.depth for each in self.searches), default=0)",
        "min((each.depth for each in self.searches), default=0)",
        ByTest("verify/explore/test_explore.py::test_the_figures_of_several_searches"),
    ),
    (
        "queue-of-the-other-end",
        "in the table of a queue, sender and receiver change places",
        "kit.hosts.lab.live_state:_elements",
        "ends.target_task",
        "ends.source_task",
        ByTest("hosts/lab/test_several.py"),
    ),
    (
        "broadcast-of-the-last-batch",
        "entries that are put into a broadcast state together replace those before",
        "kit.stream.backend.operator_store:BroadcastState.put_all",
        "self._entries |= {self._converted(self.key_type, key, key_converter): "
        "self._converted(self.value_type, value) for key, value in entries.items()}",
        "self._entries = {self._converted(self.key_type, key, key_converter): "
        "self._converted(self.value_type, value) for key, value in entries.items()}",
        ByTest("stream/backend/test_operator_store.py::test_what_is_added_after_other_entries_stays_beside_them"),
    ),
    (
        "failures-forgotten-with-each-change",
        "checkpoints that failed before another change of slots do not count",
        "kit.machines.job.rescaling:Rescaling._changed",
        "self._failures_left is None",
        "True",
        ByTest("machines/job/test_rescaling.py::test_checkpoints_that_failed_before_another_change_of_slots_count_too"),
    ),
    (
        "one-idle-channel-is-all",
        "a channel that ends beside an idle one leaves event time to the idle ones",
        "kit.machines.task.watermark_valve:WatermarkValve._end",
        "all(each.idle for each in self._going_on)",
        "any(each.idle for each in self._going_on)",
        ByTest(
            "machines/task/test_watermark_valve.py::test_a_channel_that_ends_leaves_event_time_to_the_active_ones_beside_idle_ones"
        ),
    ),
    (
        "written-for-an-earlier-attempt",
        "a task that restarted hears of files that its earlier attempt shared",
        "kit.machines.channel.channel_state.shared_files:SharedFiles.forget",
        "(self.checkpoint, *self.being_written.values())",
        "(self.checkpoint,)",
        ByTest(
            "machines/channel/test_channel_state_sharing.py::test_a_restarted_task_gets_no_answer_about_files_that_were_being_written"
        ),
    ),
    (
        "record-outlasts-its-file",
        "staged files are deleted before the records of their publication",
        "kit.files.output_files:remove_staged",
        "sorted(names, key=lambda name: not is_record(name))",
        "sorted(names)",
        ByTest("stream/connectors/test_files.py::test_of_several_staged_files_no_record_outlasts_its_file"),
    ),
    (
        "discarded-in-a-copy-too",
        "a copy of the output shares what it has discarded",
        "kit.files.memory_output:MemoryOutput.copy",
        "dict(self._discarded)",
        "self._discarded",
        ByTest("files/test_output_of_several.py::test_a_copy_and_its_original_discard_each_for_itself"),
    ),
    (
        "dropped-once-and-for-all",
        "a state that was dropped does not come back with given rows",
        "kit.snapshots.surgery.edit:Edit.bootstrap",
        "draft.dropped - {state}",
        "draft.dropped",
        ByTest(
            "snapshots/surgery/test_edit.py::test_a_state_that_was_dropped_comes_back_with_the_rows_that_are_given_later"
        ),
    ),
    (
        "only-the-last-relocation",
        "a second relocation replaces the first",
        "kit.snapshots.surgery.edit:Edit.relocate",
        "{**self._moved, **prefixes}",
        "{**prefixes}",
        ByTest("snapshots/surgery/test_writing.py::test_paths_are_rewritten_step_by_step_and_the_last_step_counts"),
    ),
    (
        "late-by-the-last-batch",
        "rows are late by the most of the last batch",
        "kit.stream.operators.windows.late_rows:LateCount.add",
        "max(self.behind_ms, watermark_ms + 1 - int(times_ms.min()))",
        "watermark_ms + 1 - int(times_ms.min())",
        ByTest("hosts/lab/test_late_rows.py::test_rows_are_late_by_the_most_of_all_batches_so_far"),
    ),
    (
        "interruption-begins-again",
        "a failure before all tasks run begins the interruption again",
        "kit.run.over_time:OverTime._recoveries",
        "is_running and moment.job in INTERRUPTED",
        "moment.job in INTERRUPTED",
        ByTest("run/test_over_time.py::test_failures_before_all_tasks_run_prolong_the_interruption_and_begin_none"),
    ),
    (
        "first-of-the-queue-leaves",
        "a request that overtakes the queue takes the first one out of it",
        "kit.run.checkpoint_log:CheckpointLog._left",
        "next((each for each in self.queue if each.label == label), None)",
        "self.queue[0] if self.queue else None",
        ByTest(
            "draw/test_checkpoint_life.py::test_a_savepoint_that_overtakes_the_queue_leaves_the_other_requests_in_it"
        ),
    ),
    (
        "queues-outlive-a-region",
        "buffers that waited when a region failed count as taken later",
        "kit.draw.views.at_risk:_begin_again",
        "waiting.pop(number, None)",
        "None",
        ByTest("draw/test_at_risk.py::test_after_a_region_restarted_what_its_tasks_took_is_counted_from_there"),
    ),
    (
        "shape-of-the-first-stage",
        "frames between others are drawn in the shape of the first stage",
        "kit.draw.stage.film:FilmBuilder._insert",
        "shape, pen = before['stage'], Pen(self._looks)",
        "shape, pen = frames[0]['stage'], Pen(self._looks)",
        ByTest("draw/test_film.py::test_steps_before_a_rescale_are_shown_in_the_shape_that_they_had"),
    ),
    (
        "first-failure-ends-the-swarm",
        "a swarm ends with its first failure, however many it may have",
        "kit.verify.swarm.swarm:swarm",
        "len(result.failures) == most_failures",
        "result.failures",
        ByTest("verify/test_swarm.py::test_a_swarm_ends_with_the_last_failure_that_it_may_have_and_adds_up_all_trials"),
    ),
    (
        "only-the-last-life-counts",
        "only what happened in the last life of a trial is counted",
        "kit.verify.swarm.trials:Trial.run",
        "sum(record.kind == kind for lab in run.labs for record in lab.trace)",
        "sum(record.kind == kind for record in run.lab.trace)",
        ByTest("verify/test_swarm.py::test_lives_at_other_parallelisms_are_counted_and_named_one_by_one"),
    ),
    (
        "shrunk-to-another-violation",
        "a trial is shrunk to one that violates another property",
        "kit.verify.swarm.shrinking:Shrinking._holds",
        "run.violation is None or run.violation.kind != self.kind",
        "run.violation is None",
        ByTest(
            "verify/test_swarm.py::test_shrinking_keeps_what_the_violation_takes_and_makes_the_rest_of_each_intervention_smaller"
        ),
    ),
    (
        "oldest-gate-takes-the-events",
        "events of a checkpoint that is over wait for the oldest one before it",
        "kit.machines.job.subtask_gateway:GatedSubtask.open",
        "max((other for other in self._held if other < checkpoint_id), default=None)",
        "min((other for other in self._held if other < checkpoint_id), default=None)",
        ByTest(
            "machines/job/test_operator_coordinator_holder.py::test_events_wait_for_the_newest_of_the_checkpoints_before_theirs_that_still_closes_the_gate"
        ),
    ),
    (
        "slots-of-the-last-outage",
        "the number of slots at the end of an outage is remembered in the next",
        "kit.hosts.spark.driver.slot_watch:SlotWatch.deployed",
        "self._reported = None",
        "pass",
        ByTest(
            "hosts/spark/test_slot_watch.py::test_a_job_hears_of_its_slots_from_the_first_lack_of_them_until_it_is_deployed"
        ),
    ),
    (
        "last-input-decides-on-draining",
        "a task drains if the input that ended last does",
        "kit.machines.task.task_input:TaskInput._on_end_of_data",
        "self._drain and element.drain",
        "element.drain",
        ByTest("machines/task/test_end.py::test_one_input_that_was_stopped_keeps_the_task_from_draining"),
    ),
    (
        "earlier-timer-not-set",
        "a timer that is due before the one that is set waits for that",
        "kit.machines.task.processing_timer:ProcessingTimer.arm",
        "due_ms < self._due_ms",
        "due_ms > self._due_ms",
        ByTest("machines/task/test_processing_timer.py"),
    ),
    (
        "first-channel-has-every-turn",
        "the first channel with priority has its turn before all others",
        "kit.machines.channel.input_gate:InputGates.next_channel",
        "min(prioritized, key=lambda position: (position - self._turn) % channels)",
        "min(prioritized)",
        ByTest("machines/channel/test_queues.py::test_elements_with_priority_are_taken_from_each_channel_in_turn"),
    ),
    (
        "splits-of-one-checkpoint-forgotten",
        "a completed checkpoint leaves the splits of those that were never completed",
        "kit.stream.operators.sources.split_assignment_tracker:SplitAssignmentTracker.on_checkpoint_complete",
        "each > checkpoint_id",
        "each != checkpoint_id",
        ByTest(
            "stream/operators/test_splits_of_a_restarted_reader.py::test_of_several_checkpoints_the_later_ones_give_back_their_splits_in_the_order_of_their_assignment"
        ),
    ),
    (
        "newest-job-not-watched",
        "of several running jobs the oldest is watched",
        "widgets.pictures.monitor:Monitor.refresh",
        "jobs[-1]",
        "jobs[0]",
        ByTest(
            "widgets/test_monitor.py::test_with_no_job_given_the_newest_that_runs_is_watched_for_as_long_as_it_does"
        ),
    ),
    (
        "last-abort-counts",
        "a mission waits for a checkpoint after the last abort",
        "kit.course.missions.checks:later_completed",
        "min((each.checkpoint_id for each in known if each.status == ABORTED), default=None)",
        "max((each.checkpoint_id for each in known if each.status == ABORTED), default=None)",
        ByTest("course/test_mission_checks.py::test_the_first_checkpoint_that_completed_after_the_first_abort_counts"),
    ),
    (
        "lists-in-the-order-of-their-names",
        "the bytes of list states that take turns in a file are counted for one another",
        "kit.snapshots.checkpoints.storage:_list_states",
        "sorted(((offset, name) for name, info in handle.state_name_to_partition_offsets.items() "
        "for offset in info.offsets))",
        "[(offset, name) for name, info in handle.state_name_to_partition_offsets.items() for offset in info.offsets]",
        ByTest(
            "snapshots/test_storage.py::test_lists_that_take_turns_in_a_file_have_each_their_own_bytes_and_large_files_several_requests"
        ),
    ),
    (
        "key-groups-in-order",
        "key groups have each other's bytes if a file does not have them in order",
        "kit.restore_check.key_group_bytes:_add",
        "here[np.argsort(offsets[here], kind='stable')]",
        "here",
        ByTest("restore_check/test_check_restore.py::test_skewed_key_groups_are_told_and_the_balance_adds_up"),
    ),
    (
        "first-restore-shown",
        "of several restores the first is shown",
        "kit.draw.views.rescaling:rescaling",
        "found[-1]",
        "found[0]",
        ByTest("draw/test_rescaling.py::test_of_several_restores_the_last_is_shown_unless_another_epoch_is_named"),
    ),
    (
        "bar-ends-with-the-last-task",
        "the bar of several acknowledgements ends with that of the last task",
        "kit.draw.views.checkpoint_life:LifeOfCheckpoint._together",
        "max(done)",
        "done[-1]",
        ByTest(
            "draw/test_checkpoint_life.py::test_the_bar_of_several_acknowledgements_ends_with_the_last_whichever_task_sent_it"
        ),
    ),
    (
        "second-answer-kept",
        "a run that goes back between two answers to a command keeps the second",
        "kit.run.reading:Reading._first",
        "of[record.cause][:-1]",
        "of[record.cause][1:]",
        ByTest("run/test_reading.py::test_of_two_answers_to_a_command_a_run_that_goes_back_keeps_the_first"),
    ),
    (
        "requests-that-were-undone",
        "a request that was undone hides the answer of one that is made again",
        "widgets.runs.explored_run:ExploredRun.note_request",
        "{each: asked for each, asked in self.asked.items() if each < number}",
        "self.asked",
        ByTest(
            "widgets/test_session.py::test_the_answer_is_that_of_the_last_of_several_requests_also_after_the_run_went_back"
        ),
    ),
)
