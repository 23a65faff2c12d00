"""The faults of a job's environment on Spark, their effects and their tests: a table for `docs/FAULTS.md`."""

from __future__ import annotations

from typing import NamedTuple


class SparkFault(NamedTuple):
    """A kind of fault: its effect, its tests, as `file::function` below `tests/hosts/spark`, and the mutants of
    `tests.mutants.surroundings` that disable its handling.
    """

    what: str
    comes: str
    tests: tuple[str, ...]
    mutants: tuple[str, ...] = ()


RESTARTS = "the next epoch resumes from the last checkpoint"
CLUSTER = "test_cluster.py::test_a_job_outlives"
ALL_IN_TURN = "test_cluster.py::test_a_job_outlives_everything_in_turn"
USERS = "test_faults_on_spark.py::test_a_function_of_the_users_that"
FAULTS = (
    SparkFault(
        "a worker is killed",
        f"its connection breaks, {RESTARTS}",
        (
            "test_spark_job.py::test_a_killed_worker_costs_no_row_and_repeats_none",
            "test_spark_job.py::test_workers_killed_at_any_moment",
        ),
        ("lost-connection-not-told",),
    ),
    SparkFault(
        "a worker is frozen",
        f"it is considered dead after the heartbeat timeout, and killed; {RESTARTS}",
        ("test_spark_job.py::test_a_frozen_worker_is_noticed_and_replaced",),
        ("silence-not-noticed", "frozen-worker-not-killed"),
    ),
    SparkFault(
        "the whole machine, or the driver's process, is suspended",
        "none: a process that did not listen itself does not consider its peers dead",
        ("test_faults.py::test_a_machine_that_stands_still_loses_nobody",),
        ("own-stall-counted",),
    ),
    SparkFault(
        "an executor is killed",
        RESTARTS,
        (CLUSTER,),
        ("lost-connection-not-told",),
    ),
    SparkFault(
        "all executors are killed",
        "the job waits for all its slots, at most `slot_wait_ms`; then as for one executor",
        (CLUSTER, "test_rescaling.py::test_a_job_that_is_not_reactive_waits_until_all_its_slots_are_there"),
        ("slots-not-waited-for",),
    ),
    SparkFault(
        "an executor is frozen",
        f"as for a frozen worker; Spark is asked to replace it and no longer counts its slots; {RESTARTS}",
        (CLUSTER, "test_gang.py::test_an_executor_whose_task_does_not_end_is_replaced"),
        ("silence-not-noticed", "silent-executor-counted", "start-not-limited"),
    ),
    SparkFault("Spark's master is restarted", "none: neither the executors nor the next epoch need it", (CLUSTER,)),
    SparkFault(
        "Spark's worker daemon and its executor are killed",
        RESTARTS,
        (ALL_IN_TURN,),
        ("lost-connection-not-told",),
    ),
    SparkFault(
        "a stage is cancelled",
        RESTARTS,
        ("test_faults_on_spark.py::test_a_stage_that_is_cancelled_is_run_again", ALL_IN_TURN),
        ("end-of-gang-not-told",),
    ),
    SparkFault(
        "the link between two slots, or to the driver, breaks",
        f"the end that notices reports it to the driver; {RESTARTS}",
        ("test_faults.py::test_a_lost_link_costs_no_row_and_repeats_none",),
        ("lost-peer-not-told", "lost-peer-not-heard", "slot-stays-without-driver"),
    ),
    SparkFault(
        "a host's cable is pulled",
        f"its slots are considered lost after the heartbeat timeout; {RESTARTS}",
        ("test_cluster.py::test_a_job_on_two_hosts_outlives_a_cable_that_is_pulled",),
        ("silence-not-noticed",),
    ),
    SparkFault(
        "a disk is full",
        "up to `tolerable_failures` checkpoints fail, and the job continues",
        ("test_faults_on_spark.py::test_a_full_disk_costs_checkpoints_and_nothing_else",),
        ("failed-write-not-answered", "half-a-snapshot-stays", "no-failure-is-tolerated"),
    ),
    SparkFault(
        "a disk is slow",
        "up to `tolerable_failures` checkpoints expire, and the job continues",
        ("test_faults.py::test_a_disk_that_is_slow_costs_checkpoints_and_nothing_else",),
        ("checkpoint-never-expires", "no-failure-is-tolerated"),
    ),
    SparkFault(
        "the driver dies",
        "with a durable store, another process continues: `SparkJob(env, recover=True)`",
        ("test_two_drivers.py::test_on_spark", "test_two_drivers.py::test_on_the_file_system"),
        ("store-not-read", "dead-drivers-files-stay", "slot-stays-without-driver"),
    ),
    SparkFault(
        "a driver is frozen, another takes over, and the first wakes up",
        "the store rejects the writes of the first driver, which stops as SUSPENDED and publishes nothing more",
        (
            "test_two_leaders.py::test_a_driver_that_is_frozen_and_replaced_does_nothing_that_counts",
            "test_two_leaders.py::test_a_driver_beside_one_that_runs_takes_the_job_over",
        ),
        ("leader-not-replaced", "lost-leadership-not-noticed"),
    ),
    SparkFault(
        "a function hangs",
        f"its checkpoint expires, and its worker is ended; {RESTARTS}",
        (USERS,),
        ("checkpoint-never-expires", "slot-stays-for-good", "straggler-not-killed"),
    ),
    SparkFault(
        "a function leaks memory, up to the limit",
        f"its MemoryError fails the task; {RESTARTS}",
        (USERS,),
        ("error-of-a-function-gets-out",),
    ),
    SparkFault(
        "a function ends the process",
        f"as for a killed worker; {RESTARTS}",
        (USERS,),
        ("lost-connection-not-told", "exit-not-told"),
    ),
    SparkFault(
        "a stranger connects to a port: noise, another secret, a repeated or cut handshake, a byte at a time",
        "the connection is closed, and one line in the log says from where and why; the job is not affected",
        (
            "test_strangers.py::test_a_stranger_is_cut_off_and_one_line_says_whence_and_why",
            "test_strangers.py::test_a_handshake_that_was_overheard_opens_nothing",
            "test_strangers.py::test_a_job_is_unharmed_by_strangers_on_all_its_ports",
        ),
        ("any-proof-will-do", "same-nonce-each-time", "stranger-not-written-down", "handshake-without-end"),
    ),
    SparkFault(
        "one host holds many connections open",
        "a new connection replaces the oldest of these, so no other host is shut out",
        ("test_strangers.py::test_many_connections_held_open_shut_nobody_out",),
        ("nobody-gives-way",),
    ),
    SparkFault(
        "a frame is too long, or arrives a byte at a time",
        "the connection is closed, as with a dead peer",
        (
            "test_channels.py::test_a_frame_longer_than_allowed_drops_the_peer",
            "test_strangers.py::test_a_frame_that_comes_a_byte_at_a_time_is_cut_off",
        ),
        ("any-length-of-frame", "frame-without-end"),
    ),
    SparkFault(
        "two drivers write the same checkpoint to an object store",
        "the store accepts one, and the other gets an error",
        ("test_object_store.py::test_of_two_that_write_the_same_metadata_one_is_told",),
        ("last-put-wins",),
    ),
    SparkFault(
        "a file to be published exists in the object store already, with other content",
        "neither file is deleted, and an error says so",
        ("test_object_store.py::test_output_that_somebody_else_has_published_is_left_alone",),
        ("copy-not-compared",),
    ),
)
