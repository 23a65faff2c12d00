"""A gang's handling of slots that have gone silent, with a simulated Spark."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kit.core.protocol.attempts import Attempts
from kit.hosts.spark.driver import executors, gang
from kit.hosts.spark.driver.deployment import Deployment
from kit.hosts.spark.driver.gang import SparkGang
from kit.hosts.spark.edge import SparkOutput
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.wire.connection import WITHOUT_END, silence
from kit.hosts.spark.wire.control import SlotHello
from kit.hosts.spark.wire.credentials import Credentials
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.stream import TAKES_NOTHING, Endpoint
from kit.hosts.spark.wire.tls import Tls
from tests.hosts.spark.sockets import SECRET

TLS = Tls.for_this_run()


class Tasks(dict[int, str]):
    """Those that run, by task; as a map of Scala's, and as its list of all there were."""

    contains = dict.__contains__


class PlayedSpark:
    """One job of two tasks, on two executors. It ends when it is cancelled, and with it its tasks, unless frozen."""

    def __init__(self, *frozen: str) -> None:
        self.frozen = set(frozen)
        self.running = Tasks({70: "a", 71: "b"})
        self.replaced: list[str] = []
        self.cancelled = threading.Event()
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=lambda: self)
        self.master = "spark://here"

    def maxNumConcurrentTasks(self, profile: object) -> int:  # noqa: N802
        return 2

    def resourceProfileManager(self) -> Any:  # noqa: N802
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802
        self.property = name, value

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:  # noqa: N802
        self.group = group

    def parallelize(self, *_: object) -> Any:
        def map_partitions(task: Any) -> Any:
            self.task = task
            return SimpleNamespace(collect=self.collect)

        barrier = SimpleNamespace(mapPartitions=map_partitions)
        return SimpleNamespace(barrier=lambda: barrier)

    def collect(self) -> None:
        self.cancelled.wait()
        for task in [task for task, executor in self.running.items() if executor not in self.frozen]:
            del self.running[task]
        raise RuntimeError("Job 0 cancelled")

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.set()

    def statusTracker(self) -> Any:  # noqa: N802
        info = SimpleNamespace(stageIds=[3])
        return SimpleNamespace(getJobIdsForGroup=lambda group: [0], getJobInfo=lambda job: info)

    def statusStore(self) -> Any:  # noqa: N802
        listed = [
            SimpleNamespace(index=lambda n=n: n, taskId=lambda n=n: 70 + n, executorId=lambda n=n: "ab"[n])
            for n in range(2)
        ]
        found = SimpleNamespace(size=lambda: 2, apply=listed.__getitem__)
        return SimpleNamespace(taskList=lambda stage, attempt, most: found)

    def taskScheduler(self) -> Any:  # noqa: N802
        return SimpleNamespace(taskIdToExecutorId=lambda: self.running)

    def killAndReplaceExecutor(self, executor: str) -> bool:  # noqa: N802
        self.replaced.append(executor)
        return True


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[str]:
    monkeypatch.setattr(gang, "OTHERS_LEAVE_S", 0.01)
    monkeypatch.setattr(executors, "GRACE_S", 0.05)
    return queue.Queue()


def gang_on(spark: PlayedSpark, ended: queue.Queue[str]) -> SparkGang:
    job: Any = SimpleNamespace(job_id="j", name="played")
    wire, driver, output = WireSettings(tls=TLS), Endpoint("127.0.0.1", 1), SparkOutput("")
    ticket = SlotTicket(job, 1, (0, 1), 2, Attempts(1), {"rows": 2}, {"rows": 4}, driver, SECRET, "", output, wire)
    return SparkGang(spark, ticket, ended.put)  # type: ignore[arg-type]


def test_the_credentials_travel_beside_the_closure(ended: queue.Queue[str]) -> None:
    """Spark serves a closure as a broadcast, and may write it to disk."""
    spark = PlayedSpark()
    gang_on(spark, ended).cancel()
    ended.get(timeout=10)
    closure = pickle.dumps(spark.task)
    assert b"127.0.0.1" in closure
    assert SECRET not in closure
    assert TLS.key not in closure
    name, value = spark.property
    assert "secret" in name, "so that Spark leaves its value out of event logs"
    assert Credentials.from_property(value) == Credentials(SECRET, TLS)
    without = Credentials.from_property(Credentials(SECRET).to_property())
    assert without == Credentials(SECRET)
    with pytest.raises(RuntimeError, match="Spark delivered no local property"):
        Credentials.from_property(None)


def test_an_executor_whose_task_does_not_end_is_replaced(ended: queue.Queue[str]) -> None:
    spark = PlayedSpark("b")
    assert gang_on(spark, ended).give_up(1)
    assert ended.get(timeout=10) == "Job 0 cancelled"
    assert spark.replaced == ["b"], "before the gang is over: the next one is not to get there"


def test_one_that_works_is_kept_although_its_slot_was_silent(ended: queue.Queue[str]) -> None:
    spark = PlayedSpark("b")
    gang_on(spark, ended).give_up(0)
    ended.get(timeout=10)
    assert spark.replaced == []


def test_a_slot_that_is_found_silent_when_the_gang_is_over_has_it_end_again(ended: queue.Queue[str]) -> None:
    spark = PlayedSpark("b")
    gang = gang_on(spark, ended)
    gang.cancel()
    ended.get(timeout=10)
    assert spark.replaced == []
    assert gang.give_up(1)
    ended.get(timeout=10)
    assert spark.replaced == ["b"]


def test_a_gang_that_ends_before_its_cancellation_has_begun_is_over(
    ended: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, start, late = PlayedSpark(), threading.Thread.start, threading.Event()

    def starts_late(thread: threading.Thread) -> None:
        if thread.name == "kit-cancel":
            spark.cancelled.set()
            while "over" not in repr(gang):
                time.sleep(0.001)
            late.wait(0.1)  # the gang, which is over, looks for its cancellation meanwhile
        start(thread)

    gang = gang_on(spark, ended)
    monkeypatch.setattr(threading.Thread, "start", starts_late)
    gang.cancel()
    assert ended.get(timeout=10) == "Job 0 cancelled"


@pytest.mark.parametrize("reason", [silence(3.1, 3.0), f"tcp://there:1 {TAKES_NOTHING}", WITHOUT_END])
def test_an_epoch_is_not_over_before_it_is_known_what_a_silent_slots_place_is_good_for(reason: str) -> None:
    told = []

    def give_up(slot: int) -> bool:
        told.append(slot)
        return True

    played = SimpleNamespace(give_up=give_up, cancel=lambda: None)
    hello = SlotHello(slot=1, deployment=1, pid=0, host="another machine")
    graph: Any = None
    deployment = Deployment(1, (0, 1), graph, Attempts(1), gang=played, joined={1: hello}, left={1}, gang_ended=True)
    deployment.end(1, reason)
    silent = reason != WITHOUT_END
    assert told == ([1] if silent else [])
    assert deployment.is_over is not silent
