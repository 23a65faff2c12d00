"""A task's commands for its host's disk: rows of its source, its state, its snapshots, its output.

As in `kit.files.job_files`, there is one method per command, and a failure comes back as an event.

A snapshot is written completely or not at all: if one of its parts cannot be written, those written before are deleted
before `SnapshotFailed` is returned. A file of in-flight data is written in one step, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

from kit.core.protocol import commands, events
from kit.core.protocol.duties import Command
from kit.core.protocol.outages import may_pass
from kit.core.protocol.snapshots import RestoredPart, SharedRuns, SnapshotPart
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.errors import StateError, StateLostError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStreamStateHandle,
    StreamStateHandle,
)
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.subtask_state_kind import CHANNEL_KINDS, KEYED_KINDS, SubtaskStateKind
from kit.files.answers import carry_out
from kit.files.local_state import LocalState, StateReader, TemporaryFiles
from kit.files.output import Output
from kit.files.run_files import not_ours
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.sources.source import Source, SplitReader
from kit.stream.operators.sources.source_spec import SourceSpec


class TaskFiles:
    """The tasks' half of a host's input and output; one serves all tasks of a process.

    With `temporary` files, keyed state may exceed memory.

    It does what Flink's `TaskStateManager` does for a task's state; `OperatorSnapshotFinalizer` runs the writing there.
    """

    def __init__(
        self,
        job: JobGraph,
        storage: CheckpointStorage,
        output: Output,
        local: LocalState | None = None,
        temporary: TemporaryFiles | None = None,
    ) -> None:
        self._job = job
        self._temporary = temporary
        self._storage = storage
        self._local = local
        self._output = output.begin_writing()
        self._readers: dict[str, SplitReader] = {}
        self._sources: dict[str, Source] = {}

    def carry_out(self, command: Command, sync_ms: int = 0) -> ProtocolMessage | None:
        """Carry out the command, and return the event that answers it.

        `sync_ms` is how long the machine took to handle the event that led to the command; a snapshot's answer contains
        it.
        """
        how = self._HOW
        if sync_ms and isinstance(command, commands.WriteSnapshot):
            how = {commands.WriteSnapshot: lambda files, command: files._write_snapshot(command, sync_ms)}
        return carry_out(self, how, command)

    def close(self) -> None:
        """Close open files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._output.end_writing()

    def forget_local_state(self, subtask: int | None = None) -> None:
        """Delete local copies: the job has ended, at least for one slot, so no task will be restored from them."""
        if self._local is not None:
            self._local.drop(subtask)

    def _read_split(self, command: commands.ReadSplit) -> ProtocolMessage:
        split_id = str(command.split["id"])
        try:
            read = self._checked_reader(command).read(command.split, command.position, command.max_rows)
        except Exception as error:
            failed = command.failed(error)
            return replace(failed, error=f"source {self._job.operator(command.operator_id).name!r}: {failed.error}")
        return events.SplitRead(split_id=split_id, batch=read.batch, position=read.position, finished=read.finished)

    def may_take_long(self, command: commands.ReadSplit) -> bool:
        """Return True if the source has no end, so that a read may wait for rows."""
        source = self._source(command.operator_id)
        return source.endless or source.discover_every_ms is not None

    def _source(self, operator_id: str) -> Source:
        spec = self._job.operator(operator_id).spec
        assert isinstance(spec, SourceSpec)
        return spec.source

    def _checked_reader(self, command: commands.ReadSplit) -> SplitReader:
        operator_id = command.operator_id
        if operator_id not in self._readers:
            source = self._source(operator_id)
            self._sources[operator_id] = source
            self._readers[operator_id] = source.open_reader()
        self._sources[operator_id].check_split(command.split)
        return self._readers[operator_id]

    def _await_rows(self, command: commands.AwaitRows) -> ProtocolMessage:
        """Ask the source which splits have rows now. A split that cannot be asked is read, and its read reports why."""
        source, there = self._source(command.operator_id), []
        for split, position in command.splits:
            try:
                has_rows = source.has_rows(split, position)
            except Exception:
                has_rows = True
            if has_rows:
                there.append(str(split["id"]))
        return events.RowsAvailable(operator_id=command.operator_id, split_ids=tuple(there))

    def _read_state(self, command: commands.ReadState) -> ProtocolMessage:
        parts: list[RestoredPart] = []
        streams: dict[StreamStateHandle, Any] = {}
        wanted = command.key_group_range or KeyGroupRange.EMPTY
        reader = StateReader(self._storage, self._local, command.restore.checkpoint_id, wanted, self._temporary)
        try:
            for operator_id, state in command.restore.state.subtask_states.items():
                for foreign in (*state.managed_keyed_state, *state.raw_keyed_state):
                    if not isinstance(foreign, KeyGroupsStateHandle | IncrementalRemoteKeyedStateHandle):
                        raise not_ours(foreign)
                parts += [RestoredPart(operator_id, *found) for found in reader.read(state)]
                parts += self._channel_state(operator_id, state, streams)
        except (OSError, ValueError, StateError) as error:
            is_lost = isinstance(error, StateLostError)
            remedy = "; start the job from a checkpoint or savepoint that is intact: restore_path" if is_lost else ""
            return events.StateReadFailed(
                error=f"checkpoint {command.restore.checkpoint_id} cannot be read: {error}{remedy}",
                recoverable=isinstance(error, OSError) and not is_lost,
                may_pass=may_pass(error),
            )
        return events.StateRead(parts=tuple(parts), from_local=reader.from_local)

    def _channel_state(
        self, operator_id: str, state: OperatorSubtaskState, streams: dict[StreamStateHandle, Any]
    ) -> Iterator[RestoredPart]:
        """Yield in-flight data; `streams` caches bytes, since many channels are in one file."""
        for kind in (*CHANNEL_KINDS, SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER):
            for handle in state.of_kind(kind):
                if handle.delegate not in streams:
                    streams[handle.delegate] = self._storage.read(handle.delegate)
                yield RestoredPart(operator_id, kind, handle, streams[handle.delegate])

    def _write_snapshot(self, command: commands.WriteSnapshot, sync_ms: int = 0) -> ProtocolMessage:
        states: dict[str, dict[str, Any]] = {}
        written: list[str] = []
        try:
            for part in command.parts:
                handle = self._write_part(command, part)
                written += handle.files()
                states.setdefault(part.operator_id, {})[part.kind.field] = (handle,)
            for effect in command.effects:
                self._output.stage(effect)
        except Exception:
            self._storage.discard(written)
            self._drop_copies(command)
            self._output.drop(command.effects)
            raise
        snapshot = TaskStateSnapshot(
            {operator_id: OperatorSubtaskState(**kinds) for operator_id, kinds in states.items()}
        )
        return events.SnapshotWritten(
            checkpoint_id=command.checkpoint_id,
            state=snapshot,
            bytes_written=snapshot.checkpointed_size,
            sync_ms=sync_ms,
        )

    def undo(self, command: Command, answer: ProtocolMessage | None) -> None:
        """Delete what was written, and answered, for a command that was stopped meanwhile."""
        if isinstance(command, commands.WriteSnapshot) and isinstance(answer, events.SnapshotWritten):
            self._storage.discard(answer.state.files())
            self._drop_copies(command)
            self._output.drop(command.effects)
        elif isinstance(answer, events.ChannelStateFileWritten):
            self._storage.discard(answer.handle.files())

    def _discard_snapshot(self, command: commands.DiscardSnapshot) -> None:
        self._storage.discard(command.paths)
        self._output.drop(command.effects)

    def _write_part(self, command: commands.WriteSnapshot, part: SnapshotPart) -> Any:
        if part.runs is not None:
            return self._write_runs(command, part, part.runs)
        location, checkpoint_id = CheckpointLocation(command.location), command.checkpoint_id
        local = self._local if location == self._storage.location_for_checkpoint(checkpoint_id) else None
        stream, where = self._write_file(command, part, location, local)
        if part.kind in KEYED_KINDS:
            assert part.key_group_range is not None
            return KeyGroupsStateHandle(part.key_group_range, tuple(where), stream, part.file_name)
        return OperatorStreamStateHandle(where, stream)

    def _write_file(
        self,
        command: commands.WriteSnapshot,
        part: SnapshotPart,
        location: CheckpointLocation,
        local: LocalState | None,
    ) -> tuple[StreamStateHandle, Any]:
        """Write a part's file, and its `local` copy. Large files are written piece by piece if the storage can, or else
        by way of a temporary file if there is one. Return the handle of the file, and the content of the part's own.
        """
        if part.write is not None and self._storage.takes_pieces(location):
            return self._write_pieces(command, part, location, local)
        assert part.encode is not None
        if part.write is not None and self._temporary is not None:
            data, where = self._temporary.written(part.write)
        else:
            data, where = part.encode()
        stream = self._storage.to_handle(data, location, part.file_name)
        if local is not None and not isinstance(stream, ByteStreamStateHandle):
            local.store(command.subtask, command.checkpoint_id, part.file_name, data)
        return stream, where

    def _write_pieces(
        self,
        command: commands.WriteSnapshot,
        part: SnapshotPart,
        location: CheckpointLocation,
        local: LocalState | None,
    ) -> tuple[StreamStateHandle, Any]:
        assert part.write is not None
        with ExitStack() as stack:
            out = stack.enter_context(self._storage.create_stream(location, part.file_name))
            if local is None:
                where = part.write(out.write)
                return out.close_and_get_handle(), where
            copy = stack.enter_context(local.begin_copy(command.subtask, command.checkpoint_id, part.file_name))
            where = part.write(_both(out.write, copy.write))
            handle = out.close_and_get_handle()
            if not isinstance(handle, ByteStreamStateHandle):
                copy.keep()
            return handle, where

    def _write_runs(
        self, command: commands.WriteSnapshot, part: SnapshotPart, runs: SharedRuns
    ) -> IncrementalRemoteKeyedStateHandle:
        """Write the run of an incremental part, if it has one, where later checkpoints may refer to it.

        Flink: `RocksDBStateUploader`.
        """
        own: tuple[HandleAndLocalPath, ...] = ()
        if part.encode is not None:
            stream, _ = self._write_file(command, part, self._storage.shared_location, self._local)
            own = (HandleAndLocalPath(part.file_name, stream),)
        if self._local is not None:
            self._local.store_list(command.subtask, command.checkpoint_id, part.file_name, runs.manifest)
        try:
            manifest = self._storage.to_handle(runs.manifest, CheckpointLocation(command.location), runs.manifest_name)
        except Exception:
            self._storage.discard(path for each in own for path in each.files())
            raise
        assert part.key_group_range is not None
        return IncrementalRemoteKeyedStateHandle(
            runs.backend_identifier,
            part.key_group_range,
            command.checkpoint_id,
            (*runs.reused, *own),
            (),
            manifest,
            sum(each.state_size for each in own) + manifest.state_size,
            part.file_name,
        )

    def _write_channel_state(self, command: commands.WriteChannelStateFile) -> ProtocolMessage:
        data, offsets = command.encode()
        handle = self._storage.to_handle(data, CheckpointLocation(command.location), command.file_name)
        return events.ChannelStateFileWritten(
            checkpoint_id=command.checkpoint_id, file_name=command.file_name, handle=handle, offsets=offsets
        )

    def _drop_copies(self, command: commands.WriteSnapshot) -> None:
        if self._local is not None:
            self._local.prune(command.subtask, command.checkpoint_id, commands.LocalCopies.SAME)

    def _prune_local_state(self, command: commands.PruneLocalState) -> None:
        if self._local is not None:
            self._local.prune(command.subtask, command.checkpoint_id, command.copies)

    def _commit(self, command: commands.CommitEffects) -> ProtocolMessage:
        self._output.commit(command.effects)
        return events.EffectsCommitted(operator_id=command.operator_id, checkpoint_id=command.checkpoint_id)

    def _write_rows(self, command: commands.WriteRows) -> None:
        self._output.write(command.path, command.table, first=command.first, last=command.last)

    def _drop(self, command: commands.DropEffects) -> None:
        self._output.drop(command.effects)

    _HOW: ClassVar[dict[type[ProtocolMessage], Callable[[TaskFiles, Any], ProtocolMessage | None]]] = {
        commands.ReadSplit: _read_split,
        commands.AwaitRows: _await_rows,
        commands.ReadState: _read_state,
        commands.WriteSnapshot: _write_snapshot,
        commands.WriteChannelStateFile: _write_channel_state,
        commands.WriteRows: _write_rows,
        commands.CommitEffects: _commit,
        commands.DropEffects: _drop,
        commands.DiscardSnapshot: _discard_snapshot,
        commands.PruneLocalState: _prune_local_state,
    }

    def __repr__(self) -> str:
        return f"TaskFiles({self._job.name})"


def _both(write: Callable[[Any], object], write_too: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a function that calls both, one after the other."""

    def write_both(piece: Any) -> None:
        write(piece)
        write_too(piece)

    return write_both
