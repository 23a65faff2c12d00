"""A run with the kinds of things that `tests.several_run` lacks, and several of each.

Its two pipelines are regions that restart on their own. Alignment pauses two of the three readers of a source. Windows
in two operators drop late rows, and three sinks publish. The vertices differ in parallelism, and the job is rescaled.
Barriers of periodic checkpoints overtake rows. Workers freeze, thaw and die. The run ends with a stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.hosts.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.sources.source import Split
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay, RescaleConfig
from tests.several_run import Moment
from tests.why.jobs import beginning, settle_without

START_MS = 10**12
"""The event time of the first rows; so late a time is shown as a date."""
PACES_MS = (9, 1, 4, 30, 2, 6)
"""How fast event time passes in each split of `fast`."""


class SideBySide(CollectionSource):
    """Ranges of rows that are read side by side, each with watermarks of its own."""

    @property
    def sequences(self) -> int:
        return len(self.enumerate_splits())

    def sequence_of(self, split: Split) -> str:
        return str(split["id"])


def job() -> StreamEnvironment:
    """Windows of two sources with event time, and beside them copies of a third source."""
    env = StreamEnvironment(
        "timed",
        failover="region",
        checkpoint=CheckpointConfig(interval_ms=300, unaligned=True, memory_threshold_bytes=0, tolerable_failures=9),
        restart=FixedDelay(9, 10),
        rescaling=RescaleConfig(cooldown_ms=0),
    )
    fast = [{"key": "abcde"[n % 5], "at": START_MS + PACES_MS[n // 20] * (n % 20), "n": n} for n in range(120)]
    slow = [{"key": "fgh"[n % 3], "at": START_MS + (-50 if n % 5 == 3 else 5 * n), "n": n} for n in range(60)]
    of_fast = env.from_source(SideBySide(fast, batch_rows=1, splits=6), uid="fast").set_parallelism(3)
    of_fast = of_fast.assign_timestamps("at").set_parallelism(3).with_alignment(10)
    of_slow = env.from_source(CollectionSource(slow, batch_rows=1), uid="slow").assign_timestamps("at", 5)
    keyed = of_fast.union(of_slow).key_by("key")
    for uid, name, ms, parallelism in (("counts", "in long", 20, 2), ("sums", "in short", 10, 3)):
        windows = keyed.window(TumblingEventTimeWindows(ms)).aggregate(n=count(), total=sum_("n"))
        windows.uid(uid).name(name).set_parallelism(parallelism)
        windows.sink_to(CollectSink(uid), uid=f"{uid}-out", name=f"file of {uid}").set_parallelism(parallelism)
    other = env.from_source(CollectionSource([{"n": n} for n in range(90)], batch_rows=1, splits=5), uid="other")
    copies = other.set_parallelism(2).rebalance().sink_to(CollectSink("copies"), uid="copies", name="table")
    copies.set_parallelism(4)
    return env


def timed_moments() -> Iterator[Moment]:
    """Go through the run: at each of its moments its name, the lab, and what may be asked there."""
    lab = Lab(job(), seed=1)
    lab.run_until(at_ms=415)
    asked = ["checkpoint 1", "job", "no checkpoint"]
    _without(lab, 446, "carry_out:job:InitializeLocation")
    yield "a directory is awaited", lab, asked
    _without(lab, 480, "carry_out:job:ScheduleCoordinatorCheckpoint")
    lab.step(next(each for each in lab.enabled() if "ScheduleCoordinatorCheckpoint" in each.key))
    yield "two coordinators are awaited", lab, asked
    lab.run_until(at_ms=530)
    _without(lab, 650, "turn:counts/0", "turn:sums/1", "turn:copies/2")
    rows = ["late rows", "output", "output copies", "output file of sums", "output counts-out"]
    readers = ["fast/0", "fast/1"]
    yield (
        "readers are paused",
        lab,
        [
            *readers,
            "fast/2",
            "slow/0",
            "counts/1",
            *rows,
            "counts/0 checkpoint 1",
            "fast/1 -> counts/0",
            "no checkpoint",
        ],
    )

    _without(lab, 760, "carry_out:slot_1", "carry_out:slot_0", "carry_out:fast/1:WriteSnapshot")
    yield "files are written", lab, ["checkpoint 1", "fast/1 checkpoint 1", "counts/0 checkpoint 1", "sums/0"]
    for worker in (1, 0, 2):
        lab.faults.freeze(worker)
    for worker in (1, 2):
        lab.faults.thaw(worker)
    lab.faults.freeze(2)
    yield "workers are frozen", lab, ["fast/0", "counts/1", "sums/2", "slow/0"]
    for worker in (0, 2):
        lab.faults.thaw(worker)
    lab.run_until(checkpoint=2)
    lab.run_until(lambda lab: not lab.moment().pending)
    told = ["no checkpoint", "checkpoint 1", "checkpoint 2", "late rows", "late rows of in long", "late rows of sums"]
    yield "two are complete", lab, [*told, *readers, "output", "output copies", "output counts-out", "counts/1 state"]

    lab.faults.kill(3)
    yield "a region stops", lab, ["job", "copies/0", "copies/3", "no checkpoint", "output copies"]
    _without(lab, lab.look.at_ms + 140, "carry_out:copies/1:ReadState", "carry_out:other/0:ReadState")
    yield "a region restores", lab, ["job", "copies/1", "other/0", "no checkpoint", "restart", "output copies"]
    rescale = lab.rescale({"counts": 3, "copies": 3, "fast": 2})
    yield "a rescale is requested", lab, [f"request {rescale}"]
    lab.run_until(record="CheckpointTriggered")
    _without(lab, lab.look.at_ms + 200, "carry_out:slot_1", "carry_out:slot_2")
    yield "files are written after a restart", lab, ["checkpoint 4", "copies/2 checkpoint 4", "sums/1 checkpoint 4"]
    lab.run_until(lambda lab: lab.moment().epoch == 2)
    lab.run_until(record="AllTasksRunning")
    yield (
        "rescaled",
        lab,
        ["restart", "epoch 1", f"request {rescale}", "counts/2 state", "no checkpoint", *readers, *rows],
    )
    lab.run_until(checkpoint=max(lab.moment().checkpoints) + 1)
    lab.faults.kill(2)
    lab.run_until(lambda lab: lab.moment().epoch == 3)
    lab.run_until(record="AllTasksRunning")
    stop = lab.stop()
    lab.run_until(record="CheckpointCompleted")
    settle_without(lab, beginning("turn:counts", "turn:copies"))
    yield (
        "it stops",
        lab,
        [f"request {stop}", "no checkpoint", "job", "fast/0", "copies/1", "output", "output copies", "output sums-out"],
    )
    lab.run_until(ended=True)
    yield "it has stopped", lab, ["job", "output", "output copies", f"request {stop}", "restart"]


def _without(lab: Lab, until_ms: int, *keys: str) -> None:
    """Take all actions up to a time, except those whose key begins so."""
    settle_without(lab, beginning(*keys), lambda lab: lab.look.at_ms >= until_ms)
