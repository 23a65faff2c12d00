"""Words on the sockets: there and back, and nothing else gets through."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol import elements, messages
from kit.core.protocol.commands import StartEpoch
from kit.core.protocol.messages import JobMessage, TaskMessage
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.properties import FULL_CHECKPOINT, SavepointFormatType, SavepointType
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import Envelope
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.restored_state import RestoredSubtaskState
from kit.core.trace.trace import TraceRecord
from kit.hosts.spark.wire.codec import (
    REGISTERED,
    CodecError,
    decode,
    decode_element,
    encode,
    encode_element,
    pack_words,
    unpack_words,
)
from kit.hosts.spark.wire.wire import HEADER, ControlMessage

HANDLE = KeyGroupsStateHandle(KeyGroupRange(0, 1), (0, 3), ByteStreamStateHandle("state", b"abcdef"), "state")
SNAPSHOT = TaskStateSnapshot({"0" * 31 + "1": OperatorSubtaskState(managed_keyed_state=(HANDLE,))})
SAVEPOINT = SavepointType.terminate(SavepointFormatType.CANONICAL)
TASK = {"task": "totals/1", "attempt": 3}

TO_TASKS = [
    messages.DeployTask(**TASK, restore=None),
    messages.DeployTask(**TASK, restore=TaskRestore(5, SNAPSHOT)),
    messages.TriggerTaskCheckpoint(
        **TASK, checkpoint_id=1, timestamp_ms=2, options=CheckpointOptions(SAVEPOINT, "/savepoints/1")
    ),
    messages.NotifyCheckpointComplete(**TASK, checkpoint_id=1, timestamp_ms=2),
    messages.NotifyCheckpointAborted(**TASK, checkpoint_id=1, timestamp_ms=2),
    messages.OperatorEventToTask(**TASK, operator_id="a", payload={"kind": "split", "split": {"id": "x", "n": [1]}}),
    messages.CancelTask(**TASK),
]
TO_JOB = [
    messages.TaskStateChanged(**TASK, state=ExecutionState.FAILED, error="no", traceback="line\nline"),
    messages.TaskStateChanged(
        **TASK,
        state=ExecutionState.RUNNING,
        initialization=messages.InitializationMetrics(deployed_at_ms=4, duration_ms=5, restored_bytes=6),
    ),
    messages.AcknowledgeCheckpoint(**TASK, job_id="j", checkpoint_id=1, state=SNAPSHOT),
    messages.DeclineCheckpoint(
        **TASK, job_id="j", checkpoint_id=1, reason=CheckpointFailureReason.CHECKPOINT_SUBSUMED, detail="d"
    ),
    messages.ReportCheckpointMetrics(
        **TASK, job_id="j", checkpoint_id=1, metrics=messages.CheckpointMetrics(alignment_ms=4)
    ),
    messages.OperatorEventToCoordinator(**TASK, operator_id="a", payload={"kind": "request", "before": None}),
]
ELEMENTS = [
    elements.CheckpointBarrier(1, 2, CheckpointOptions(FULL_CHECKPOINT, "/chk-1")),
    elements.CancelCheckpointMarker(1),
    elements.Watermark(elements.MAX_WATERMARK_MS),
    elements.WatermarkStatus(True),
    elements.EndOfData(drain=False),
    elements.EndOfPartition(),
    elements.RecordFragment(b"\n\0 any bytes\n\xff", last=False),
    elements.RecordFragment(b"", last=True),
]


def over_the_wire(message: ControlMessage) -> ControlMessage:
    """Return the message as the peer unpacks it."""
    return ControlMessage.unpack(b"".join(bytes(part) for part in message.pack())[HEADER.size :])


def there_and_back(value: Any) -> Any:
    blobs: list[bytes] = []
    return decode(json.loads(json.dumps(encode(value, blobs), allow_nan=False)), blobs)


@pytest.mark.parametrize(("words", "base"), [(TO_TASKS, TaskMessage), (TO_JOB, JobMessage)], ids=["to tasks", "to job"])
def test_every_message_comes_back_equal(words: list[Any], base: type) -> None:
    sent = [Envelope(word, f"job#7.{number}") for number, word in enumerate(words, 1)]
    assert unpack_words(over_the_wire(pack_words("said", sent)), base) == (sent, [])


def test_gates_behind_rescaled_senders_come_back() -> None:
    for gates in (frozenset[int](), frozenset({0, 2})):
        state = RestoredSubtaskState(gates_behind_rescaled=gates)
        restore = TaskRestore(3, TaskStateSnapshot({"0" * 31 + "1": state}))
        assert decode(encode(restore, blobs := []), blobs) == restore


def test_the_messages_tried_are_all_there_are() -> None:
    tried = {type(word) for word in TO_TASKS + TO_JOB}
    said = {
        klass for klass in vars(messages).values() if isinstance(klass, type) and klass.__module__ == messages.__name__
    }
    assert tried == {klass for klass in said if issubclass(klass, TaskMessage | JobMessage)} - {TaskMessage, JobMessage}


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
def test_every_element_comes_back_equal(element: Any) -> None:
    assert decode_element(encode_element(element, "rows/0@1#7.2")) == (element, "rows/0@1#7.2")


def test_records_travel_with_words() -> None:
    data = {"a": [1, None, {"b": 0.5}], "delay": math.inf}
    record = TraceRecord("job#1.2", "job#1", 17, "job", "command", "Note", 3, data)
    words, records = unpack_words(over_the_wire(pack_words("said", [Envelope(TO_JOB[0])], [record])), JobMessage)
    assert words == [Envelope(TO_JOB[0])]
    assert records == [record]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$"), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_json_comes_back_equal(value: Any) -> None:
    assert there_and_back(value) == value


def test_not_a_number_comes_back() -> None:
    assert math.isnan(there_and_back(math.nan))


def test_every_registered_class_is_plain_data() -> None:
    assert all(issubclass(klass, Enum) or dataclasses.is_dataclass(klass) for klass in REGISTERED.values())


@pytest.mark.parametrize(
    "value",
    [StartEpoch(epoch=1, parallelism={}, max_parallelism={}), {1: 2}, {1, 2}, object(), print],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_registered_is_not_sent(value: Any) -> None:
    with pytest.raises(CodecError, match="may not cross a socket"):
        encode(value, [])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"$": "StartEpoch", "epoch": 1}, "'StartEpoch' is not registered"),
        ({"$": "builtins.eval"}, "is not registered"),
        ({"$": ["a"]}, "unhashable"),
        ({"$": "EndOfData", "drain": True, "more": 1}, "EndOfData has no field more"),
        ({"$": "EndOfData"}, "missing 1 required"),
        ({"$": "ExecutionState", "name": "ASLEEP"}, "ASLEEP"),
        ({"$": "bytes", "blob": 7}, "list index out of range"),
        ({"$": "TaskStateSnapshot", "blob": 0}, "TaskStateSnapshot"),
        ({"$": "number", "text": "one"}, "could not convert"),
    ],
)
def test_what_is_not_ours_is_refused(data: Any, why: str) -> None:
    with pytest.raises(CodecError, match=why):
        decode(data, [b"no snapshot"])


def test_a_message_for_the_other_side_is_refused() -> None:
    with pytest.raises(CodecError, match="a DeployTask where a JobMessage is expected"):
        unpack_words(pack_words("said", [Envelope(TO_TASKS[0])]), JobMessage)


@pytest.mark.parametrize("words", [["CancelTask"], [[{"$": "CancelTask"}]], [[{"$": "CancelTask"}, 7]]])
def test_a_word_without_its_envelope_is_refused(words: list[Any]) -> None:
    with pytest.raises(CodecError, match="expected a TaskMessage and the id of what led to it"):
        unpack_words(ControlMessage("said", {"words": words}), TaskMessage)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"7", b'["a", "b"]', b'["a", "b", "c"]', b'[{"$": "ExecutionState", "name": "RUNNING"}, ""]']
)
def test_bytes_that_are_no_element_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_element(data)
