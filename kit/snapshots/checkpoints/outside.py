"""The systems around a job, as a restore meets them: logs that sources read again, and output that sinks commit.

The checkpoint has positions and transactions. Whether the log still has these positions, and whether the broker still
has these transactions, only the user can say (`Outside`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kit.restore_check import Effect, Finding, Severity
from kit.run.durations import duration
from kit.run.sizes import size_text

Retained = Callable[[str, int], tuple[int, int] | None]
LATEST, EARLIEST, COMMITTED = -1, -2, -3
BEFORE_READING = {
    LATEST: "the end of the log",
    EARLIEST: "the beginning of the log",
    COMMITTED: "the group's committed offset",
}
"""The offsets of a split that was not read yet, and where its reading begins."""
_BY_FILES = "the splits in the checkpoint, and the files that are there"
_BY_POSITIONS = "the positions in the checkpoint, and the offsets given"
_BY_COMMITTABLES = "the committables in the checkpoint"
MOST_NAMED = 3


@dataclass(frozen=True)
class Outside:
    """Facts about the systems around a job, which the user gives.

    `retained` gives for a topic and a partition the first offset in the log and the one behind the last, or None if the
    partition does not exist; a mapping `{topic: {partition: (first, end)}}` will do. `age_ms` is the time since the
    checkpoint, `transaction_timeout_ms` the broker's. `exists` says whether a file of a source or a sink is there.
    """

    retained: Retained | Mapping[str, Mapping[Any, Any]] | None = None
    transaction_timeout_ms: int | None = None
    age_ms: int | None = None
    exists: Callable[[str], bool] | None = None

    def offsets(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the first offset of a partition and the one behind the last. Raises ValueError for another answer."""
        if callable(self.retained):
            found = self.retained(topic, partition)
        else:
            of_topic = (self.retained or {}).get(topic, {})
            found = of_topic.get(partition, of_topic.get(str(partition)))
        if found is None:
            return None
        first, end = found
        if not (isinstance(first, int) and isinstance(end, int) and 0 <= first <= end):
            raise ValueError(
                f"the offsets of {topic!r}, partition {partition}, are {found!r}: expected (first offset, end offset)"
            )
        return first, end


def of_source(operator: str, rows: Iterable[Mapping[str, Any]], outside: Outside) -> Iterator[Finding]:
    """Yield findings about the positions of a source in the logs and the files that it reads. Raises ValueError."""
    by_topic: dict[str, list[Mapping[str, Any]]] = {}
    splits_of_files = []
    for row in rows:
        if row.get("topic") is not None:
            by_topic.setdefault(row["topic"], []).append(row)
        elif row.get("path"):
            splits_of_files.append(row)
    if splits_of_files and outside.exists is not None:
        yield from _files_read(operator, splits_of_files, outside.exists)
    for topic, splits in by_topic.items():
        if outside.retained is None:
            yield Finding(
                Severity.TELLS,
                operator,
                f"It reads topic {topic!r} again from {len(splits)} positions. Whether the log still has them is not "
                "known here.",
                "Give the offsets that the log retains (retained=...).",
                known_by="the positions in the checkpoint",
            )
            continue
        bad = [finding for row in splits for finding in _position(operator, topic, row, outside)]
        yield from bad
        if not bad:
            yield _all_positions(operator, topic, splits, outside)


def _files_read(operator: str, rows: list[Mapping[str, Any]], exists: Callable[[str], bool]) -> Iterator[Finding]:
    """Yield findings about the files of splits that are not read to their end."""
    gone = [row for row in rows if not exists(row["path"])]
    if not gone:
        message = f"The files of all {len(rows)} splits are there; each is read on from its position."
        yield Finding(Severity.TELLS, operator, message, "", Effect.EXACTLY_ONCE, _BY_FILES)
    for row in gone[:MOST_NAMED]:
        missing = f"The file {row['path']} is missing: it was to be read on from its position, and the job fails."
        fix = "Put the file back under this path, or restore a newer checkpoint."
        yield Finding(Severity.WARNS, operator, missing, fix, Effect.LOST, _BY_FILES)


def _position(operator: str, topic: str, row: Mapping[str, Any], outside: Outside) -> Iterator[Finding]:
    partition, offset = row["partition"], row["offset"]
    found = outside.offsets(topic, partition)
    place = f"Topic {topic!r}, partition {partition}"
    if found is None:
        message = f"{place}: the checkpoint has offset {offset}, and the partition does not exist."
    elif offset in BEFORE_READING or found[0] <= offset <= found[1]:
        return
    elif offset < found[0]:
        message = f"{place}: the {found[0] - offset:,} rows from offset {offset:,} on are no longer in the log."
    else:
        message = f"{place}: offset {offset:,} is beyond the log's end at {found[1]:,}: it was cut off or recreated."
    fix = "Restore a newer checkpoint, or set the offset and accept the gap. A longer retention prevents it."
    yield Finding(Severity.WARNS, operator, message, fix, Effect.LOST, _BY_POSITIONS)


def _all_positions(operator: str, topic: str, rows: list[Mapping[str, Any]], outside: Outside) -> Finding:
    behind = sum(
        found[1] - row["offset"]
        for row in rows
        if row["offset"] >= 0 and (found := outside.offsets(topic, row["partition"])) is not None
    )
    message = (
        f"Topic {topic!r}: the log still has all {len(rows)} positions; {behind:,} rows behind them are read next."
    )
    return Finding(Severity.TELLS, operator, message, "", Effect.EXACTLY_ONCE, _BY_POSITIONS)


def of_sink(operator: str, rows: Iterable[Mapping[str, Any]], outside: Outside) -> Iterator[Finding]:
    """Yield findings about what a sink commits when the job is restored."""
    pending = [row for row in rows if row.get("commit_state") in ("received", "retry")]
    transactions = [row for row in pending if row.get("transactional_id")]
    parts = [row for row in pending if row.get("path")]
    if transactions:
        yield _transactions(operator, transactions, outside)
    if parts:
        yield from _part_files(operator, parts, outside)
    others = len(pending) - len(transactions) - len(parts)
    if others:
        message = f"{others} committables wait for their commit, in a format that is not known here."
        yield Finding(Severity.TELLS, operator, message, known_by=_BY_COMMITTABLES)


def _transactions(operator: str, rows: list[Mapping[str, Any]], outside: Outside) -> Finding:
    named = ", ".join(str(row["transactional_id"]) for row in rows[:MOST_NAMED])
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    message = f"{len(rows)} transactions wait for their commit: {named}{more}."
    timeout, age = outside.transaction_timeout_ms, outside.age_ms
    if timeout is None or age is None:
        message += " A restore commits them, unless the broker has aborted them after transaction.timeout.ms."
        fix = "Give the age of the checkpoint and the timeout (age_ms=, transaction_timeout_ms=)."
        return Finding(Severity.TELLS, operator, message, fix, known_by=_BY_COMMITTABLES)
    known_by = f"{_BY_COMMITTABLES}, its age and the timeout given"
    if age >= timeout:
        message += (
            f" They are {duration(age)} old, and the broker aborts them after {duration(timeout)}: their rows are gone."
        )
        fix = "Restore a newer checkpoint. A timeout longer than any outage prevents it."
        return Finding(Severity.WARNS, operator, message, fix, Effect.LOST, known_by)
    message += f" A restore within {duration(timeout - age)} commits them."
    return Finding(Severity.TELLS, operator, message, "", Effect.EXACTLY_ONCE, known_by)


def _part_files(operator: str, rows: list[Mapping[str, Any]], outside: Outside) -> Iterator[Finding]:
    size = size_text(sum(row.get("file_bytes") or 0 for row in rows))
    message = (
        f"{len(rows)} part files, {size}, wait for their commit. A restore publishes those that are not published yet."
    )
    exists = outside.exists
    if exists is None:
        yield Finding(Severity.TELLS, operator, message, known_by=_BY_COMMITTABLES)
        return
    gone = [
        row for row in rows if not exists(row.get("target") or row["path"]) and not exists(row.get("temporary") or "")
    ]
    known_by = f"{_BY_COMMITTABLES}, and the files that are there"
    if not gone:
        yield Finding(Severity.TELLS, operator, message, "", Effect.EXACTLY_ONCE, known_by)
        return
    for row in gone[:MOST_NAMED]:
        missing = f"The part file {row['path']} is neither published nor there to be published."
        fix = "Restore a newer checkpoint; files of a sink must live as long as the checkpoints that refer to them."
        yield Finding(Severity.WARNS, operator, missing, fix, Effect.LOST, known_by)
