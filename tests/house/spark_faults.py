"""What may befall a job on Spark, what comes of it, and the test that shows it: a table for `docs/FAULTS.md`."""

from __future__ import annotations

from typing import NamedTuple


class SparkFault(NamedTuple):
    """One kind of fault: what comes of it, the tests, as `file::function` below `tests/spark`, and the mutants of
    `tests.mutants.surroundings` that take out what sees to it.
    """

    what: str
    comes: str
    tests: tuple[str, ...]
    mutants: tuple[str, ...] = ()


RESTARTS = "the next epoch goes on from the last checkpoint"
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
        f"it is lost after the heartbeat timeout and killed; {RESTARTS}",
        ("test_spark_job.py::test_a_frozen_worker_is_noticed_and_replaced",),
        ("silence-not-noticed", "frozen-worker-not-killed"),
    ),
    SparkFault(
        "the machine stands still, or the driver's process",
        "nothing: who did not listen itself calls nobody silent",
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
        "the job waits for all slots that it wants, no longer than `slot_wait_ms`; then as for one",
        (CLUSTER, "test_rescaling.py::test_a_job_that_is_not_reactive_waits_until_all_its_slots_are_there"),
        ("slots-not-waited-for",),
    ),
    SparkFault(
        "an executor is frozen",
        f"as a frozen worker; Spark is told to replace it and counts its slots no more; {RESTARTS}",
        (CLUSTER, "test_gang.py::test_an_executor_whose_task_does_not_end_is_replaced"),
        ("silence-not-noticed", "silent-executor-counted", "start-not-limited"),
    ),
    SparkFault("Spark's master is restarted", "nothing: executors need none, nor does the next epoch", (CLUSTER,)),
    SparkFault(
        "Spark's worker daemon is killed, and its executor",
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
        "the link between two slots breaks, or that to the driver",
        f"whoever notices tells the driver; {RESTARTS}",
        ("test_faults.py::test_a_lost_link_costs_no_row_and_repeats_none",),
        ("lost-peer-not-told", "lost-peer-not-heard", "slot-stays-without-driver"),
    ),
    SparkFault(
        "a host's cable is pulled",
        f"its slots are lost after the heartbeat timeout; {RESTARTS}",
        ("test_cluster.py::test_a_job_on_two_hosts_outlives_a_cable_that_is_pulled",),
        ("silence-not-noticed",),
    ),
    SparkFault(
        "a disk is full",
        "checkpoints fail, as many as `tolerable_failures` allows; the job goes on",
        ("test_faults_on_spark.py::test_a_full_disk_costs_checkpoints_and_nothing_else",),
        ("failed-write-not-answered", "half-a-snapshot-stays", "no-failure-is-tolerated"),
    ),
    SparkFault(
        "a disk is slow",
        "checkpoints expire, as many as `tolerable_failures` allows; the job goes on",
        ("test_faults.py::test_a_disk_that_is_slow_costs_checkpoints_and_nothing_else",),
        ("checkpoint-never-expires", "no-failure-is-tolerated"),
    ),
    SparkFault(
        "the driver dies",
        "with a durable store another process goes on: `SparkJob(env, recover=True)`",
        ("test_two_drivers.py::test_on_spark", "test_two_drivers.py::test_on_the_file_system"),
        ("store-not-read", "dead-drivers-files-stay", "slot-stays-without-driver"),
    ),
    SparkFault(
        "a driver is frozen, another takes over, and the first wakes up",
        "the store refuses what the first one writes; it stops as SUSPENDED and publishes nothing more",
        (
            "test_two_leaders.py::test_a_driver_that_is_frozen_and_replaced_does_nothing_that_counts",
            "test_two_leaders.py::test_a_driver_beside_one_that_runs_takes_the_job_over",
        ),
        ("leader-not-replaced", "lost-leadership-not-noticed"),
    ),
    SparkFault(
        "a function hangs",
        f"its checkpoint expires, its worker is ended; {RESTARTS}",
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
        f"as a killed worker; {RESTARTS}",
        (USERS,),
        ("lost-connection-not-told", "exit-not-told"),
    ),
    SparkFault(
        "a stranger comes to a port: noise, another secret, a repeated or cut handshake, a byte at a time",
        "he is cut off, one line in the log says from where and why; the job is unharmed",
        (
            "test_strangers.py::test_a_stranger_is_cut_off_and_one_line_says_whence_and_why",
            "test_strangers.py::test_a_handshake_that_was_overheard_opens_nothing",
            "test_strangers.py::test_a_job_is_unharmed_by_strangers_on_all_its_ports",
        ),
        ("any-proof-will-do", "same-nonce-each-time", "stranger-not-written-down", "handshake-without-end"),
    ),
    SparkFault(
        "somebody holds many connections open",
        "when a new one comes the oldest of theirs goes; nobody is shut out",
        ("test_strangers.py::test_many_connections_held_open_shut_nobody_out",),
        ("nobody-gives-way",),
    ),
    SparkFault(
        "a frame is too long, or comes a byte at a time",
        "the connection is over, as with a dead peer",
        (
            "test_channels.py::test_a_frame_longer_than_allowed_drops_the_peer",
            "test_strangers.py::test_a_frame_that_comes_a_byte_at_a_time_is_cut_off",
        ),
        ("any-length-of-frame", "frame-without-end"),
    ),
    SparkFault(
        "two drivers write the same checkpoint to an object store",
        "the store lets one do it, the other is told",
        ("test_object_store.py::test_of_two_that_write_the_same_metadata_one_is_told",),
        ("last-put-wins",),
    ),
    SparkFault(
        "a file to be published to an object store is there already, and it is another",
        "neither is deleted, and an error says so",
        ("test_object_store.py::test_output_that_somebody_else_has_published_is_left_alone",),
        ("copy-not-compared",),
    ),
)
