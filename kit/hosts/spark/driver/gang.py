"""A gang of slots as one Spark job: a barrier stage with one task a slot.

Spark starts all tasks of a barrier stage together or none, and says when one dies; that is all it is asked for. The
tasks take nothing from Spark's own path of records and give nothing to it. A thread of the driver waits for the job.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from kit.hosts.spark.driver.executors import replace_silent
from kit.hosts.spark.driver.oom_kills import killed_by
from kit.hosts.spark.slot.slot import LastWord, Slot, SlotTicket

GRACE_S = 2.0
"""A slot that was told to leave and is busy ends its process after this time."""
OTHERS_LEAVE_S = 0.05
"""Slots that are not silent leave in this time, before Spark ends them."""
CANCEL_EVERY_S = 0.2
"""Spark forgets a cancellation that comes before the job has begun, so it is repeated."""
_OBJECTS_BETWEEN_COLLECTIONS = 500_000
PROFILE_VARIABLE = "KIT_PROFILE"
"""Names the directory in which each slot leaves a profile of its main thread, `slot-<n>-<epoch>.prof`."""


class SparkGang:
    """The slots of `ticket` as a barrier job of `spark`. `ended` is called when it is over, with what went wrong."""

    def __init__(self, spark: SparkSession, ticket: SlotTicket, ended: Callable[[str], None]) -> None:
        self._spark = spark
        self._ticket = ticket
        self._ended = ended
        self.group = f"kit-{ticket.job.job_id}-{ticket.epoch}-{id(self):x}"
        self._over = threading.Event()
        self._error = ""
        self._lock = threading.Lock()
        self._silent: set[int] = set()
        """Slots of which it is not yet known whether their executors are of any use."""
        self._settled = False
        self._canceller: threading.Thread | None = None
        InheritableThread(target=self._submit, name=f"kit-spark-{ticket.epoch}", daemon=True).start()

    def cancel(self) -> None:
        """Have Spark end the job; its workers notice by themselves."""
        if self._canceller is None:
            self._canceller = threading.Thread(target=self._cancel, name="kit-cancel", daemon=True)
            self._canceller.start()

    def give_up(self, slot: int) -> bool:
        """A slot was silent: its place is not to be used again if its task does not end with the others. `ended` is
        called when that is decided, again if it was called before.
        """
        with self._lock:
            self._silent.add(slot)
            again, self._settled = self._settled, False
        if again:
            threading.Thread(target=self._settle, name="kit-silent", daemon=True).start()
        else:
            threading.Timer(OTHERS_LEAVE_S, self.cancel).start()
        return True

    def _settle(self) -> None:
        """Tell that the gang is over, as soon as nothing is to be decided any more."""
        while True:
            with self._lock:
                slots, self._silent = self._silent, set()
                self._settled = not slots
            if not slots:
                self._ended(self._error)
                return
            replace_silent(self._spark, self.group, slots)

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):  # the session was stopped: the job is over anyway
            while not self._over.is_set():
                self._spark.sparkContext.cancelJobGroup(self.group)
                self._over.wait(CANCEL_EVERY_S)

    def _submit(self) -> None:
        ticket = self._ticket
        try:
            self._error = missing_slots(self._spark, ticket.slots)
            if self._error:
                return
            context = self._spark.sparkContext
            context.setJobGroup(self.group, f"{ticket.job.name}, epoch {ticket.epoch}", interruptOnCancel=False)
            context.parallelize(range(ticket.slots), ticket.slots).barrier().mapPartitions(_SlotTask(ticket)).collect()
        except Exception as failure:
            self._error = explain(failure)
        finally:
            self._over.set()
            self._settle()

    def __repr__(self) -> str:
        return f"SparkGang({self._ticket!r}, {'over' if self._over.is_set() else 'running'})"


class _SlotTask:
    """What each Spark task of the stage does: be the slot that its partition numbers."""

    def __init__(self, ticket: SlotTicket) -> None:
        self._ticket = ticket

    def __call__(self, numbers: Iterable[int]) -> Iterable[int]:
        for _ in numbers:
            pass
        context = TaskContext.get()
        assert context is not None
        inbox = LastWord(GRACE_S)
        with _profiled(context.partitionId(), self._ticket.epoch), _rare_collections():
            Slot(self._ticket, context.partitionId(), inbox).run()
        inbox.left()
        return iter(())


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage once in a few batches. Rows of a user's function are many objects that live as long as their
    batch; looking through them after every 700 of them takes a quarter of the time of a small function.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextlib.contextmanager
def _profiled(slot: int, epoch: int) -> Iterator[None]:
    directory = os.environ.get(PROFILE_VARIABLE)
    if directory is None:
        yield
        return
    profile = cProfile.Profile()
    with profile:
        yield
    profile.dump_stats(f"{directory}/slot-{slot}-{epoch}.prof")


def missing_slots(spark: SparkSession, wanted: int) -> str:
    """Why `wanted` tasks cannot run at once; "" when they can, as far as Spark says."""
    there = concurrent_tasks(spark)
    if there is None or there >= wanted:
        return ""
    return (
        f"the job needs {wanted} slots at once and Spark has {there} ({spark.sparkContext.master}): lower the "
        f"parallelism, or stop this session and give the next one more cores, as create_session(slots={wanted}) does"
    )


def concurrent_tasks(spark: SparkSession) -> int | None:
    """How many tasks Spark can run at once; None when it does not say."""
    context: Any = spark.sparkContext._jsc.sc()
    try:
        return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # not part of Spark's public interface
        return None


_WORKER_ERROR = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit)): (.*)$", re.MULTILINE)
_CAUSES = (
    re.compile(r"Could not recover from a failed barrier ResultStage\. Most recent failure reason: (.*)"),
    re.compile(r"(Python worker exited unexpectedly[^\n]*)"),
    re.compile(r"SparkException: (\[[^\n]*)"),
    re.compile(r"(Job \d+ cancelled[^\n]*)"),
)


def explain(failure: Exception) -> str:
    """What went wrong, in one line, from the pages of text that Spark gives."""
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
