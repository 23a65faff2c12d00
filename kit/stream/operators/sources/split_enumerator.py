"""Who reads what: the splits of a source that no reader has been given yet.

Readers ask when they need a split; the coordinator answers with one, or with "no more". Split `i` is meant for reader
`i mod parallelism`. A reader with none of its own left takes one meant for another, but only a split that comes after
all it has had: every reader goes through its splits in ascending order, so where splits follow event time, no
reader's watermark ever runs ahead of what it has still to read.

The splits given out belong to the readers' state, the rest to the coordinator's, so a checkpoint holds each exactly
once. After a restore a reader may hold splits that it was given before; it says which is the first, and is given
those of its own that come before.

A reader that reads its splits side by side asks with `"own": true` until it has all those meant for it, and takes no
other: one that it has not read from the start might lie behind its watermark. It says how many it holds (`"held"`).

Payloads (JSON): `{"kind": "request_split", "after": index of the last split read or -1, "before": index of the first
split held or None}` to the coordinator; `{"kind": "assign_split", "split": {...}}` and `{"kind": "no_more_splits"}`
back. A split carries its place in the enumeration as `"index"`, and `"backlog": true` if it is part of what had piled
up before the job began; so does the request of a reader that still holds such a split.

Follows Flink's `StaticFileSplitEnumerator`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

Split = dict[str, Any]
Payload = dict[str, Any]

REQUEST_SPLIT = "request_split"
ASSIGN_SPLIT = "assign_split"
NO_MORE_SPLITS = "no_more_splits"

BACKLOG = "backlog"
OWN, HELD = "own", "held"

_STATE_VERSION = 1


class SplitEnumerator:
    """The splits of the source `operator_id` that wait for one of its `parallelism` readers. Pure: payloads in,
    payloads out.
    """

    def __init__(self, operator_id: str, parallelism: int, backlog_splits: int = 0) -> None:
        self.operator_id = operator_id
        self.parallelism = parallelism
        self._backlog_splits = backlog_splits
        self._remaining: dict[int, Split] = {}
        self._backlog: set[int] = set()
        """The splits of the backlog that no reader has been given yet, by index."""
        self._behind: set[int] = set()
        """The readers that hold a split of the backlog."""

    @property
    def is_processing_backlog(self) -> bool:
        """Whether there is a split of the backlog that has not been read to its end, as far as readers have said."""
        return bool(self._backlog or self._behind)

    @property
    def remaining(self) -> list[Split]:
        """The splits not yet given out, in order."""
        return [self._remaining[index] for index in sorted(self._remaining)]

    def start(self, splits: Sequence[Split]) -> None:
        """Begin with all splits; raises ValueError unless their ids are there and differ."""
        ids = [split.get("id") for split in splits]
        if None in ids or len(set(ids)) < len(ids):
            raise ValueError(f"source {self.operator_id}: every split needs an 'id' of its own, found {ids[:20]}")
        old = {BACKLOG: True}
        self._set_remaining(
            {**split, **(old if index < self._backlog_splits else {}), "index": index}
            for index, split in enumerate(splits)
        )

    def _set_remaining(self, splits: Iterable[Split]) -> None:
        self._remaining = {split["index"]: split for split in splits}
        self._backlog = {index for index, split in self._remaining.items() if split.get(BACKLOG)}

    def handle_event(self, subtask: int, payload: Payload) -> list[tuple[int, Payload]]:
        """Answer a reader: (subtask, payload) pairs to send. Raises ValueError for a payload it does not know."""
        if payload.get("kind") != REQUEST_SPLIT:
            raise ValueError(f"source {self.operator_id}: reader {subtask} sent {payload}, expected {REQUEST_SPLIT!r}")
        if payload.get(OWN):
            index = min((index for index in self._remaining if index % self.parallelism == subtask), default=None)
        else:
            index = self._choose(subtask, payload.get("after", -1), payload.get("before"))
        (self._behind.add if payload.get(BACKLOG) or index in self._backlog else self._behind.discard)(subtask)
        if index is None:
            return [(subtask, {"kind": NO_MORE_SPLITS})]
        self._backlog.discard(index)
        return [(subtask, {"kind": ASSIGN_SPLIT, "split": self._remaining.pop(index)})]

    def _choose(self, subtask: int, after: int, before: int | None) -> int | None:
        own = [index for index in self._remaining if index % self.parallelism == subtask]
        if before is not None:
            return min((index for index in own if index < before), default=None)
        return min(own or (index for index in self._remaining if index > after), default=None)

    def checkpoint(self) -> bytes:
        """The splits not yet given out, as canonical JSON."""
        state = {"version": _STATE_VERSION, "remaining": self.remaining}
        return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()

    def restore(self, data: bytes | None, splits: Sequence[Split]) -> None:
        """Go on from a checkpoint's state; from `splits`, all there are, where there is none."""
        if data is None:
            self.start(splits)
            return
        state = json.loads(data)
        if state.get("version") != _STATE_VERSION:
            raise ValueError(
                f"source {self.operator_id}: the coordinator's state has version {state.get('version')}, "
                f"expected {_STATE_VERSION}"
            )
        self._set_remaining(state["remaining"])

    def __repr__(self) -> str:
        return f"SplitEnumerator({self.operator_id}, {len(self._remaining)} splits left)"
