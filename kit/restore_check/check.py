"""The check of a checkpoint against a job, without starting the job.

Flink stops at the first error, which is `RestoreCheck.error`. This check continues: it tries each operator, vertex and
exchange by itself, so one answer lists everything that must change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.tasks import task_name
from kit.core.state.handles import OperatorStateMode
from kit.core.state.key_groups import sums_by_subtask
from kit.core.state.operator_state import OperatorState
from kit.machines.restore.assignment_rows import describe_assignments
from kit.machines.restore.errors import MaxParallelismError, NonRestoredStateError, RestoreError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.restored import StateAssignment
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.topology import AssignmentVertex
from kit.machines.restore.validate import load_and_validate
from kit.restore_check.findings import Effect, Finding, Severity, in_order, uid_or_name, what_is_held
from kit.restore_check.job_shape import Job, JobShape, Parallelism, shape_of
from kit.restore_check.key_group_bytes import key_group_bytes
from kit.restore_check.restore_check import Match, MatchedOperator, RestoreCheck

SKEWED = 1.5
"""A subtask with more than this many times the mean of an operator's keyed state is reported."""
LARGE_UNION_ENTRIES = 1_000
"""A union list is reported if the copies of all subtasks have more entries than this."""


def check_restore(
    metadata: CheckpointMetadata,
    job: Job,
    parallelism: Parallelism = None,
    *,
    allow_non_restored_state: bool = False,
    recover_output_on_downstream: bool = False,
    path: str = "this checkpoint",
) -> RestoreCheck:
    """Check whether `metadata` can be restored to `job`, and what each operator and subtask would get.

    `job` is a job of the kit, the metadata of another checkpoint, or uids with their parallelism (`shape_of`);
    `parallelism` replaces the job's, for all operators or for some. With `allow_non_restored_state`, state without an
    operator is dropped, and the findings say what that costs. `recover_output_on_downstream` is Flink's setting of that
    name (2.3). `path` names the checkpoint in messages. Raises TypeError or ValueError for an invalid job or
    parallelism.

    Flink: `Checkpoints.loadAndValidateCheckpoint`, `StateAssignmentOperation.assignStates`.
    """
    shape = shape_of(job, parallelism)
    states = _assignable(metadata.operator_states, shape)
    matches = list(_matches(states, shape))
    attempt = _Attempt(
        shape, states, metadata.checkpoint_id, path, allow_non_restored_state, recover_output_on_downstream
    )
    missing = [each.state for each in matches if each.match is Match.MISSING and each.state is not None]
    dropped = missing if allow_non_restored_state else []
    findings = [
        *attempt.failures(matches),
        *(_dropped(state, matches) for state in dropped),
        *_unknown_exchanges(metadata, shape, matches),
        *(finding for match in matches for finding in _findings_of(match)),
    ]
    if attempt.error is None and not any(finding.severity is Severity.WARNS for finding in findings):
        findings.append(_NOTHING_LOST)
    return RestoreCheck(
        checkpoint_id=metadata.checkpoint_id,
        error=attempt.error,
        matches=tuple(matches),
        findings=in_order(findings),
        assignments=tuple(_assignment_rows(shape, attempt.assignment, states)),
    )


def _assignable(operator_states: Iterable[OperatorState], shape: JobShape) -> dict[str, OperatorState]:
    """Return the states by operator id.

    In-flight data cannot be assigned if the job's exchanges are unknown. It is then removed from the operators that the
    job has. The others keep it, because the restore fails for them or drops them.
    """
    states = {state.operator_id: state for state in operator_states}
    if shape.edges is not None:
        return states
    without = {
        operator_id: replace(
            states[operator_id],
            subtask_states={
                subtask: replace(part, input_channel_state=(), result_subpartition_state=())
                for subtask, part in states[operator_id].subtask_states.items()
            },
        )
        for operator_id in states.keys() & _owners(shape).keys()
    }
    return {operator_id: without.get(operator_id, state) for operator_id, state in states.items()}


def _owners(shape: JobShape) -> dict[str, tuple[AssignmentVertex, OperatorIDPair]]:
    """Return the operators of the job by each id under which they look for state."""
    return {
        operator_id: (vertex, pair)
        for vertex in shape.vertices
        for pair in vertex.operators
        for operator_id in (pair.generated_id, pair.user_defined_id)
        if operator_id is not None
    }


# --- which state belongs to which operator ----------------------------------------------------------------------------


def _matches(states: Mapping[str, OperatorState], shape: JobShape) -> Iterator[MatchedOperator]:
    owners = _owners(shape)
    taken = set()
    for operator_id, state in states.items():
        vertex, pair = owners.get(operator_id, (None, None))
        taken.add(pair)
        match = Match.MATCHED if vertex else Match.MISSING if state.has_state() else Match.EMPTY
        yield MatchedOperator(match, state, vertex, pair)
    for vertex, pair in dict.fromkeys(owners.values()):
        if pair not in taken:
            yield MatchedOperator(Match.NEW, None, vertex, pair)


# --- what fails -------------------------------------------------------------------------------------------------------


@dataclass
class _Attempt:
    """A trial of the restore, with the first error, as in Flink, or the assignment."""

    shape: JobShape
    states: Mapping[str, OperatorState]
    checkpoint_id: int
    path: str
    allowed: bool
    downstream: bool
    error: RestoreError | None = None
    assignment: StateAssignment | None = None

    def __post_init__(self) -> None:
        try:
            self.assignment = self._assign(self._load(self.states.values()))
        except RestoreError as error:
            self.error = error

    def failures(self, matches: Sequence[MatchedOperator]) -> list[Finding]:
        """Return each error once: the one with which Flink fails first, then those of each state and each vertex."""
        if self.error is None:
            return []
        found: dict[str, Finding] = {}
        loaded = set()
        for operator_id, state in self.states.items():
            with _caught() as errors:
                self._load([state])
                loaded.add(operator_id)
            found |= {str(error): _failure(error, state, matches, _label_of(state, matches)) for error in errors}
        for vertex in self.shape.vertices:
            of_vertex = [state for _, state in _states_of(vertex, self.states)]
            if any(state.operator_id not in loaded for state in of_vertex):
                continue  # reported already
            with _caught() as errors:
                self._assign({state.operator_id: state for state in of_vertex})
            found |= {str(error): _failure(error, None, matches, vertex.name) for error in errors}
        if self.error.flink_message not in {finding.flink for finding in found.values()}:
            found[str(self.error)] = _failure(self.error, None, matches, "the job")
        return list(found.values())

    def _load(self, states: Iterable[OperatorState]) -> dict[str, OperatorState]:
        return load_and_validate(self.shape.vertices, states, pointer=self.path, allow_non_restored_state=self.allowed)

    def _assign(self, states: Mapping[str, OperatorState]) -> StateAssignment:
        shape = self.shape
        return assign_states(
            shape.vertices,
            shape.edges or (),
            states,
            self.checkpoint_id,
            allow_non_restored_state=self.allowed,
            recover_output_on_downstream=self.downstream,
        )


@contextmanager
def _caught() -> Iterator[list[RestoreError]]:
    """Yield a list that receives the error, if one is raised."""
    errors: list[RestoreError] = []
    try:
        yield errors
    except RestoreError as error:
        errors.append(error)


def _failure(
    error: RestoreError, state: OperatorState | None, matches: Iterable[MatchedOperator], operator: str
) -> Finding:
    found, fix = error.advice, ""
    if state is not None and isinstance(error, NonRestoredStateError):
        found = f"{state.state_size:,} B of state have no operator in the job: {_held(state)}."
        fix = _how_to_match(state, matches)
    elif state is not None and isinstance(error, MaxParallelismError):
        asked = next((each.vertex.max_parallelism for each in matches if each.state is state and each.vertex), None)
        found = f"Its state is divided into {state.max_parallelism} key groups; the job asks for {asked}."
        fix = (
            f"Configure a maximum parallelism of {state.max_parallelism}, or none: it is then the checkpoint's. Or "
            f"write a changed savepoint: checkpoint.edit().set_max_parallelism({asked}), "
            f"kit edit ... --max-parallelism {asked}."
        )
    return Finding(
        Severity.FAILS, operator, found, fix, known_by="the state assignment", flink=error.flink_message or str(error)
    )


def _label_of(state: OperatorState, matches: Iterable[MatchedOperator]) -> str:
    """Return the label of a state's operator in the table of operators."""
    own = (each.label for each in matches if each.state is not None and each.state.operator_id == state.operator_id)
    return next(own, uid_or_name(state))


def _held(state: OperatorState) -> str:
    held = what_is_held(state)
    return ", ".join(known.holds if known.holds == name else f"{known.holds} ({name})" for name, known in held.items())


def _how_to_match(state: OperatorState, matches: Iterable[MatchedOperator]) -> str:
    """Say how to match the state, most likely with an operator of the same name that finds no state."""
    new = [match for match in matches if match.match is Match.NEW and match.pair is not None]
    alike = [match for match in new if state.name and match.pair and match.pair.name == state.name] or new
    names = [(match.pair and match.pair.name) or match.label for match in alike]
    likely = f"{names[0]!r}, which finds no state" if len(names) == 1 else "its operator"
    line = f".uid({state.uid!r})" if state.uid else f'.setUidHash("{state.operator_id}")'
    return f"Set {line} on {likely}; or drop the state with allow_non_restored_state=True."


# --- what is lost, repeated, or worth knowing -------------------------------------------------------------------------


def _dropped(state: OperatorState, matches: Iterable[MatchedOperator]) -> Finding:
    held = what_is_held(state)
    effects = {known.effect for known in held.values()}
    effect = Effect.REPEATED if effects == {Effect.REPEATED} else Effect.LOST
    then = "; ".join(dict.fromkeys(known.then for known in held.values() if known.effect is effect))
    return Finding(
        Severity.WARNS,
        _label_of(state, matches),
        f"{state.state_size:,} B of state are dropped: {_held(state)}. Then {then}.",
        _how_to_match(state, matches).partition(";")[0] + ".",
        effect,
        "the names and kinds of state in the metadata",
    )


def _unknown_exchanges(
    metadata: CheckpointMetadata, shape: JobShape, matches: Sequence[MatchedOperator]
) -> Iterator[Finding]:
    if shape.edges is not None:
        return
    parallelism = {pair.generated_id: vertex.parallelism for vertex in shape.vertices for pair in vertex.operators}
    for state in metadata.operator_states:
        held = [
            handle
            for part in state.subtask_states.values()
            for handle in (*part.input_channel_state, *part.result_subpartition_state)
        ]
        new = parallelism.get(state.operator_id)
        if held and new is not None and new != state.parallelism:
            yield Finding(
                Severity.WARNS,
                _label_of(state, matches),
                f"{sum(handle.state_size for handle in held):,} B of in-flight data would be redistributed from "
                f"{state.parallelism} to {new} subtasks; that fails on forward, rescale and broadcast exchanges, and "
                "the exchanges are not known here.",
                "Check against the job itself, or take a savepoint, which holds no in-flight data.",
                known_by="the metadata",
            )


def _findings_of(match: MatchedOperator) -> Iterator[Finding]:
    state, vertex = match.state, match.vertex
    if state is None or vertex is None:
        return
    if match.pair is not None and match.pair.name and not match.pair.uid and state.has_state():
        yield Finding(
            Severity.WARNS,
            match.label,
            "The state is found only by the operator's place in the job, which may change with the job.",
            f'Set a uid; .setUidHash("{state.operator_id}") also finds this state.',
            known_by="the job's graph",
        )
    yield from _other_default(match, state, vertex)
    if state.fully_finished:
        yield Finding(
            Severity.TELLS, match.label, "It had finished, so it will not run again.", known_by="the metadata"
        )
    yield from _union_lists(match, state, vertex.parallelism)
    yield from _skew(match, state, vertex.parallelism)


def _other_default(match: MatchedOperator, state: OperatorState, vertex: AssignmentVertex) -> Iterator[Finding]:
    """Yield a finding if the job configures no maximum parallelism and Flink's default is not the checkpoint's."""
    if vertex.max_parallelism is None and vertex.current_max_parallelism != state.max_parallelism:
        yield Finding(
            Severity.TELLS,
            match.label,
            f"It keeps the {state.max_parallelism} key groups of the checkpoint. That is correct if the job "
            f"configures no maximum parallelism; if it configures {vertex.current_max_parallelism}, Flink's default, "
            "the restore fails.",
            known_by="the metadata",
        )


def _union_lists(match: MatchedOperator, state: OperatorState, parallelism: int) -> Iterator[Finding]:
    entries: dict[str, int] = {}
    for part in state.subtask_states.values():
        for handle in (*part.managed_operator_state, *part.raw_operator_state):
            for name, info in handle.state_name_to_partition_offsets.items():
                if info.mode is OperatorStateMode.UNION:
                    entries[name] = entries.get(name, 0) + len(info.offsets)
    for name, count in entries.items():
        if count * parallelism > LARGE_UNION_ENTRIES and parallelism > 1:
            yield Finding(
                Severity.WARNS,
                match.label,
                f"Each of {parallelism} subtasks gets all {count:,} entries of the union list {name!r}: "
                f"{count * parallelism:,} in total. If each stores what it got, the next checkpoint has that many.",
                "Keep in the function only the entries that this subtask needs, or use a split list.",
                known_by="the offsets in the metadata",
            )


def _skew(match: MatchedOperator, state: OperatorState, parallelism: int) -> Iterator[Finding]:
    sizes = key_group_bytes(state)
    if not sizes.sum() or parallelism > len(sizes):
        return
    after = sums_by_subtask(sizes, parallelism)
    most, mean = after.max(), after.mean()
    if most > SKEWED * mean:
        yield Finding(
            Severity.TELLS,
            match.label,
            f"Subtask {int(after.argmax())} gets {most / mean:.1f} times the mean of the keyed state: "
            f"{int(most):,} B of {int(after.sum()):,} B over {parallelism} subtasks.",
            "",
            known_by="the offsets of the key groups",
        )


_NOTHING_LOST = Finding(
    Severity.TELLS,
    "the job",
    "All state in the checkpoint finds its operator: positions, state and in-flight rows continue together.",
    "",
    Effect.EXACTLY_ONCE,
    "the state assignment; the metadata does not say what logs still retain and what sinks can still commit",
)


# --- what each subtask gets -------------------------------------------------------------------------------------------


def _assignment_rows(
    shape: JobShape, assignment: StateAssignment | None, states: Mapping[str, OperatorState]
) -> list[dict[str, object]]:
    if assignment is None:
        return []
    found = {pair: state for vertex in shape.vertices for pair, state in _states_of(vertex, states)}
    names = {
        pair.generated_id: pair.name or pair.uid or (found[pair].label if pair in found else pair.generated_id)
        for vertex in shape.vertices
        for pair in vertex.operators
    }
    restores = {
        task_name(vertex.name, subtask): restore
        for vertex, of_vertex in zip(shape.vertices, assignment.restores, strict=True)
        for subtask, restore in enumerate(of_vertex)
    }
    return describe_assignments(names, restores, {pair.generated_id: state for pair, state in found.items()})


def _states_of(
    vertex: AssignmentVertex, states: Mapping[str, OperatorState]
) -> Iterator[tuple[OperatorIDPair, OperatorState]]:
    """Yield each operator of a vertex with the state that it finds: by the user's id first."""
    for pair in vertex.operators:
        for operator_id in (pair.user_defined_id, pair.generated_id):
            if operator_id is not None and operator_id in states:
                yield pair, states[operator_id]
                break
