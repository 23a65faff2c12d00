"""Checkpoint options: alignment, its timeout, and their effect on an output that must stay aligned."""

from __future__ import annotations

import json
import random

import pytest

from kit.core.protocol.elements import CheckpointBarrier
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.core.protocol.options import NO_ALIGNED_CHECKPOINT_TIMEOUT_MS, AlignmentType, CheckpointOptions
from kit.core.protocol.properties import (
    CHECKPOINT,
    FULL_CHECKPOINT,
    CheckpointProperties,
    RetentionPolicy,
    SavepointFormatType,
    SavepointType,
)
from kit.hosts.spark.wire.codec import decode, decode_element, encode, encode_element

CANONICAL = SavepointFormatType.CANONICAL
SAVEPOINT = SavepointType.savepoint(CANONICAL)
TIMED = CheckpointOptions(CHECKPOINT, "chk-1", AlignmentType.ALIGNED, 10)
UNALIGNED = CheckpointOptions(CHECKPOINT, "chk-1", AlignmentType.UNALIGNED)


def sent(options: CheckpointOptions) -> CheckpointOptions:
    """Return the options as they arrive, with the trigger at a source and with the barrier at the next task."""
    trigger = TriggerTaskCheckpoint(task="rows/0", attempt=1, checkpoint_id=1, timestamp_ms=2, options=options)
    blobs: list[bytes] = []
    triggered = decode(json.loads(json.dumps(encode(trigger, blobs))), blobs)
    assert (triggered, blobs) == (trigger, [])
    barrier, cause = decode_element(encode_element(CheckpointBarrier(1, 2, triggered.options), "rows/0@1#3.1"))
    assert cause == "rows/0@1#3.1"
    assert isinstance(barrier, CheckpointBarrier)
    return barrier.options


@pytest.mark.flink("CheckpointOptionsTest.testDefaultCheckpoint")
def test_by_default_it_is_an_aligned_checkpoint_at_no_place_of_its_own() -> None:
    options = CheckpointOptions()
    assert (options.snapshot_type, options.location, options.alignment) == (CHECKPOINT, "", AlignmentType.ALIGNED)
    assert sent(options) == options


@pytest.mark.flink("CheckpointOptionsTest.testSavepoint")
@pytest.mark.parametrize(
    "kind",
    [CHECKPOINT, FULL_CHECKPOINT, SAVEPOINT, SavepointType.suspend(CANONICAL), SavepointType.terminate(CANONICAL)],
    ids=lambda kind: kind.name,
)
def test_kind_and_place_are_kept(kind: SavepointType) -> None:
    place = "".join(random.Random(7).choices("abc/äß日", k=20))
    arrived = sent(CheckpointOptions(kind, place))
    assert (arrived.snapshot_type, arrived.location) == (kind, place)


@pytest.mark.flink("CheckpointOptionsTest.testSavepointNeedsAlignment")
def test_a_savepoint_is_never_unaligned() -> None:
    with pytest.raises(ValueError, match="savepoints hold no in-flight data"):
        CheckpointOptions(SAVEPOINT, "", AlignmentType.UNALIGNED)


@pytest.mark.flink("CheckpointOptionsTest.testCheckpointNeedsAlignment")
def test_what_waits_for_all_barriers() -> None:
    waits = {kind: CheckpointOptions(CHECKPOINT, "", kind).needs_alignment for kind in AlignmentType}
    assert waits == {
        AlignmentType.UNALIGNED: False,
        AlignmentType.ALIGNED: True,
        AlignmentType.FORCED_ALIGNED: True,
        AlignmentType.AT_LEAST_ONCE: False,
    }


@pytest.mark.flink("CheckpointOptionsTest.testCheckpointIsTimeoutable")
@pytest.mark.parametrize(
    ("options", "is_unaligned", "is_timeoutable", "timeout_ms"),
    [
        (TIMED, False, True, 10),
        (UNALIGNED, True, False, NO_ALIGNED_CHECKPOINT_TIMEOUT_MS),
        (TIMED.with_unaligned_unsupported(), False, False, 10),
        (UNALIGNED.with_unaligned_unsupported(), False, False, NO_ALIGNED_CHECKPOINT_TIMEOUT_MS),
    ],
    ids=["timed", "unaligned", "timed, forced", "unaligned, forced"],
)
def test_what_may_turn_unaligned_later(
    options: CheckpointOptions, is_unaligned: bool, is_timeoutable: bool, timeout_ms: int
) -> None:
    assert options.is_exactly_once
    assert options.needs_alignment is not is_unaligned
    assert options.is_unaligned is is_unaligned
    assert options.is_timeoutable is is_timeoutable
    assert options.aligned_timeout_ms == timeout_ms


@pytest.mark.flink("CheckpointOptionsTest.testForceAlignmentIsReversable")
@pytest.mark.parametrize(
    ("options", "is_changed"),
    [
        (TIMED, True),
        (UNALIGNED, True),
        (CheckpointOptions(CHECKPOINT, "chk-1"), False),
        (CheckpointOptions(SAVEPOINT, "sp"), False),
        (CheckpointOptions(CHECKPOINT, "chk-1", AlignmentType.AT_LEAST_ONCE), False),
        (CheckpointOptions(SAVEPOINT, "sp", AlignmentType.AT_LEAST_ONCE), False),
    ],
    ids=["timed", "unaligned", "aligned", "savepoint", "at least once", "savepoint at least once"],
)
def test_forced_alignment_can_be_undone(options: CheckpointOptions, is_changed: bool) -> None:
    assert options.with_unaligned_supported() == options
    forced = options.with_unaligned_unsupported()
    assert (forced != options) is is_changed
    assert forced.with_unaligned_supported() == options


# --- what becomes of it -----------------------------------------------------------------------------------------------


def flags(properties: CheckpointProperties) -> list[bool]:
    """Forced; discarded when subsumed, and when the job finished, was cancelled, failed, was suspended."""
    return [
        properties.forced,
        properties.discard_subsumed,
        properties.discard_finished,
        properties.discard_cancelled,
        properties.discard_failed,
        properties.discard_suspended,
    ]


@pytest.mark.flink("CheckpointPropertiesTest.testCheckpointProperties")
def test_a_retained_checkpoint_outlives_only_the_ends_it_is_retained_for() -> None:
    on_failure = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_FAILURE)
    on_cancellation = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION)
    assert flags(on_failure) == [False, True, True, True, False, True]
    assert flags(on_cancellation) == [False, True, True, False, False, False]


@pytest.mark.flink("CheckpointPropertiesTest.testSavepointProperties")
def test_a_savepoint_is_never_discarded() -> None:
    assert flags(CheckpointProperties.for_savepoint(forced=True)) == [True, False, False, False, False, False]
