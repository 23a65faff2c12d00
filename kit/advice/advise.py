"""The rules that find the phase and the subtask that slow a job's checkpoints, with the documented remedy.

Each rule is a function from figures to at most one remedy. It applies if its numbers exceed a limit, and the remedy
quotes these numbers. The limits are at the top: ratios, and times that are too short to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kit.advice.advised import Advice, Remedy
from kit.advice.figures import PHASES, CheckpointFigures
from kit.run.sizes import size_text

SHORT_MS = 1_000
"""Checkpoints that take less than this, at the median, are not called slow."""
DOMINATES = 0.5
"""A phase with this share of the slowest subtasks' time takes most of it."""
SKEWED = 3.0
"""A subtask with this many times the median of its vertex's bytes is skewed."""
LARGE_BYTES = 64 << 20
"""State below this is not called large."""
MUCH_IN_FLIGHT = 0.5
"""In-flight data of this share of a checkpoint's bytes is much."""

_UNDER_BACKPRESSURE = "ops/state/checkpointing_under_backpressure"
_LARGE_STATE = "ops/state/large_state_tuning"
_MONITORING = "ops/monitoring/checkpoint_monitoring"
_CHECKPOINTING = "dev/datastream/fault-tolerance/checkpointing"

_PHASE_WORDS = {
    "start_delay_ms": "waiting for the first barrier",
    "alignment_ms": "waiting for the other barriers",
    "sync_ms": "copying state while no row is processed",
    "async_ms": "writing state in the background",
}


def advise(figures: CheckpointFigures) -> Advice:
    """Return what slows the checkpoints of a job down, and what helps."""
    if not isinstance(figures, CheckpointFigures):
        raise TypeError(
            f"advise takes the figures of a job's checkpoints and found {figures!r}: give "
            "figures_of(lab.statistics) or read_flink(address)"
        )
    found = _Found(figures)
    remedies = [remedy for rule in RULES if (remedy := rule(found)) is not None]
    return Advice(figures.name, _verdict(found), found.shares, tuple(remedies), found.cost_ms)


class _Found:
    """The data of the rules: periodic checkpoints without savepoints, and the slowest subtask of each.

    A checkpoint with a subtask that never told its figures has no slowest subtask: it may be that one.
    """

    def __init__(self, figures: CheckpointFigures) -> None:
        checkpoints = figures.checkpoints
        self.settings = figures.settings
        self.periodic = checkpoints[checkpoints["kind"] == "CHECKPOINT"]
        self.completed = self.periodic[self.periodic["status"] == "COMPLETED"]
        self.failed = self.periodic[self.periodic["status"] == "FAILED"]
        self.parts = figures.subtasks[figures.subtasks["checkpoint_id"].isin(self.periodic["checkpoint_id"])]
        missing = self.parts.loc[self.parts["duration_ms"].isna(), "checkpoint_id"]
        ended_ids = self.periodic.loc[self.periodic["status"] != "PENDING", "checkpoint_id"]
        ended = self.parts[self.parts["checkpoint_id"].isin(set(ended_ids) - set(missing))]
        self.slowest = ended.loc[ended.groupby("checkpoint_id")["duration_ms"].idxmax()] if len(ended) else ended
        sums = self.slowest[list(PHASES)].fillna(0).sum()
        total = float(sums.sum())
        self.shares: Mapping[str, float] = {phase: float(sums[phase]) / total if total else 0.0 for phase in PHASES}

    @property
    def median_ms(self) -> float:
        """The median of how long the slowest subtask of a checkpoint took."""
        return float(self.slowest["duration_ms"].median()) if len(self.slowest) else 0.0

    @property
    def cost_ms(self) -> float | None:
        """The average time in ms for which rows stand still in a checkpoint; None if no completed one says so.

        While an unaligned barrier waits for the others, rows are processed.
        """
        parts = self.parts[self.parts["checkpoint_id"].isin(self.completed["checkpoint_id"])]
        waits = parts["alignment_ms"].where(~parts["unaligned"].fillna(False).astype(bool), 0)
        longest = (waits + parts["sync_ms"]).groupby(parts["checkpoint_id"]).max().dropna()
        return float(longest.mean()) if len(longest) else None

    @property
    def where(self) -> str:
        """The vertex that most often has the slowest subtask."""
        return str(self.slowest["vertex"].mode().iloc[0]) if len(self.slowest) else ""

    def share(self, *phases: str) -> float:
        """The share of time of some phases together."""
        return sum(self.shares[phase] for phase in phases)

    def is_slow(self) -> bool:
        """True if checkpoints take long enough to matter."""
        return self.median_ms >= SHORT_MS


def _verdict(found: _Found) -> str:
    if not len(found.periodic):
        return "There is no periodic checkpoint yet."
    ended = f"{len(found.completed)} of {len(found.completed) + len(found.failed)} checkpoints completed"
    if not len(found.slowest):
        return f"{ended}; no subtask has told its figures."
    phase = max(found.shares, key=lambda name: found.shares[name])
    return (
        f"{ended}. The slowest subtask takes {_seconds(found.median_ms)} at the median, {found.shares[phase]:.0%} of "
        f"it {_PHASE_WORDS[phase]}."
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def barriers_are_slow(found: _Found) -> Remedy | None:
    """Barriers wait behind rows: backpressure."""
    share = found.share("start_delay_ms", "alignment_ms")
    if share < DOMINATES or not found.is_slow():
        return None
    rows = found.slowest
    waited = rows["start_delay_ms"].fillna(0) + rows["alignment_ms"].fillna(0)
    evidence = (
        f"Barriers wait behind rows: {share:.0%} of the time of the slowest subtasks, {_seconds(waited.max())} at most."
    )
    if found.settings.get("unaligned"):
        do = "Barriers may overtake already, so the task is busy with one row or timer for long: look at its code."
    else:
        do = (
            "Let barriers overtake (execution.checkpointing.unaligned.enabled: true, with an "
            "aligned-checkpoint-timeout), keep fewer rows in flight "
            "(taskmanager.network.memory.buffer-debloat.enabled: true), or give this vertex more subtasks."
        )
    return Remedy("backpressure", found.where, evidence, do, _UNDER_BACKPRESSURE)


def copying_is_slow(found: _Found) -> Remedy | None:
    """The synchronous part stops the task."""
    if found.share("sync_ms") < DOMINATES or not found.is_slow():
        return None
    evidence = f"The synchronous part takes {_seconds(found.slowest['sync_ms'].max())}; meanwhile no row is processed."
    do = "Look at snapshotState of user functions and at the number of timers and list entries; RocksDB flushes here."
    return Remedy("slow copy of state", found.where, evidence, do, _LARGE_STATE)


def writing_is_slow(found: _Found) -> Remedy | None:
    """The asynchronous part writes to a slow store, or much."""
    if found.share("async_ms") < DOMINATES or not found.is_slow():
        return None
    rows = found.slowest[found.slowest["async_ms"] > 0]
    rate = (rows["checkpointed_bytes"] / rows["async_ms"] * 1_000).median()
    evidence = (
        f"Writing takes {_seconds(rows['async_ms'].max())} for {size_text(rows['checkpointed_bytes'].max())}: "
        f"{size_text(rate)} a second and subtask."
    )
    do = "Write less (execution.checkpointing.incremental: true with RocksDB), or to a faster or closer store."
    return Remedy("slow writing", found.where, evidence, do, _LARGE_STATE)


def checkpoints_expire(found: _Found) -> Remedy | None:
    """Checkpoints do not complete within the timeout."""
    expired = found.failed[found.failed["failure"].str.contains("expired", case=False)]
    if not len(expired):
        return None
    parts = found.parts[found.parts["checkpoint_id"].isin(expired["checkpoint_id"])]
    late = parts[parts["status"] != "acknowledged"]
    where = ", ".join(late["vertex"].value_counts().index[:3]) or "unknown"
    evidence = f"{len(expired)} of {len(expired) + len(found.completed)} checkpoints expired"
    timeout_ms = found.settings.get("timeout_ms")
    evidence += f" after {_seconds(timeout_ms)}" if timeout_ms else ""
    evidence += f"; {len(late)} of {len(parts)} subtasks were not done."
    reported = late["duration_ms"].dropna()
    longest = (
        f" The late ones took {_seconds(reported.max())} at most: a longer timeout hides it." if len(reported) else ""
    )
    do = f"Mend what delays these subtasks first (see the other remedies).{longest}"
    return Remedy("expired", where, evidence, do, _MONITORING)


def checkpoints_decline(found: _Found) -> Remedy | None:
    """Checkpoints fail for another reason than time."""
    other = found.failed[~found.failed["failure"].str.contains("expired|subsumed", case=False)]
    other = other[other["failure"].str.strip() != ""]
    if len(other) < 2:
        return None
    reason, count = next(iter(other["failure"].value_counts().items()))
    evidence = f"{len(other)} checkpoints failed; {count} of them with: {str(reason)[:200]}"
    return Remedy(
        "failing", "the job", evidence, "The message names the cause; the task's log has its trace.", _MONITORING
    )


def bytes_are_skewed(found: _Found) -> Remedy | None:
    """One subtask writes much more than its siblings."""
    rows = found.parts[found.parts["status"] == "acknowledged"]
    if not len(rows):
        return None
    newest = rows[rows["checkpoint_id"] == rows["checkpoint_id"].max()]
    for vertex, parts in newest.groupby("vertex", sort=False):
        sizes = parts["checkpointed_bytes"].fillna(0)
        most, median = sizes.max(), sizes.median()
        if len(parts) > 1 and most > LARGE_BYTES and most > SKEWED * max(median, 1):
            subtask = int(parts.loc[sizes.idxmax(), "subtask"])
            evidence = f"Subtask {subtask} writes {size_text(most)}, the median is {size_text(median)}."
            do = "A few keys or key groups hold most state: split hot keys, or change parallelism and its maximum."
            return Remedy("skew", str(vertex), evidence, do, _LARGE_STATE)
    return None


def all_is_written_again(found: _Found) -> Remedy | None:
    """Large state is written whole each time."""
    rows = found.completed.dropna(subset=["full_bytes"])
    large = rows[rows["full_bytes"] > LARGE_BYTES]
    if len(large) < 2 or (large["checkpointed_bytes"] < large["full_bytes"]).any():
        return None
    evidence = f"Each checkpoint writes all {size_text(large['full_bytes'].iloc[0])} of state again."
    do = "With RocksDB, incremental checkpoints write what changed: execution.checkpointing.incremental: true."
    return Remedy("full checkpoints", "the job", evidence, do, _LARGE_STATE)


def much_is_in_flight(found: _Found) -> Remedy | None:
    """In-flight data is a large part of the checkpoints."""
    rows = found.completed.dropna(subset=["persisted_bytes"])
    persisted, written = rows["persisted_bytes"].sum(), rows["checkpointed_bytes"].sum()
    if persisted < LARGE_BYTES or persisted < MUCH_IN_FLIGHT * written:
        return None
    each = size_text(persisted / len(rows))
    evidence = f"In-flight data is {persisted / written:.0%} of what is written: {each} a checkpoint."
    do = "Keep fewer rows in flight (taskmanager.network.memory.buffer-debloat.enabled: true); recovery reads them too."
    return Remedy("in-flight data", "the job", evidence, do, _UNDER_BACKPRESSURE)


def interval_is_short(found: _Found) -> Remedy | None:
    """Checkpoints take longer than their interval."""
    interval_ms = found.settings.get("interval_ms")
    durations = found.completed["duration_ms"].dropna()
    if not interval_ms or not len(durations) or durations.median() < interval_ms:
        return None
    evidence = (
        f"A checkpoint takes {_seconds(durations.median())} at the median, the interval is {_seconds(interval_ms)}."
    )
    do = "The next begins when one ends. Set execution.checkpointing.min-pause, so that the job gets time for rows."
    return Remedy("interval", "the job", evidence, do, _CHECKPOINTING)


RULES: tuple[Callable[[_Found], Remedy | None], ...] = (
    checkpoints_expire,
    checkpoints_decline,
    barriers_are_slow,
    copying_is_slow,
    writing_is_slow,
    bytes_are_skewed,
    all_is_written_again,
    much_is_in_flight,
    interval_is_short,
)


# --- words ------------------------------------------------------------------------------------------------------------


def _seconds(ms: float) -> str:
    return f"{ms / 1_000:.1f} s" if ms >= SHORT_MS else f"{ms:.0f} ms"
