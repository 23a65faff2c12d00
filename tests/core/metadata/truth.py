"""The content of a checkpoint as Flink's own reader reports it (`truth*.json`), and ours in the same terms."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.properties import CheckpointProperties, CheckpointType
from kit.core.state import handles as h
from kit.core.state.operator_state import MasterState, OperatorState, OperatorSubtaskState
from tests.flink_data import HERE, checkpoint_archive, checkpoint_versions, checkpoints

Says = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One real checkpoint: the folder of its case, its `_metadata` and what Flink says of it."""

    name: str
    folder: Path
    directory: Path
    truth: Says

    @property
    def data(self) -> bytes:
        return (self.directory / "_metadata").read_bytes()

    @property
    def base(self) -> str:
        """The directory the checkpoint was written to, as Flink writes paths."""
        return self.truth["originalCheckpointPath"].rstrip("/").replace("file:///", "file:/")

    def locate(self, path: str) -> Path:
        """Return the present path of a file that the checkpoint was written with."""
        parent = self.base.rsplit("/", 1)[0]
        if path.startswith(self.base + "/"):
            return self.directory / path.removeprefix(self.base + "/")
        if path.startswith(parent + "/"):
            return self.folder / path.removeprefix(parent + "/")
        return self.folder / path[path.index("/dstl/") + 1 :]


def case_names(data: Path | None = None) -> list[str]:
    """Every checkpoint: VERSION/CASE, or VERSION/CASE/chk-N where a case has several; no archive is unpacked for it."""
    return [name for version in checkpoint_versions(data) for name in _names_in(checkpoint_archive(version, data))]


@cache
def _names_in(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        truths = [re.fullmatch(r"([^/]+/[^/]+)/truth(?:-(.+))?\.json", name) for name in opened.getnames()]
    return sorted("/".join(filter(None, truth.groups())) for truth in truths if truth)


def load(name: str, data: Path | None = None) -> Case:
    """The checkpoint of this name, among those of `data` if that is given."""
    version, case, *part = name.split("/")
    folder = checkpoints(version, data) / case
    truth = folder / f"truth{''.join('-' + chk for chk in part)}.json"
    return Case(name, folder, folder.joinpath(*part), json.loads(truth.read_text()))


def our_names(case: str) -> list[str]:
    """The checkpoints of this case in the repository, one of each version that has it, oldest first."""
    return [name for name in case_names(HERE) if name.partition("/")[2] == case]


def load_ours(name: str) -> Case:
    """The checkpoint of this name in the repository, whatever other data the tests read."""
    return load(name, HERE)


# --- our side, in Flink's words ---------------------------------------------------------------------------------------


def describe(metadata: CheckpointMetadata) -> Says:
    return {
        "checkpointId": metadata.checkpoint_id,
        "masterStates": [_master(state) for state in metadata.master_states],
        "operatorStates": [_operator(operator) for operator in metadata.operator_states],
        "checkpointProperties": metadata.properties and _properties(metadata.properties),
    }


def _master(state: MasterState) -> Says:
    return {"name": state.name, "version": state.version, "bytes": state.data.hex()}


def _properties(properties: CheckpointProperties) -> Says:
    kind = properties.snapshot_type
    says: Says = {"isSavepoint": kind.is_savepoint, "name": kind.name, "getName": kind.name}
    says["getSharingFilesStrategy"] = kind.sharing.name
    if isinstance(kind, CheckpointType):
        says |= {"class": "CheckpointType", "sharingFilesStrategy": kind.sharing.name}
    else:
        says |= {"class": "SavepointType", "postCheckpointAction": kind.action.name, "formatType": kind.format.name}
    return {
        "checkpointType": says,
        "forced": properties.forced,
        "discardSubsumed": properties.discard_subsumed,
        "discardFinished": properties.discard_finished,
        "discardCancelled": properties.discard_cancelled,
        "discardFailed": properties.discard_failed,
        "discardSuspended": properties.discard_suspended,
        "unclaimed": properties.unclaimed,
    }


def _operator(operator: OperatorState) -> Says:
    return {
        "class": "FullyFinishedOperatorState" if operator.fully_finished else "OperatorState",
        "operatorId": operator.operator_id,
        "name": operator.name,
        "uid": operator.uid,
        "parallelism": operator.parallelism,
        "maxParallelism": operator.max_parallelism,
        "fullyFinished": operator.fully_finished,
        "stateSize": operator.state_size,
        "coordinatorState": operator.coordinator_state and _handle(operator.coordinator_state),
        "numberCollectedStates": len(operator.subtask_states),
        "subtasks": {str(index): _subtask(state) for index, state in operator.subtask_states.items()},
    }


def _subtask(state: OperatorSubtaskState) -> Says:
    return {
        "finished": state.finished,
        "stateSize": state.state_size,
        "managedOperatorState": [_handle(handle) for handle in state.managed_operator_state],
        "rawOperatorState": [_handle(handle) for handle in state.raw_operator_state],
        "managedKeyedState": [_handle(handle) for handle in state.managed_keyed_state],
        "rawKeyedState": [_handle(handle) for handle in state.raw_keyed_state],
        "inputChannelState": [_handle(handle) for handle in state.input_channel_state],
        "resultSubpartitionState": [_handle(handle) for handle in state.result_subpartition_state],
        "upstreamOutputBufferState": [],
    }


def _handle(handle: h.StateObject) -> Says:
    says = {"class": type(handle).__name__, "stateSize": handle.state_size, "size": handle.state_size}
    if isinstance(handle, h.KeyedStateHandle):
        says["keyGroupRange"] = [handle.key_group_range.start, handle.key_group_range.end]
        says["checkpointedSize"] = handle.checkpointed_size
        says["stateHandleId"] = handle.state_handle_id  # type: ignore[attr-defined]
    delegate = getattr(handle, "delegate", None)
    if delegate is not None:
        says["delegate"] = _handle(delegate)
    return says | _FIELDS[type(handle)](handle)


def _byte_stream(handle: h.ByteStreamStateHandle) -> Says:
    sha256 = hashlib.sha256(handle.data).hexdigest()
    return {"handleName": handle.handle_name, "hex": handle.data.hex(), "sha256": sha256}


def _segment(handle: h.SegmentFileStateHandle) -> Says:
    says = {"path": handle.path, "startPos": handle.start_pos, "scope": handle.scope.name}
    return says | {"logicalFileId": handle.logical_file_id}


def _empty_segment(handle: h.EmptySegmentFileStateHandle) -> Says:
    return {"path": "empty", "startPos": 0, "scope": "EXCLUSIVE", "logicalFileId": handle.physical_id}


def _incremental(handle: h.IncrementalRemoteKeyedStateHandle) -> Says:
    return {
        "checkpointId": handle.checkpoint_id,
        "backendIdentifier": handle.backend_identifier,
        "metaStateHandle": _handle(handle.meta_state),
        "sharedState": _files(handle.shared_state),
        "privateState": _files(handle.private_state),
    }


def _files(files: tuple[h.HandleAndLocalPath, ...]) -> list[Says]:
    return [{"localPath": file.local_path, "handle": _handle(file.handle)} for file in files]


def _changelog(handle: h.ChangelogStateBackendHandle) -> Says:
    return {
        "class": "ChangelogStateBackendHandle$ChangelogStateBackendHandleImpl",
        "materializationId": handle.materialization_id,
        "checkpointId": handle.checkpoint_id,
        "materialized": [_handle(part) for part in handle.materialized],
        "nonMaterialized": [_handle(part) for part in handle.non_materialized],
    }


def _changes_in_memory(handle: h.InMemoryChangelogStateHandle) -> Says:
    return {
        "from": handle.from_sequence,
        "to": handle.to_sequence,
        "changeKeyGroups": [change.key_group for change in handle.changes],
        "changeSizes": [len(change.change) for change in handle.changes],
        "changesConcatenatedSha256": hashlib.sha256(b"".join(change.change for change in handle.changes)).hexdigest(),
    }


def _change_streams(handle: h.ChangelogStateHandleStreamImpl) -> Says:
    streams = [{"offset": offset, "handle": _handle(stream)} for stream, offset in handle.handles_and_offsets]
    return {"handlesAndOffsets": streams, "storageIdentifier": handle.storage_identifier}


def _operator_stream(handle: h.OperatorStreamStateHandle) -> Says:
    return {
        "stateNameToPartitionOffsets": {
            name: {
                "distributionMode": info.mode.name,
                "distributionModeOrdinal": info.mode.value,
                "offsets": list(info.offsets),
            }
            for name, info in handle.state_name_to_partition_offsets.items()
        }
    }


def _file_merging(handle: h.FileMergingOperatorStreamStateHandle) -> Says:
    return _operator_stream(handle) | {"taskOwnedDir": handle.task_owned_dir, "sharedDir": handle.shared_dir}


def _input_channel(handle: h.InputChannelStateHandle) -> Says:
    return {
        "subtaskIndex": handle.subtask_index,
        "gateIdx": handle.info.gate_idx,
        "inputChannelIdx": handle.info.input_channel_idx,
        "offsets": list(handle.offsets),
    }


def _result_subpartition(handle: h.ResultSubpartitionStateHandle) -> Says:
    return {
        "subtaskIndex": handle.subtask_index,
        "partitionIdx": handle.info.partition_idx,
        "subPartitionIdx": handle.info.subpartition_idx,
        "offsets": list(handle.offsets),
    }


def _merged(handle: h.MergedInputChannelStateHandle | h.MergedResultSubpartitionStateHandle) -> Says:
    return {"subtaskIndex": handle.subtask_index, "unmerged": [_handle(part) for part in handle.unmerge()]}


_FIELDS: dict[type, Callable[[Any], Says]] = {
    h.ByteStreamStateHandle: _byte_stream,
    h.FileStateHandle: lambda handle: {"path": handle.path},
    h.RelativeFileStateHandle: lambda handle: {"path": handle.path, "relativePath": handle.relative_path},
    h.SegmentFileStateHandle: _segment,
    h.EmptySegmentFileStateHandle: _empty_segment,
    h.KeyGroupsStateHandle: lambda handle: {"offsets": list(handle.offsets)},
    h.KeyGroupsSavepointStateHandle: lambda handle: {"offsets": list(handle.offsets)},
    h.IncrementalRemoteKeyedStateHandle: _incremental,
    h.ChangelogStateBackendHandle: _changelog,
    h.InMemoryChangelogStateHandle: _changes_in_memory,
    h.ChangelogStateHandleStreamImpl: _change_streams,
    h.OperatorStreamStateHandle: _operator_stream,
    h.FileMergingOperatorStreamStateHandle: _file_merging,
    h.EmptyFileMergingOperatorStreamStateHandle: _file_merging,
    h.InputChannelStateHandle: _input_channel,
    h.ResultSubpartitionStateHandle: _result_subpartition,
    h.MergedInputChannelStateHandle: _merged,
    h.MergedResultSubpartitionStateHandle: _merged,
}


# --- comparing --------------------------------------------------------------------------------------------------------

# said of files, which are looked at one by one; and of the block whose parts stand under "unmerged"
_NOT_COMPARED = {"contentSize", "contentSha256", "serializedChannelOffsets"}


_FILES = ("sharedState", "privateState")


def _local_path(file: Says) -> str:
    return file["localPath"]


def differences(truth: Any, ours: Any, *, files_in_order: bool, where: str = "") -> Iterator[str]:
    """Yield everything that Flink reports and we do not, by its place.

    Up to 1.15 the files of an LSM tree are a hash map, which the truth sorts by name.
    """
    if isinstance(truth, dict) and isinstance(ours, dict):
        for key, value in truth.items():
            place = f"{where}.{key}"
            # where the file has no id, Flink makes one up each time it reads it
            if key in _NOT_COMPARED or (key == "stateHandleId" and ours.get(key, "") is None):
                continue
            if key == "class" and key not in ours:  # not a handle
                continue
            if key not in ours:
                yield f"{place}: we say nothing"
            elif key == "class":
                if value.rsplit(".", 1)[-1] != ours[key]:
                    yield f"{place}: {value}, not {ours[key]}"
            else:
                yield from differences(value, ours[key], files_in_order=files_in_order, where=place)
    elif isinstance(truth, list) and isinstance(ours, list) and len(truth) == len(ours):
        if not files_in_order and where.endswith(_FILES):
            ours = sorted(ours, key=_local_path)
        for index, (one, other) in enumerate(zip(truth, ours, strict=True)):
            yield from differences(one, other, files_in_order=files_in_order, where=f"{where}[{index}]")
    elif truth != ours or type(truth) is not type(ours):
        yield f"{where}: {truth!r}, not {ours!r}"


def file_contents(truth: Any) -> Iterator[Says]:
    """Return every file handle whose content Flink reports."""
    if isinstance(truth, dict):
        if "contentSha256" in truth:
            yield truth
        for value in truth.values():
            yield from file_contents(value)
    elif isinstance(truth, list):
        for value in truth:
            yield from file_contents(value)
