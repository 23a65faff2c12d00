"""Mutants that disable, one at a time, the handling of a fault of a job's environment on Spark.

Each row of `tests.house.spark_faults` names its mutants, and `docs/FAULTS.md` lists them with the tests that fail.
"""

from __future__ import annotations

from tests.mutants.finders import ByTest, Finder

PATIENCE_S = 90
"""The most seconds of a test; a fault without handling often blocks it forever."""
DRIVERS_END = "test_faults.py::test_a_lost_link_costs_no_row_and_repeats_none"
USERS = "test_faults_on_spark.py::test_a_function_of_the_users_that"
FULL = "test_faults_on_spark.py::test_a_full_disk_costs_checkpoints_and_nothing_else"
SLOW = "test_faults.py::test_a_disk_that_is_slow_costs_checkpoints_and_nothing_else"
TWO_DRIVERS = "test_two_drivers.py::test_on_the_file_system"
STRANGER = "test_strangers.py::test_a_stranger_is_cut_off_and_one_line_says_whence_and_why"

_TAKEN_OUT = (
    (
        "lost-connection-not-told",
        "a broken connection counts as a lost slot",
        "kit.hosts.spark.driver.slots:Slots.left",
        "not deployment.is_stopping",
        "False",
        "test_spark_job.py::test_a_killed_worker_costs_no_row_and_repeats_none",
    ),
    (
        "silence-not-noticed",
        "the driver considers silent peers dead",
        "kit.hosts.spark.wire.switchboard:Line.check_peer",
        "awake_s - self._heard_s >= self._timeout_s",
        "awake_s - self._heard_s >= 1e9",
        "test_control.py::test_a_silent_slot_is_lost",
    ),
    (
        "own-stall-counted",
        "a process that was suspended itself does not consider its peers silent",
        "kit.hosts.spark.driver.waking:WakingClock.read",
        "max(0.0, now_s - self._looked_s - self._most_s)",
        "0.0",
        "test_faults.py::test_a_machine_that_stands_still_loses_nobody",
    ),
    (
        "frozen-worker-not-killed",
        "a frozen worker is killed",
        "kit.hosts.spark.driver.slots:Slots.left",
        "not item.clean",
        "False",
        "test_spark_job.py::test_a_frozen_worker_is_noticed_and_replaced",
    ),
    (
        "silent-executor-counted",
        "an executor that does not answer is replaced",
        "kit.hosts.spark.driver.executors:replace_silent",
        "_replace(spark, executor)",
        "pass",
        "test_gang.py::test_an_executor_whose_task_does_not_end_is_replaced",
    ),
    (
        "end-of-gang-not-told",
        "a stage that ends too early counts as a lost slot",
        "kit.hosts.spark.driver.slots:Slots.gang_ended",
        "deployment.is_stopping",
        "True",
        "test_driver.py::test_a_stage_that_ends_before_its_slots_have_come_is_run_again",
    ),
    (
        "start-not-limited",
        "slots that do not register in time are lost",
        "kit.hosts.spark.driver.slots:Slots._deploy",
        "int(driver.settings.start_timeout_s * 1000)",
        "10**9",
        "test_driver.py::test_slots_that_do_not_come_are_counted",
    ),
    (
        "slots-not-waited-for",
        "a job that has lost slots waits for them",
        "kit.machines.job.rescaling:Rescaling.has_slots",
        "available is None",
        "False",
        "test_rescaling.py::test_a_job_that_is_not_reactive_waits_until_all_its_slots_are_there",
    ),
    (
        "lost-peer-not-told",
        "a slot reports to the driver the slots that it cannot reach",
        "kit.hosts.spark.slot.slot:Slot._hear",
        'self._driver.send(ControlMessage(PEER_LOST, {"slot": item.slot, "reason": item.reason}))',
        'print if self._driver else (ControlMessage(PEER_LOST, {"slot": item.slot, "reason": item.reason}))',
        f"{DRIVERS_END}[between two slots]",
    ),
    (
        "lost-peer-not-heard",
        "the driver considers a slot lost if another slot cannot reach it",
        "kit.hosts.spark.driver.slots:Slots._peer_lost",
        "self._lose(deployment, lost, said)",
        "print(said)",
        f"{DRIVERS_END}[between two slots]",
    ),
    (
        "slot-stays-without-driver",
        "a slot that can no longer reach the driver ends",
        "kit.hosts.spark.slot.slot:Slot._hear",
        "not self._over, True",
        "not self._over, False",
        f"{DRIVERS_END}[to the driver]",
    ),
    (
        "failed-write-not-answered",
        "a failed write declines its checkpoint",
        "kit.files.answers:carry_out",
        "answer = command.failed(error)",
        "raise",
        FULL,
    ),
    (
        "half-a-snapshot-stays",
        "the files of a snapshot are deleted if the rest cannot be written",
        "kit.files.task_files:TaskFiles._write_snapshot",
        "self._output.drop(command.effects)",
        "pass",
        "test_slot.py::test_what_of_a_snapshot_was_written_goes_when_the_rest_cannot_be",
    ),
    (
        "checkpoint-never-expires",
        "a checkpoint that takes too long expires",
        "kit.machines.coordinator.coordinator:CheckpointCoordinator._on_timer",
        "event.timer == timeout_timer(checkpoint.checkpoint_id)",
        "False",
        SLOW,
    ),
    (
        "no-failure-is-tolerated",
        "a number of checkpoints may fail in a row",
        "kit.machines.coordinator.failure_manager:CheckpointFailureManager._count",
        "self.counter > self.tolerable",
        "self.counter > 0",
        SLOW,
    ),
    (
        "store-not-read",
        "the next driver starts from the store",
        "kit.files.job_files:JobFiles._recover",
        "self._store.checkpoints() if command.recover else []",
        "[]",
        f"{TWO_DRIVERS}[in the middle of a checkpoint]",
    ),
    (
        "dead-drivers-files-stay",
        "the next driver removes files that no checkpoint needs",
        "kit.files.job_files:JobFiles._remove_orphans",
        "set(self._store.ids()).difference(command.keep)",
        "set()",
        f"{TWO_DRIVERS}[in the middle of a checkpoint]",
    ),
    (
        "slot-stays-for-good",
        "a slot that does not stop in time ends its process",
        "kit.hosts.spark.slot.slot:LastWord._start",
        "self._timer.start()",
        "pass",
        "test_slot.py::test_a_slot_that_does_not_leave_is_ended",
    ),
    (
        "straggler-not-killed",
        "the driver kills a worker that does not stop",
        "kit.hosts.spark.driver.deployment:Deployment.kill_stragglers",
        "self.kill(slot)",
        "pass",
        "test_driver.py::test_a_worker_of_this_machine_that_does_not_leave_is_killed",
    ),
    (
        "error-of-a-function-gets-out",
        "an error in a function fails its task",
        "kit.machines.task.stream_task:StreamTask.handle",
        "self._fail(error)",
        "raise",
        f"{USERS}[leaks memory]",
    ),
    (
        "exit-not-told",
        "a slot reports a function that asks the process to exit",
        "kit.hosts.spark.slot.slot:Slot.run",
        "(Exception, SystemExit)",
        "Exception",
        f"{USERS}[asks the process to end]",
    ),
    (
        "any-proof-will-do",
        "a connection that does not prove the secret is closed",
        "kit.hosts.spark.wire.auth:admit",
        'not hmac.compare_digest(proof, _tag(secret, b"dials", hello, challenge))',
        "False",
        "test_strangers.py::test_a_handshake_that_was_overheard_opens_nothing",
    ),
    (
        "same-nonce-each-time",
        "each handshake has a nonce of its own",
        "kit.hosts.spark.wire.auth:admit",
        "secrets.token_bytes",
        "bytes",
        "test_strangers.py::test_a_handshake_that_was_overheard_opens_nothing",
    ),
    (
        "stranger-not-written-down",
        "a closed connection is logged",
        "kit.hosts.spark.wire.strangers:CutOffs.say",
        "logger.log",
        "str.format",
        STRANGER,
    ),
    (
        "handshake-without-end",
        "a handshake has a time limit, however many bytes arrive",
        "kit.hosts.spark.wire.endpoint:Listener._shake_hands",
        "self._settings.handshake_timeout_ms / 1000",
        "1e6",
        STRANGER,
    ),
    (
        "nobody-gives-way",
        "a new connection replaces the oldest handshake of the host with the most",
        "kit.hosts.spark.wire.endpoint:Listener._make_place",
        "oldest.end()",
        "pass",
        "test_strangers.py::test_many_connections_held_open_shut_nobody_out",
    ),
    (
        "any-length-of-frame",
        "a frame has a maximum length",
        "kit.hosts.spark.wire.wire:parse_header",
        "length > max_frame_bytes",
        "False",
        "test_channels.py::test_a_frame_longer_than_allowed_drops_the_peer",
    ),
    (
        "frame-without-end",
        "a frame has a time limit",
        "kit.hosts.spark.wire.connection:lateness",
        "taken_s <= limit_s",
        "True",
        "test_strangers.py::test_a_frame_that_comes_a_byte_at_a_time_is_cut_off",
    ),
    (
        "last-put-wins",
        "an object is written only if it does not exist",
        "kit.filesystems.object_stores:ObjectStore.put_if",
        '"create" if version is None else version',
        '"overwrite"',
        "test_object_store.py::test_of_two_that_write_the_same_metadata_one_is_told",
    ),
    (
        "leader-not-replaced",
        "a driver that takes over moves the records under its own token",
        "kit.files.stores.file_records:FileRecords.lead",
        "self._storage.move(self._directory(found), self._directory(leader))",
        "leader = found",
        "test_two_leaders.py::test_a_driver_that_is_frozen_and_replaced_does_nothing_that_counts",
    ),
    (
        "lost-leadership-not-noticed",
        "a driver that has lost the leadership stops",
        "kit.machines.job.job_master:JobMaster._leadership_lost",
        "not self.status.is_terminal and self.phase is not Phase.SUSPENDING",
        "False",
        "test_two_leaders.py::test_a_driver_beside_one_that_runs_takes_the_job_over",
    ),
    (
        "copy-not-compared",
        "a published file is compared with the staged one",
        "kit.files.output_files:_commit",
        "_check_same(system, effect, staged, final)",
        "pass",
        "test_object_store.py::test_output_that_somebody_else_has_published_is_left_alone",
    ),
)
Row = tuple[str, str, str, str, str, Finder]
SURROUNDINGS: tuple[Row, ...] = tuple(
    (name, handling, where, old, new, ByTest(f"hosts/spark/{test}", PATIENCE_S))
    for name, handling, where, old, new, test in _TAKEN_OUT
)
