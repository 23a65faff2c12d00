"""A plan of changes to a checkpoint, and the new savepoint that it leads to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.metadata.versions import V2, V3_FLINK_1_11
from kit.core.protocol.properties import CheckpointProperties, SavepointFormatType
from kit.core.state.errors import CheckpointError
from kit.core.state.handles import KeyGroupsSavepointStateHandle
from kit.core.state.key_groups import check_parallelism, default_max_parallelism, key_group_partitions
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.files.storage import StateFiles
from kit.snapshots.checkpoints.keyed_parts import KeyedPart
from kit.snapshots.checkpoints.naming import label, operator_named
from kit.snapshots.checkpoints.versioned_items import SOURCE_READER_STATE
from kit.snapshots.given_keys import key_from_text
from kit.snapshots.serializers.types import Type
from kit.snapshots.surgery.bootstrap import as_table
from kit.snapshots.surgery.copied_files import CopiedFiles, is_below
from kit.snapshots.surgery.drafts import Draft, Origin
from kit.snapshots.surgery.keyed_state import Handles, rewritten_keyed_state, rewritten_raw_timers
from kit.snapshots.surgery.keys import KeyDeletion, Keys, check_keys
from kit.snapshots.surgery.offsets import at_offsets, splits_of
from kit.snapshots.surgery.operator_state import rewritten_operator_state
from kit.snapshots.surgery.target import NoTarget, Target
from kit.snapshots.surgery.values import MapValues, with_values
from kit.stream.graph.hashing import operator_id_of_uid

if TYPE_CHECKING:
    import pandas as pd

EVERY = "all operators"
_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Step:
    """One change of a plan, for people."""

    operation: str
    operator: str
    detail: str
    deletion: KeyDeletion | None = None

    @property
    def description(self) -> str:
        """The detail; of a deletion with the rows that it deleted, once it was carried out."""
        return self.detail if self.deletion is None else self.deletion.description


class Edit:
    """Changes to a checkpoint that `write` carries out into a new savepoint. The checkpoint itself is never changed.

    Each method returns another plan with one more change, so a plan can be extended in several ways. An operator is
    named by its uid, its name or its id, as the changes so far have left it.
    """

    def __init__(
        self,
        origin: Origin,
        reopen: Callable[..., Any],
        drafts: tuple[Draft, ...] | None = None,
        steps: tuple[Step, ...] = (),
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self._origin, self._reopen, self.steps, self._moved = origin, reopen, steps, dict(moved or {})
        self._drafts = tuple(map(Draft.of, origin.metadata.operator_states)) if drafts is None else drafts

    # --- operators ----------------------------------------------------------------------------------------------------

    def rename(self, operator: str, uid: str | None = None, *, uid_hash: str | None = None) -> Edit:
        """Give an operator another uid, or an id in hexadecimal that the job sets with `setUidHash`.

        Raises KeyError for an unknown operator, ValueError for an id that is taken or is not 32 hex digits.
        """
        if (uid is None) == (uid_hash is None):
            raise ValueError("give the new uid, or uid_hash with the new id in hexadecimal, and not both")
        draft = self._draft(operator)
        new_id = operator_id_of_uid(uid) if uid is not None else str(uid_hash).lower()
        if not _ID.fullmatch(new_id):
            raise ValueError(f"uid_hash is {uid_hash!r}, but an operator's id is 32 hex digits")
        for each in self._drafts:
            if each is not draft and each.new.operator_id == new_id:
                raise ValueError(f"{label(each.new)!r} has the id {new_id} already: rename or drop that operator first")
        names = self._origin.layout.names
        new = replace(draft.new, operator_id=new_id, uid=uid if names else None)
        return self._with(draft, replace(draft, new=new), "rename", uid or new_id)

    def drop(self, operator: str, state: str | None = None) -> Edit:
        """Leave out an operator, or one of its states by name: keyed state, operator state, or timers.

        Raises KeyError for an unknown operator or state.
        """
        draft = self._draft(operator)
        if state is None:
            kept = tuple(each for each in self._drafts if each is not draft)
            return self._next(kept, Step("drop", label(draft.new), "the operator"))
        if state not in draft.rows:
            self._check_state(draft, state)
        rows = {name: table for name, table in draft.rows.items() if name != state}
        changed = replace(draft, rows=rows, dropped=draft.dropped | {state})
        return self._with(draft, changed, "drop", f"state {state}")

    def without_in_flight(self, operator: str | None = None) -> Edit:
        """Leave out the data in flight that an unaligned checkpoint has, of one operator or of all. It is lost."""
        return self._each(operator, Draft.without_in_flight_data, "without in-flight data", "")

    # --- keyed state --------------------------------------------------------------------------------------------------

    def to_canonical(self, operator: str | None = None) -> Edit:
        """Write keyed state of one operator or of all in the canonical layout, which every state backend reads.

        Raises ValueError if the checkpoint is of a Flink that does not know the layout.
        """
        self._check_canonical()
        return self._each(operator, lambda draft: replace(draft, to_canonical=True), "to canonical", "")

    def to_kit(self, operator: str) -> Edit:
        """Write an operator's keyed state in the kit's own format, so that a job of the kit can be restored from it.

        The job has an operator of the same uid, with value states of the same names and types. Operators and states
        that it does not have must be dropped. Raises KeyError for an unknown operator; when the plan is carried out,
        CheckpointError for state of another kind, or of types that the kit does not have.
        """
        draft = self._draft(operator)
        return self._with(draft, replace(draft, to_kit=True), "to kit", "")

    def set_max_parallelism(self, max_parallelism: int, operator: str | None = None) -> Edit:
        """Change the maximum parallelism of one operator or of all: every key gets its new key group.

        Raises ValueError for a number that is out of bounds or less than the parallelism, or with data in flight.
        """
        self._check_canonical()
        check_parallelism(max_parallelism)
        for draft in self._drafts if operator is None else (self._draft(operator),):
            if max_parallelism < draft.new.parallelism:
                raise ValueError(
                    f"{label(draft.new)} has parallelism {draft.new.parallelism}, which is more than the maximum "
                    f"parallelism {max_parallelism}"
                )
            if draft.has_in_flight_data and draft.new.max_parallelism != max_parallelism:
                raise ValueError(
                    f"{label(draft.new)} has data in flight, whose records belong to key groups: take an aligned "
                    "checkpoint or a savepoint, or lose the data with without_in_flight()"
                )

        def change(draft: Draft) -> Draft:
            return replace(draft, new=replace(draft.new, max_parallelism=max_parallelism))

        return self._each(operator, change, "max parallelism", str(max_parallelism))

    def delete_keys(self, operator: str, keys: Keys) -> Edit:
        """Delete keys from all keyed states and timers of an operator.

        Args:
            operator: the operator.
            keys: the keys, or a function that takes an Arrow array of keys and returns True for those to delete.

        Once the plan was written or rehearsed, `changes` says how many rows were deleted.

        Raises KeyError for an unknown operator, CheckpointError for a key that is not of the type of its keys, or if a
        state has the rows of a `bootstrap` in this plan.
        """
        self._check_canonical()
        draft = self._draft(operator)
        _check_rows(draft, draft.rows, "delete_keys")
        if (type_ := self._key_type(draft)) is not None:
            check_keys(keys, type_, label(draft.new))
        deletion = KeyDeletion(keys)
        changed = replace(draft, change_pairs=(*draft.change_pairs, deletion))
        return self._with(draft, changed, "delete keys", deletion=deletion)

    def key_from_text(self, operator: str, text: str) -> Any:
        """Return the key of an operator that a text means, as `Checkpoint.key_from_text` does.

        Raises KeyError for an unknown operator, CheckpointError for a text that is no key of the type of its keys.
        """
        type_ = self._key_type(self._draft(operator))
        return text if type_ is None else key_from_text(text, type_)

    def map(self, operator: str, state: str, function: MapValues) -> Edit:
        """Change the values of a keyed state with a function of Arrow columns.

        Args:
            operator: the operator.
            state: the state's name.
            function: takes the table of a key group, as `Checkpoint.state` returns it. It returns the new values, one
                for each row, as an Arrow array or as the column `value` of a table.

        Values that the function does not change keep their bytes.

        Raises KeyError for an unknown operator or state, CheckpointError for a state that has the rows of a `bootstrap`
        in this plan. When the plan is carried out, CheckpointError for values that are not of the state's type, or of a
        type that is not encoded here.
        """
        self._check_canonical()
        draft = self._draft(operator)
        _check_rows(draft, {state} & set(draft.rows), "map")
        self._check_state(draft, state)
        changes = (*draft.change_pairs, with_values(state, function))
        return self._with(draft, replace(draft, change_pairs=changes), "map", f"state {state}")

    def bootstrap(
        self, operator: str, state: str, rows: Any, *, parallelism: int = 1, max_parallelism: int | None = None
    ) -> Edit:
        """Give a keyed state the rows of a table instead of its own. The operator and the state may be new.

        A new state has the types of the columns: Long for int64, String for string, and so on; it is a map state if
        there is a column `map_key`, and a list state if `value` is a list. With a column `last_access` it has a TTL.
        Inside a value, a struct is a Row, a list a List, and a map a Map. A key that is a struct is a tuple. The job
        must declare the state with these types.

        Args:
            operator: the operator; a uid that the checkpoint does not have adds an operator.
            state: the state's name.
            rows: a DataFrame or an Arrow table with the columns of `Checkpoint.state`: key, value, and map_key,
                namespace and last_access where the state has them. A map state also takes rows whose values are maps,
                as those of the kit's own map state are.
            parallelism: that of a new operator.
            max_parallelism: that of a new operator; Flink's default for its parallelism if omitted.

        Raises CheckpointError for rows without key or value. When the plan is carried out, CheckpointError for rows
        that do not have the types of the state, or keys whose hash code is not known here.
        """
        self._check_canonical()
        table = as_table(rows)
        edited = self
        try:
            draft = self._draft(operator)
        except KeyError:
            maximum = default_max_parallelism(parallelism) if max_parallelism is None else max_parallelism
            key_group_partitions(maximum, parallelism)  # raises for numbers out of bounds
            uid = operator if self._origin.layout.names else None
            draft = Draft.of(OperatorState(operator_id_of_uid(operator), parallelism, maximum, {}, uid=uid))
            edited = Edit(self._origin, self._reopen, (*self._drafts, draft), self.steps, self._moved)
        changed = replace(draft, rows={**draft.rows, state: table}, dropped=draft.dropped - {state})
        return edited._with(draft, changed, "bootstrap", f"state {state}, {table.num_rows:,} rows")

    # --- operator state -----------------------------------------------------------------------------------------------

    def set_offsets(self, operator: str, offsets: Mapping[Any, int]) -> Edit:
        """Let a source continue its splits at other offsets.

        Args:
            operator: the source.
            offsets: the next offset of each split: by topic and partition of a `KafkaSource`, as in
                `{("orders", 0): 1200}`, or by the id of a split of a `NumberSequenceSource`.

        Raises KeyError for an unknown operator or split, CheckpointError for splits of another source.
        """
        draft = self._draft(operator)
        known = set(splits_of(draft, self._origin))
        missing = [each for each in offsets if each not in known]
        if missing:
            raise KeyError(
                f"source {label(draft.new)!r} has no split {missing[0]!r}; it has "
                f"{', '.join(sorted(map(repr, known))) or 'none'}"
            )
        before = draft.change_entries.get(SOURCE_READER_STATE)
        changes = {**draft.change_entries, SOURCE_READER_STATE: at_offsets(offsets, before)}
        detail = ", ".join(f"{split}: {offset}" for split, offset in offsets.items())
        return self._with(draft, replace(draft, change_entries=changes), "set offsets", detail)

    # --- files --------------------------------------------------------------------------------------------------------

    def relocate(self, prefixes: Mapping[str, str]) -> Edit:
        """Refer to files below other directories than recorded, because they were or will be copied there.

        Such files are neither read nor copied, unless another change needs their content.

        Args:
            prefixes: the recorded directory of files, and the one that replaces it, as in
                `{"s3://old/checkpoints": "gs://new/checkpoints"}`.

        Raises ValueError if the checkpoint refers to no file below a directory.
        """
        files = self._origin.metadata.files()
        for prefix in prefixes:
            if not any(is_below(path, prefix) for path in files):
                raise ValueError(
                    f"no file of the checkpoint is below {prefix!r}; its files are below "
                    f"{', '.join(sorted({path.rpartition('/')[0] for path in files})[:3]) or 'none'}"
                )
        detail = ", ".join(f"{old} -> {new}" for old, new in prefixes.items())
        moved = {**self._moved, **prefixes}
        return Edit(self._origin, self._reopen, self._drafts, (*self.steps, Step("relocate", "", detail)), moved)

    # --- the result ---------------------------------------------------------------------------------------------------

    def write(
        self, directory: str | os.PathLike[str], *, copy: bool = True, file_system: fs.FileSystem | None = None
    ) -> Any:
        """Write the new savepoint, check that it can be read, and return it opened.

        The files that it takes over are copied, so the savepoint is complete in itself and can be moved. With
        `copy=False` it refers to them where they are; then they must be kept. If something fails, nothing is left.
        `file_system` is that of the directory, if it is not the checkpoint's.

        Raises:
            CheckpointError: the directory has files, or is the checkpoint's own; or state is damaged or not decoded.
            StorageError: the directory cannot be written.
        """
        own = self._origin.source.files
        files = own if file_system is None else StateFiles(file_system)
        path = files.qualified(directory)
        if files is own:
            self._check_target(path)
        target = Target(files, path, relative=self._origin.layout is not V2)
        target.begin()
        try:
            target.finish(write_metadata(self._metadata(target, copies=copy), self._origin.layout))
            follow = bool(self._moved) or not copy
            decoders = self._origin.decoders.given
            opened = self._reopen(path, follow=follow, decoders=decoders, file_system=files.file_system)
            self._check_result(opened)
        except BaseException:
            target.discard()
            raise
        return opened

    def rehearse(self) -> CheckpointMetadata:
        """Carry out all changes without writing a file, and return the metadata that would be written.

        Raises CheckpointError as `write` does.
        """
        target = NoTarget(self._origin.source.files, "/rehearsal", relative=True)
        return self._metadata(target, copies=True)

    def _metadata(self, target: Target, *, copies: bool) -> CheckpointMetadata:
        copied = CopiedFiles(self._origin.source, target, self._moved, copies=copies)
        operators = tuple(self._operator(draft, copied, target) for draft in self._drafts)
        old = self._origin.metadata
        properties = None
        if old.properties is not None:
            form = SavepointFormatType.CANONICAL if _is_canonical(operators) else SavepointFormatType.NATIVE
            properties = CheckpointProperties.for_savepoint(forced=False, fmt=form)
        return CheckpointMetadata(old.checkpoint_id, operators, old.master_states, properties)

    def _operator(self, draft: Draft, copied: CopiedFiles, target: Target) -> OperatorState:
        if draft.new.fully_finished:
            return draft.new
        keyed = rewritten_keyed_state(draft, self._origin, target) if draft.rewrites_keyed else None
        raw = rewritten_raw_timers(draft, self._origin, target) if draft.rewrites_raw_keyed else None
        indexes = sorted({*draft.new.subtask_states, *(keyed or ()), *(raw or ())})
        states = {each: self._subtask(draft, each, keyed, raw, copied, target) for each in indexes}
        return replace(draft.new, subtask_states=states)

    def _subtask(
        self,
        draft: Draft,
        subtask: int,
        keyed: Handles | None,
        raw: Handles | None,
        copied: CopiedFiles,
        target: Target,
    ) -> OperatorSubtaskState:
        state = draft.new.subtask_states.get(subtask, EMPTY_SUBTASK_STATE)
        if state.finished:
            if subtask in (keyed or ()) or subtask in (raw or ()):
                raise CheckpointError(
                    f"{label(draft.new)}: subtask {subtask} has finished and cannot get key groups of others: "
                    "take a savepoint while all subtasks run"
                )
            return state
        written: dict[str, Any] = {}
        if keyed is not None:
            written["managed_keyed_state"] = (keyed[subtask],) if subtask in keyed else ()
        if raw is not None:
            written["raw_keyed_state"] = (raw[subtask],) if subtask in raw else ()
        if draft.rewrites_lists and state.managed_operator_state:
            written["managed_operator_state"] = rewritten_operator_state(draft, self._origin, subtask, copied, target)
        left: dict[str, Any] = dict.fromkeys(written, ())
        taken = copied.subtask(replace(state, **left))
        return replace(taken, **written)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_canonical(self) -> None:
        if self._origin.layout in (V2, V3_FLINK_1_11):
            raise ValueError(
                f"the checkpoint is of {self._origin.layout.written_by}, which has no layout of keyed state that every "
                "backend reads: restore it with Flink 1.13 or newer and take a savepoint there"
            )

    def _check_target(self, path: str) -> None:
        source = self._origin.source
        if is_below(path, source.directory) or is_below(source.directory, path):
            raise CheckpointError(
                f"{path!r} is the directory of the checkpoint itself, or is in it or above it: give another directory, "
                "as the old checkpoint is never changed"
            )

    def _check_result(self, opened: Any) -> None:
        """Raise CheckpointError if a file of the new savepoint is missing, or the head of a state cannot be read."""
        if self._moved:
            return  # the files may be where this machine cannot look
        written = {label(each.new) for each in self._drafts if each.rewrites_keyed or each.rewrites_lists}
        states = opened.states[opened.states["operator"].isin(written)]
        problems = [each for each in (*opened.files["problem"], *states["error"]) if each]
        if problems:
            raise CheckpointError(f"the new savepoint could not be read back: {problems[0]}")

    # --- plans --------------------------------------------------------------------------------------------------------

    def _draft(self, operator: str) -> Draft:
        found = operator_named([each.new for each in self._drafts], operator)
        return next(each for each in self._drafts if each.new is found)

    def _check_state(self, draft: Draft, state: str) -> None:
        there = self._state_names(draft)
        if state not in there:
            raise KeyError(
                f"operator {label(draft.new)!r} has no state {state!r}; it has "
                f"{', '.join(dict.fromkeys(there)) or 'no named state'}"
            )

    def _state_names(self, draft: Draft) -> list[str]:
        """Return the names of the states that any subtask of an operator has."""
        found: list[str] = []
        for subtask, state in sorted(draft.old.subtask_states.items()):
            for handle in state.managed_operator_state:
                found += handle.state_name_to_partition_offsets
            for part in (*self._origin.keyed_parts(draft.old, subtask), *self._origin.raw_timers(draft.old, subtask)):
                found += [info.name for info in part.infos()]
        return [name for name in found if name not in draft.dropped]

    def _key_type(self, draft: Draft) -> Type | None:
        """Return the type of an operator's keys; None if it has no keyed state in a layout of Flink."""
        for subtask in sorted(draft.old.subtask_states):
            for part in (*self._origin.keyed_parts(draft.old, subtask), *self._origin.raw_timers(draft.old, subtask)):
                for state in part.states.values() if isinstance(part, KeyedPart) else ():
                    return state.key
        return None

    def _with(
        self, draft: Draft, changed: Draft, operation: str, detail: str = "", deletion: KeyDeletion | None = None
    ) -> Edit:
        drafts = tuple(changed if each is draft else each for each in self._drafts)
        return self._next(drafts, Step(operation, label(draft.new), detail, deletion))

    def _each(self, operator: str | None, change: Callable[[Draft], Draft], operation: str, detail: str) -> Edit:
        if operator is not None:
            draft = self._draft(operator)
            return self._with(draft, change(draft), operation, detail)
        return self._next(tuple(map(change, self._drafts)), Step(operation, EVERY, detail))

    def _next(self, drafts: tuple[Draft, ...], step: Step) -> Edit:
        return Edit(self._origin, self._reopen, drafts, (*self.steps, step), self._moved)

    # --- shown --------------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> pd.DataFrame:
        """One row per change, in order: operation, operator, detail."""
        import pandas as pd

        rows = [(each.operation, each.operator, each.description) for each in self.steps]
        return pd.DataFrame(rows, columns=["operation", "operator", "detail"])

    @property
    def title(self) -> str:
        """A line that says what is changed."""
        many = len(self.steps)
        return f"{many} change{'s' * (many != 1)} to {self._origin.source.directory!r}"

    def __repr__(self) -> str:
        lines = [f"  {each.operation}: {each.operator} {each.description}".rstrip() for each in self.steps]
        return "\n".join([f"Edit: {self.title}", *lines])

    def _repr_html_(self) -> str:
        return notebook_html(self.title, frame_html(self.changes, NOTEBOOK_ROWS, all_in=".changes"))


def _check_rows(draft: Draft, states: Collection[str], operation: str) -> None:
    """Raise CheckpointError if states have the rows of a table in this plan: a later change would not reach them."""
    if states:
        raise CheckpointError(
            f"{label(draft.new)}: state {', '.join(map(repr, sorted(states)))} has the rows given to bootstrap in this "
            f"plan, and {operation} would not change them: change these rows before, or write the plan and edit the "
            "savepoint that it gives"
        )


def _is_canonical(operators: Iterable[OperatorState]) -> bool:
    states = (state for operator in operators for state in operator.subtask_states.values())
    handles = (handle for state in states for handle in state.managed_keyed_state)
    return all(isinstance(each, KeyGroupsSavepointStateHandle) for each in handles)
