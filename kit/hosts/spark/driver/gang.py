"""A gang of slots as one Spark job: a barrier stage with one task per slot.

Spark starts all tasks of a barrier stage together or none, and reports when one dies. Records do not pass through
Spark's own data path, so Spark does not count them; `SparkJob.meters` does. A thread of the driver waits for the job.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from kit.hosts.spark.driver.executors import replace_silent
from kit.hosts.spark.driver.oom_kills import killed_by
from kit.hosts.spark.scheduler import concurrent_tasks
from kit.hosts.spark.slot.slot import LastWord, Slot, SlotTicket
from kit.hosts.spark.wire.credentials import PROPERTY, Credentials

logger = logging.getLogger("kit.hosts.spark")
GRACE_S = 2.0
"""The time after which a busy slot that was told to leave ends its process."""
OTHERS_LEAVE_S = 0.05
"""The time that slots that are not silent get to leave before Spark ends them."""
CANCEL_EVERY_S = 0.2
"""The interval at which a cancellation is repeated, because Spark ignores one that comes before the job begins."""
LAST_CANCEL_S = 10.0
"""The time that the end of the gang waits for a call of Spark that cancels it and has not returned."""
_OBJECTS_BETWEEN_COLLECTIONS = 500_000
PROFILE_VARIABLE = "KIT_PROFILE"
"""The variable with the directory to which each slot writes a profile of the thread that runs its tasks,
`slot-<n>-<deployment>.prof`.
"""


class SparkGang:
    """The slots of `ticket` as a barrier job of `spark`. `ended` is called with the error when the job is over."""

    def __init__(self, spark: SparkSession, ticket: SlotTicket, ended: Callable[[str], None]) -> None:
        self._spark = spark
        self._ticket = ticket
        self._ended = ended
        self.group = f"kit-{ticket.job.job_id}-{ticket.deployment}-{id(self):x}"
        self._over = threading.Event()
        self._error = ""
        self._lock = threading.Lock()
        self._silent: set[int] = set()
        """The Spark tasks of slots for which it is not yet known whether their executors can be used again."""
        self._settled = False
        self._canceller: threading.Thread | None = None
        InheritableThread(target=self._submit, name=f"kit-spark-{ticket.deployment}", daemon=True).start()

    def cancel(self) -> None:
        """Have Spark end the job; its workers detect that by themselves."""
        with self._lock:
            if self._canceller is None and not self._over.is_set():
                canceller = threading.Thread(target=self._cancel, name="kit-cancel", daemon=True)
                canceller.start()
                self._canceller = canceller

    def give_up(self, slot: int) -> bool:
        """Give up a silent slot: its executor is not used again if its task does not end with the others.

        `ended` is called once that is decided, even if it was called before.
        """
        with self._lock:
            self._silent.add(self._ticket.slots.index(slot))
            again, self._settled = self._settled, False
        if again:
            threading.Thread(target=self._settle, name="kit-silent", daemon=True).start()
        else:
            threading.Timer(OTHERS_LEAVE_S, self.cancel).start()
        return True

    def _settle(self) -> None:
        """Report that the gang is over, once no decision is pending."""
        while True:
            with self._lock:
                silent, self._silent = self._silent, set()
                self._settled = not silent
                canceller = self._canceller
            if not silent:
                if canceller is not None:
                    canceller.join(LAST_CANCEL_S)
                self._ended(self._error)
                return
            replace_silent(self._spark, self.group, silent)

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):  # the session was stopped: the job is over anyway
            while not self._over.is_set():
                self._spark.sparkContext.cancelJobGroup(self.group)
                self._over.wait(CANCEL_EVERY_S)

    def _submit(self) -> None:
        ticket = self._ticket
        try:
            self._error = missing_slots(self._spark, ticket.slots_at_once)
            if self._error:
                return
            context = self._spark.sparkContext
            description = f"{ticket.job.name}, epoch {ticket.epoch}{_of_all(ticket)}"
            context.setJobGroup(self.group, description, interruptOnCancel=False)
            context.setLocalProperty(PROPERTY, ticket.credentials.to_property())
            tasks = context.parallelize(ticket.slots, len(ticket.slots)).barrier()
            tasks.mapPartitions(_SlotTask(ticket)).collect()
        except Exception as failure:
            self._error = explain(failure)
        finally:
            self._over.set()
            self._settle()

    def __repr__(self) -> str:
        return f"SparkGang({self._ticket!r}, {'over' if self._over.is_set() else 'running'})"


def _of_all(ticket: SlotTicket) -> str:
    """Return which of the job's slots the gang has, for Spark's page; "" if it has all of them."""
    if len(ticket.slots) == ticket.slots_at_once:
        return ""
    return f", slot {', '.join(map(str, ticket.slots))}"


class _SlotTask:
    """The function of each Spark task of the stage: task i runs the slot that the ticket names at place i."""

    def __init__(self, ticket: SlotTicket) -> None:
        self._ticket = ticket.without_credentials()

    def __call__(self, numbers: Iterable[int]) -> Iterator[Any]:
        for _ in numbers:
            pass
        context = TaskContext.get()
        assert context is not None
        inbox = LastWord(GRACE_S)
        ticket = self._ticket.with_credentials(Credentials.from_property(context.getLocalProperty(PROPERTY)))
        slot = Slot(ticket, ticket.slots[context.partitionId()], inbox)
        with _rare_collections(), _profiled(slot.number, ticket.deployment):
            slot.run()
        inbox.left()
        return iter(())


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage only once in a few batches.

    Rows of a user's function are many objects that live as long as their batch. Scanning them after every 700 objects
    takes a quarter of the time of a small function.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextlib.contextmanager
def _profiled(slot: int, deployment: int) -> Iterator[None]:
    directory = os.environ.get(PROFILE_VARIABLE)
    if directory is None:
        yield
        return
    profile = cProfile.Profile()
    with profile:
        yield
    profile.dump_stats(f"{directory}/slot-{slot}-{deployment}.prof")


def missing_slots(spark: SparkSession, wanted: int, beside: int = 0) -> str:
    """Return why `wanted` tasks cannot run at once, with `beside` cores left for Spark's own queries of the job.

    Returns "" if they can, according to Spark.
    """
    there = concurrent_tasks(spark)
    if there is None or there >= wanted + beside:
        return ""
    needs = (
        f"{wanted} slots and a core for the query of its streaming DataFrame" if beside else f"{wanted} slots at once"
    )
    return (
        f"the job needs {needs} and Spark has {there} ({spark.sparkContext.master}): lower the parallelism, or stop "
        f"this session and give the next one more cores, as create_session(slots={wanted}) does"
    )


_WORKER_ERROR = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit)): (.*)$", re.MULTILINE)
_CAUSES = (
    re.compile(r"Could not recover from a failed barrier ResultStage\. Most recent failure reason: (.*)"),
    re.compile(r"(Python worker exited unexpectedly[^\n]*)"),
    re.compile(r"SparkException: (\[[^\n]*)"),
    re.compile(r"(Job \d+ cancelled[^\n]*)"),
)


def explain(failure: Exception) -> str:
    """Return the cause of a failure in one line, extracted from Spark's pages of text."""
    text = str(failure)
    if "BarrierJobSlotsNumberCheckFailed" in text or "SPARK-24819" in text:
        return "the job needs more slots at once than Spark has: give Spark more cores, or lower the parallelism"
    raised = _WORKER_ERROR.findall(text)
    if raised and "Traceback" in text:
        name, said = raised[-1]
        hint = (
            ": Spark's workers cannot import what this process can; use create_session()"
            if name.endswith("ModuleNotFoundError")
            else ""
        )
        return f"{name}: {said}{hint}"
    for cause in _CAUSES:
        if found := cause.search(text):
            return found.group(1).strip() + killed_by(text)
    return f"{type(failure).__name__}: {text.strip().splitlines()[0] if text.strip() else 'no reason given'}"
