"""The findings of a check: errors of the restore, lost or repeated data, and the evidence for each.

The states of sources and sinks have fixed names, which are in the metadata. `KNOWN_STATES` says what happens to rows if
one of them is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kit.core.state.operator_state import OperatorState


class Severity(Enum):
    """The severity of a finding: the restore fails, the job loses or repeats something, or it is only a note."""

    FAILS = "fails"
    WARNS = "warns"
    TELLS = "tells"

    def __str__(self) -> str:
        return self.value


class Effect(Enum):
    """The effect on rows or state if the job is restored in spite of a finding."""

    LOST = "lost"
    REPEATED = "repeated"
    EXACTLY_ONCE = "exactly once"
    NONE = ""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """One fact about a restore: the operator, what was found, the evidence, and the remedy.

    `flink` is the message with which Flink fails, and is empty if it does not.
    """

    severity: Severity
    operator: str
    found: str
    fix: str = ""
    effect: Effect = Effect.NONE
    known_by: str = ""
    flink: str = ""

    def __repr__(self) -> str:
        return f"Finding({self.severity}, {self.operator}: {self.found})"


@dataclass(frozen=True, slots=True)
class SharedFinding:
    """A finding that is the same for several operators. `finding` is that of the first of them."""

    finding: Finding
    operators: tuple[str, ...]

    @property
    def whose(self) -> str:
        """The operators, with their number if there are several."""
        many = f"{len(self.operators)} operators: " if len(self.operators) > 1 else ""
        return many + ", ".join(self.operators)

    def __str__(self) -> str:
        return f"{self.finding.severity}: {self.whose}: {self.finding.found} {self.finding.fix}".rstrip()


def shared(findings: Iterable[Finding]) -> list[SharedFinding]:
    """Return findings in order; those that differ only in the operator and in Flink's message are merged."""
    same: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        same.setdefault((each.severity, each.found, each.effect, each.fix, each.known_by), []).append(each)
    return [SharedFinding(held[0], tuple(each.operator for each in held)) for held in same.values()]


def uid_or_name(state: OperatorState) -> str:
    """Return an operator's name in a check: its uid, else its name, else its id."""
    return state.uid or state.label


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, the most severe first, without notes on operators whose restore fails anyway."""
    found = list(findings)
    failing = {each.operator for each in found if each.severity is Severity.FAILS}
    kept = [each for each in found if each.severity is not Severity.TELLS or each.operator not in failing]
    return tuple(sorted(kept, key=lambda finding: list(Severity).index(finding.severity)))


@dataclass(frozen=True, slots=True)
class KnownState:
    """A state with a fixed name: what it holds, and the effect on rows if it is dropped."""

    holds: str
    effect: Effect
    then: str


_POSITIONS = "the source starts where its settings say, and reads again rows that were already processed"
_COMMITS = "output that was written but not committed when the checkpoint was taken never becomes visible"

KNOWN_STATES = {
    "SourceReaderState": KnownState("a source's splits and positions", Effect.REPEATED, _POSITIONS),
    "topic-partition-offset-states": KnownState("offsets of a Kafka consumer", Effect.REPEATED, _POSITIONS),
    "file-monitoring-state": KnownState("the time of the newest file that was read", Effect.REPEATED, _POSITIONS),
    "from-elements-state": KnownState("the number of elements that were emitted", Effect.REPEATED, _POSITIONS),
    "stateful-sequence-source-state": KnownState("the numbers not emitted yet", Effect.REPEATED, _POSITIONS),
    "committables": KnownState("staged output", Effect.LOST, _COMMITS),
    "streaming_committer_raw_states": KnownState("transactions waiting for a commit", Effect.LOST, _COMMITS),
    "writer_raw_states": KnownState("a sink writer's state", Effect.LOST, _COMMITS),
    "bucket-states": KnownState("part files in progress or waiting for a commit", Effect.LOST, _COMMITS),
    "_async_wait_operator_state_": KnownState("rows waiting for an answer", Effect.LOST, "these rows are lost"),
}
"""By name. The kit's sources and sinks use the names `SourceReaderState` and `committables`."""

_COORDINATOR = KnownState("the state of its coordinator", Effect.REPEATED, _POSITIONS)
_KEYED = KnownState("keyed state", Effect.LOST, "the state of each key is lost")
_IN_FLIGHT = KnownState("in-flight rows", Effect.LOST, "these rows are lost")
_OTHER = KnownState("operator state", Effect.LOST, "the operator begins without it")


def what_is_held(state: OperatorState) -> dict[str, KnownState]:
    """Return the parts of an operator's state: list states by their own names, other parts by their kinds."""
    held: dict[str, KnownState] = {}
    for part in state.subtask_states.values():
        for handle in (*part.managed_operator_state, *part.raw_operator_state):
            for name in handle.state_name_to_partition_offsets:
                held[name] = KNOWN_STATES.get(name, _OTHER)
        if part.managed_keyed_state or part.raw_keyed_state:
            held["keyed state"] = _KEYED
        if part.input_channel_state or part.result_subpartition_state:
            held["in-flight rows"] = _IN_FLIGHT
    if state.coordinator_state is not None and "SourceReaderState" not in held:
        held["coordinator state"] = _COORDINATOR
    return held
