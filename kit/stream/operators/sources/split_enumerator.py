"""The assignment of a source's splits to readers.

Readers request splits when they need one; the coordinator answers with a split, or with "no more". Split `i` is meant
for reader `i mod parallelism`. A reader without own splits left takes one meant for another reader, but only a split
after all that it has had. Thus every reader goes through its splits in ascending order. If splits follow event time, no
reader's watermark is ever ahead of the rows that it has still to read.

Assigned splits are in the readers' state, and the rest is in the coordinator's. So a checkpoint contains each split
exactly once. After a restore, a reader may hold splits from before. It reports the first of them, and is assigned those
of its own splits that come earlier.

A reader that reads its splits side by side requests them with `"own": true` until it has all those meant for it. It
takes no others, because the rows of a split that joins later might be behind its watermark. It reports the number of
splits that it holds (`"held"`).

Payloads (JSON): `{"kind": "request_split", "after": index of the last split read or -1, "before": index of the first
split held or None}` to the coordinator; `{"kind": "assign_split", "split": {...}}` and `{"kind": "no_more_splits"}`
back. A split has its place in the enumeration as `"index"`, and `"backlog": true` if it belongs to the backlog
from before the start of the job; so does the request of a reader that still holds such a split.

If splits are *discovered* while the job runs, the coordinator never answers "no more". A reader receives `{"kind":
"no_splits_now"}` and waits; it is assigned a split as soon as one is discovered. A split that no longer exists is
removed with `{"kind": "remove_splits", "ids": [...]}`, which goes to all readers. The ids of all splits ever discovered
are in the checkpoint, so none is read twice.

Follows Flink's `StaticFileSplitEnumerator` and `ContinuousFileSplitEnumerator`.
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
NO_SPLITS_NOW = "no_splits_now"
REMOVE_SPLITS = "remove_splits"

BACKLOG = "backlog"
OWN, HELD = "own", "held"

_STATE_VERSION = 1


class SplitEnumerator:
    """The splits of the source `operator_id` that wait for one of its `parallelism` readers.

    It is pure: payloads in, payloads out. With `discovers`, splits are added while the job runs.
    """

    def __init__(self, operator_id: str, parallelism: int, backlog_splits: int = 0, *, discovers: bool = False) -> None:
        self.operator_id = operator_id
        self.parallelism = parallelism
        self._backlog_splits = backlog_splits
        self._discovers = discovers
        self._known: dict[str, None] = {}
        """The ids of all splits so far, where splits are discovered."""
        self._next_index = 0
        self._waiting: dict[int, Payload] = {}
        """What the readers asked that wait for a split to be discovered."""
        self._remaining: dict[int, Split] = {}
        self._backlog: set[int] = set()
        """The splits of the backlog that no reader has been given yet, by index."""
        self._taken_back: dict[int, int] = {}
        """The reader that each split was taken back from, by index: others take it only in ascending order."""
        self._behind: set[int] = set()
        """The readers that hold a split of the backlog."""

    @property
    def is_processing_backlog(self) -> bool:
        """True if a split of the backlog has not been read to its end, according to the readers."""
        return bool(self._backlog or self._behind)

    @property
    def remaining(self) -> list[Split]:
        """The splits that are not assigned yet, in order."""
        return [self._remaining[index] for index in sorted(self._remaining)]

    def start(self, splits: Sequence[Split]) -> None:
        """Start with all splits. Raises ValueError unless each has a unique id."""
        ids = self._ids_of(splits)
        if self._discovers:
            self._known, self._next_index = dict.fromkeys(ids), len(ids)
        old = {BACKLOG: True}
        self._set_remaining(
            {**split, **(old if index < self._backlog_splits else {}), "index": index}
            for index, split in enumerate(splits)
        )

    def _ids_of(self, splits: Sequence[Split]) -> list[str]:
        ids = [split.get("id") for split in splits]
        if None in ids or len(set(ids)) < len(ids):
            raise ValueError(f"source {self.operator_id}: every split needs an 'id' of its own, found {ids[:20]}")
        return ids  # type: ignore[return-value]

    def _set_remaining(self, splits: Iterable[Split]) -> None:
        self._remaining = {split["index"]: split for split in splits}
        self._backlog = {index for index, split in self._remaining.items() if split.get(BACKLOG)}

    def handle_event(self, subtask: int, payload: Payload) -> list[tuple[int, Payload]]:
        """Return the answers to a reader as (subtask, payload) pairs. Raises ValueError for an unknown payload."""
        if payload.get("kind") != REQUEST_SPLIT:
            raise ValueError(f"source {self.operator_id}: reader {subtask} sent {payload}, expected {REQUEST_SPLIT!r}")
        index = self._choose(subtask, payload)
        (self._behind.add if payload.get(BACKLOG) or index in self._backlog else self._behind.discard)(subtask)
        if index is not None:
            return [(subtask, self._assign(index))]
        if not self._discovers:
            return [(subtask, {"kind": NO_MORE_SPLITS})]
        self._waiting[subtask] = payload
        return [(subtask, {"kind": NO_SPLITS_NOW})]

    def _assign(self, index: int) -> Payload:
        self._backlog.discard(index)
        self._taken_back.pop(index, None)
        return {"kind": ASSIGN_SPLIT, "split": self._remaining.pop(index)}

    def _choose(self, subtask: int, request: Payload) -> int | None:
        before, after = request.get("before"), request.get("after", -1)
        own = [
            index
            for index in self._remaining
            if index % self.parallelism == subtask
            and (index > after or self._taken_back.get(index, subtask) == subtask)
        ]
        if before is not None:
            return min((index for index in own if index < before), default=None)
        if request.get(OWN):
            return min(own, default=None)
        return min(own or (index for index in self._remaining if index > after), default=None)

    def discovered(self, splits: Sequence[Split], *, removes: bool = False) -> list[tuple[int, Payload]]:
        """Add the new splits; return the payloads to send. With `removes`, splits that are not listed are removed.

        Raises ValueError unless each has a unique id.
        """
        listed = set(self._ids_of(splits))
        gone = [known for known in self._known if known not in listed] if removes else []
        for known in gone:
            del self._known[known]
        for index in [index for index, split in self._remaining.items() if split["id"] not in self._known]:
            del self._remaining[index]
        said = [(reader, {"kind": REMOVE_SPLITS, "ids": gone}) for reader in range(self.parallelism) if gone]
        for split in splits:
            if split["id"] not in self._known:
                self._known[split["id"]] = None
                self._remaining[self._next_index] = {**split, "index": self._next_index}
                self._next_index += 1
        return said + self._serve_waiting()

    def _serve_waiting(self) -> list[tuple[int, Payload]]:
        """Assign each waiting reader one split; readers for which some are meant come first."""
        said = []
        for only_own in (True, False):
            for reader, request in sorted(self._waiting.items()):
                index = self._choose(reader, {**request, OWN: only_own or request.get(OWN)})
                if index is not None:
                    del self._waiting[reader]
                    said.append((reader, self._assign(index)))
        return said

    def add_splits_back(self, splits: Sequence[Split], subtask: int) -> list[tuple[int, Payload]]:
        """Take back splits from a reader; return the payloads for readers that wait for some (`addSplitsBack`).

        Splits that no longer exist stay away. The reader counts as being in the backlog until it says otherwise.
        """
        if self._backlog_splits:
            self._behind.add(subtask)
        for split in splits:
            if not self._discovers or split["id"] in self._known:
                self._remaining[split["index"]] = split
                self._taken_back[split["index"]] = subtask
                if split.get(BACKLOG):
                    self._backlog.add(split["index"])
        return self._serve_waiting()

    def reader_left(self, subtask: int) -> None:
        """Remove a reader from those that wait."""
        self._waiting.pop(subtask, None)

    def checkpoint(self) -> bytes:
        """Return the unassigned splits as canonical JSON; with discovery, also the known ids."""
        state: dict[str, Any] = {"version": _STATE_VERSION, "remaining": self.remaining}
        if self._discovers:
            state |= {"known": list(self._known), "next_index": self._next_index}
        return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()

    def restore(self, data: bytes | None, splits: Sequence[Split]) -> None:
        """Resume from a checkpoint's state, or start from `splits`, all splits, if there is none."""
        if data is None:
            self.start(splits)
            return
        state = json.loads(data)
        if state.get("version") != _STATE_VERSION:
            raise ValueError(
                f"source {self.operator_id}: the coordinator's state has version {state.get('version')}, "
                f"expected {_STATE_VERSION}"
            )
        if self._discovers and "known" not in state:
            raise ValueError(
                f"source {self.operator_id} discovers splits, but the checkpoint is of one that did not, and does not "
                "say which splits have been read: restore it without discovery, or give the source another uid"
            )
        if self._discovers:
            self._known, self._next_index = dict.fromkeys(state["known"]), state["next_index"]
        self._set_remaining(state["remaining"])

    def __repr__(self) -> str:
        return f"SplitEnumerator({self.operator_id}, {len(self._remaining)} splits left)"
