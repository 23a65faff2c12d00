"""The trace: what is kept, how it is asked, how causes are followed."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kit.core.protocol.commands import SendElement, WriteSnapshot
from kit.core.protocol.elements import Buffer, CheckpointBarrier
from kit.core.protocol.events import ElementReceived, ProcessInput, StateRead, TimerFired
from kit.core.protocol.loggable import loggable
from kit.core.protocol.notes import Note
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.snapshots import RestoredPart, SnapshotPart
from kit.core.protocol.words import Machine, ProtocolMessage, handles
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.core.trace.trace import Trace, TraceRecord

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
BARRIER = CheckpointBarrier(4, 0, CheckpointOptions())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Note):
    """A note for tests."""

    x: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned(Note):
    """A note that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOf(Note):
    """A note about a checkpoint, with a field that may be left out, and one whose name is a keyword."""

    checkpoint_id: int
    x: Sequence[int | None]
    split: str = ""
    from_: int = 0


class Relay(Machine):
    """Gives what it is told to give."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.to_give: list[ProtocolMessage] = []
        self.known_cause = ""

    @handles(TimerFired, ProcessInput, ElementReceived, StateRead)
    def _any(self, event: ProtocolMessage) -> None:
        self.cause = self.known_cause or self.cause
        for word in self.to_give:
            self.emit(word)


def told(
    trace: Trace, machine: Relay, event: ProtocolMessage, *given: ProtocolMessage, at: int = 0, cause: str = ""
) -> list[TraceRecord]:
    machine.to_give = list(given)
    before = len(trace)
    trace.record(machine, event, machine.handle(event, at, cause))
    return list(trace.since(before))


def test_an_event_and_its_commands_are_records_with_ids() -> None:
    trace, relay = Trace(), Relay("a")
    records = told(trace, relay, TimerFired(timer="t"), Seen(x=1), at=9, cause="b#3.1")
    assert [(r.id, r.cause, r.role, r.kind, r.at_ms) for r in records] == [
        ("a#1", "b#3.1", "event", "TimerFired", 9),
        ("a#1.1", "a#1", "command", "Seen", 9),
    ]
    assert records[0].data == {"timer": "t"}
    assert records[1].data == {"x": 1}


@pytest.mark.parametrize("detailed", [False, True])
def test_what_a_command_led_to_is_followed_back_whether_the_command_is_kept_or_not(detailed: bool) -> None:
    trace, relay = Trace(detailed=detailed), Relay("a")
    told(trace, relay, TimerFired(timer="t"), SendElement(channel=1, element=Buffer(BATCH)))
    told(trace, Relay("b"), TimerFired(timer="u"), cause="a#1.1")
    kinds = [record.kind for record in trace.causes("b#1")]
    assert kinds == ["TimerFired", *(["SendElement"] if detailed else []), "TimerFired"]


@pytest.mark.parametrize("detailed", [False, True])
def test_recording_only_observes(detailed: bool) -> None:
    word, given = TimerFired(timer="t"), (SendElement(channel=1, element=Buffer(BATCH)), Seen(x=1))
    before = [repr(each) for each in (word, *given)]
    relay = Relay("a")
    told(Trace(detailed=detailed), relay, word, *given, cause="b#3.1")
    assert [repr(each) for each in (word, *given)] == before
    assert (relay.event_id, relay.cause, relay.events_handled) == ("a#1", "b#3.1", 1)


@pytest.mark.parametrize("detailed", [False, True])
def test_buffers_are_kept_only_in_detail_and_barriers_always(detailed: bool) -> None:
    trace, relay = Trace(detailed=detailed), Relay("a")
    told(trace, relay, ElementReceived(channel=1, element=Buffer(BATCH)))
    told(trace, relay, ElementReceived(channel=1, element=BARRIER))
    kept = [record.data["element"]["type"] for record in trace]
    assert kept == (["Buffer", "CheckpointBarrier"] if detailed else ["CheckpointBarrier"])
    assert trace[-1].checkpoint_id == 4


@pytest.mark.parametrize("detailed", [False, True])
def test_causes_lead_through_turns_whether_they_are_kept_or_not(detailed: bool) -> None:
    trace, relay = Trace(detailed=detailed), Relay("a")
    told(trace, relay, ElementReceived(channel=1, element=BARRIER), cause="far")
    relay.known_cause = "a#1"
    told(trace, relay, ProcessInput(), Aligned())
    kinds = [record.kind for record in trace.causes(trace[-1])]
    turn = ["ProcessInput"] if detailed else []
    assert kinds == ["Aligned", *turn, "ElementReceived"]


def record(number: int, cause: str = "", **facts: Any) -> TraceRecord:
    facts = {"machine": "m", "kind": "K", "checkpoint_id": None} | facts
    return TraceRecord(
        f"r{number}", cause, number, facts["machine"], "event", facts["kind"], facts["checkpoint_id"], {}
    )


def test_stories_are_told_by_checkpoint_machine_and_kind() -> None:
    trace = Trace([record(0, checkpoint_id=1), record(1, machine="n", checkpoint_id=1), record(2, kind="L")])
    assert [r.id for r in trace.story(checkpoint=1)] == ["r0", "r1"]
    assert [r.id for r in trace.story(checkpoint=1, machine="n")] == ["r1"]
    assert [r.id for r in trace.story(kind="L")] == ["r2"]
    assert [r.id for r in trace.story(kind=("L", "M"))] == ["r2"]
    assert [r.id for r in trace.story(kind=("L", "K"), machine="m")] == ["r0", "r2"]
    assert [r.id for r in trace[1:]] == ["r1", "r2"]
    assert trace[0].id == "r0"


def test_a_chain_of_causes_ends_where_nothing_is_known_or_in_a_circle() -> None:
    trace = Trace([record(0, "gone"), record(1, "r0"), record(2, "r3"), record(3, "r2")])
    assert [r.id for r in trace.causes("r1")] == ["r1", "r0"]
    assert [r.id for r in trace.causes("r2")] == ["r2", "r3"]
    with pytest.raises(KeyError, match="no record 'r9' among the 4"):
        trace.causes("r9")


def test_records_added_later_are_found_too() -> None:
    trace = Trace([record(0)])
    assert trace.find("r1") is None
    trace.extend([record(1)])
    assert trace.find("r1") is trace[1]


def test_a_copy_goes_on_by_itself_with_the_same_records() -> None:
    trace = Trace([record(0)], detailed=True)
    other = copy.deepcopy(trace)
    other.extend([record(1)])
    assert (len(trace), len(other), other.detailed) == (1, 2, True)
    assert other[0] is trace[0]


def test_a_record_survives_json() -> None:
    trace, relay = Trace(), Relay("a")
    for each in told(trace, relay, TimerFired(timer="t"), SeenOf(checkpoint_id=3, x=(1, None))):
        assert TraceRecord.from_dict(json.loads(json.dumps(each.to_dict()))) == each


@pytest.mark.parametrize(
    ("note", "data"),
    [
        (SeenOf(checkpoint_id=3, x=[1, None]), {"x": [1, None]}),
        (SeenOf(checkpoint_id=3, x=[], split="a", from_=7), {"x": [], "split": "a", "from": 7}),
    ],
)
def test_a_record_of_a_note_has_its_fields_and_gives_it_back(note: SeenOf, data: dict[str, Any]) -> None:
    record = told(Trace(), Relay("a"), TimerFired(timer="t"), note)[1]
    assert (record.kind, record.checkpoint_id, record.data) == ("SeenOf", 3, data)
    assert record.note(SeenOf) == note


def test_a_record_of_another_version_is_read_as_far_as_it_has_what_is_needed() -> None:
    newer = TraceRecord("a#1.1", "a#1", 0, "a", "command", "SeenOf", 3, {"x": [], "more": 1})
    assert newer.note(SeenOf) == SeenOf(checkpoint_id=3, x=[])
    with pytest.raises(ValueError, match="a record of SeenOf has no 'x'; it has y"):
        TraceRecord("a#1.1", "a#1", 0, "a", "command", "SeenOf", 3, {"y": 1}).note(SeenOf)


def test_a_trace_as_a_table() -> None:
    frame = Trace([record(0, checkpoint_id=1), record(1)]).to_pandas()
    assert frame["checkpoint_id"].dtype == "Int64"
    assert frame["checkpoint_id"].isna().tolist() == [False, True]
    assert list(Trace().to_pandas().columns)[:3] == ["at_ms", "machine", "role"]
    assert "<table" in Trace([record(0)])._repr_html_()
    assert repr(Trace([record(0)])) == "Trace(1 records, 1 machines)"
    assert repr(record(3, checkpoint_id=2)) == "3 ms m K chk-2"


def test_values_are_described_not_kept() -> None:
    command = WriteSnapshot(checkpoint_id=1, location="/x", subtask=0, parts=(), effects=())
    assert loggable(command)["type"] == "WriteSnapshot"
    assert loggable(BATCH) == {"rows": 3, "bytes": 24}
    assert loggable(b"abc") == {"bytes": 3}
    assert loggable(AlignmentType.ALIGNED) == "ALIGNED"
    assert loggable({1: (2, "x")}) == {"1": [2, "x"]}
    assert loggable(np.int64(3)) == repr(np.int64(3))
    json.dumps(loggable(BARRIER))


@pytest.mark.parametrize("detailed", [False, True])
def test_what_a_word_holds_is_not_kept(detailed: bool) -> None:
    class State:
        def encode(self) -> tuple[Any, Any]:
            return b"", ()

    trace, relay, state = Trace(detailed=detailed), Relay("a"), State()
    part = SnapshotPart("op", SubtaskStateKind.MANAGED_KEYED, "op-0", state.encode)
    restored = RestoredPart("op", SubtaskStateKind.MANAGED_KEYED, None, pa.array([1, 2, 3]))
    written, data, sent = weakref.ref(state), weakref.ref(restored.data), Buffer(BATCH.slice(1))
    batch = weakref.ref(sent.batch)
    told(
        trace,
        relay,
        TimerFired(timer="t"),
        WriteSnapshot(checkpoint_id=1, parts=(part,), effects=(), location="", subtask=0),
    )
    told(trace, relay, StateRead(parts=(restored,)), SendElement(channel=1, element=sent))
    gc.disable()
    del relay, state, part, restored, sent
    assert written() is data() is batch() is None
    gc.enable()
