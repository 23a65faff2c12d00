"""Words (messages, events and commands) by number, without what only measures them.

A word is made *plain* before it gets its number. Times and measurements are removed, and what a snapshot would encode
later is encoded now, so that a word is its content and refers to no machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kit.core.protocol.commands import WriteChannelStateFile, WriteSnapshot
from kit.core.protocol.events import SnapshotWritten
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    CheckpointMetrics,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ReportCheckpointMetrics,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.snapshots import SnapshotPart
from kit.core.protocol.words import ProtocolMessage
from kit.verify.explore.digest import Digester
from kit.verify.explore.tables import Interned

NOW_MS = 1_000_000
"""The time of every event except the firing of a timer, which happens when it is due."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The encoded content of a part of a snapshot, or of a file of in-flight data."""

    data: bytes
    where: Any

    def __call__(self) -> tuple[bytes, Any]:
        """Return what the replaced function would return."""
        return self.data, self.where


def plain(word: ProtocolMessage) -> ProtocolMessage:
    """Return the same word, without what makes equal ones differ."""
    if isinstance(word, AcknowledgeCheckpoint | ReportCheckpointMetrics):
        return replace(word, metrics=CheckpointMetrics())
    if isinstance(word, TaskStateChanged):
        return replace(word, initialization=None, traceback="")
    if isinstance(word, TriggerTaskCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted):
        return replace(word, timestamp_ms=NOW_MS)
    if isinstance(word, WriteSnapshot):
        return replace(word, parts=tuple(map(_with_content, word.parts)))
    if isinstance(word, WriteChannelStateFile):
        return replace(word, encode=_encoded(word.encode))
    if isinstance(word, SnapshotWritten):
        return replace(word, sync_ms=0)
    return word


def _with_content(part: SnapshotPart) -> SnapshotPart:
    """Return the part with its content encoded, unless it is incremental and has no content of its own."""
    return part if part.encode is None else replace(part, encode=_encoded(part.encode))


def _encoded(encode: Any) -> Encoded:
    if isinstance(encode, Encoded):
        return encode
    data, where = encode()
    return Encoded(bytes(data), where)


class Words:
    """The words of one exploration by number; number 0 is none."""

    def __init__(self, digester: Digester) -> None:
        self._digester = digester
        self._numbers: Interned[bytes] = Interned()
        self._words: list[ProtocolMessage | None] = [None]
        self._numbers.number(b"")

    def number(self, word: ProtocolMessage) -> int:
        """Return the number of a word."""
        word = plain(word)
        number = self._numbers.number(self._digester.digest(word))
        if number == len(self._words):
            self._words.append(word)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._words[number]

    def __len__(self) -> int:
        return len(self._words)
