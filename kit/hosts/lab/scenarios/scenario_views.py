"""The output of `show` in a scenario: a line per item, without times and sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any
from warnings import catch_warnings, simplefilter

import pandas as pd

from kit.core.metadata import hook_states
from kit.core.protocol.events import StateRead
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.file_names import checkpoint_of
from kit.core.state.handles import IncrementalRemoteKeyedStateHandle
from kit.core.state.operator_handles import OperatorStateMode
from kit.core.state.operator_state import OperatorSubtaskState
from kit.files.storage import StateFiles
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.scenarios.scenario_outcome import in_one_line
from kit.hosts.lab.world.edge import LOCAL_STATE
from kit.machines.job.errors import JobFailedError
from kit.run.moments.job_state import PENDING, Item, Moment
from kit.snapshots.state_tables import KEYED
from kit.stream.backend.runs.manifest import decode_manifest, is_manifest
from kit.stream.backend.states.last_access import COLUMN

LONGEST_ERROR = 400
_STATE_FILE = re.compile(r"(copy of )?(keyed|operator) state of (\S+)/(\d+) in (\S+)")
SNAPSHOTS = ("/checkpoints", "/savepoints")


def snapshot_path(lab: Lab, name: str) -> str:
    """Return the directory of a checkpoint (`chk-3`) or savepoint (`savepoint-3`) on the lab's disk. Raises LabError if
    it does not exist.
    """
    there = {_named(path, lab): path for path in lab._world.edge.snapshots()}
    if name not in there:
        raise LabError(f"there is no {name} on the disk: it holds {', '.join(there) or 'no snapshot'}")
    return there[name]


def file_path(lab: Lab, words: str) -> str:
    """Return the path of the file that the words name; other words are returned unchanged.

    Such words are `keyed state of sums/0 in chk-1`, or `copy of operator state of out/1 in chk-1` for the copy on the
    task's own machine. Raises LabError if the file does not exist.
    """
    found = _STATE_FILE.fullmatch(words)
    if found is None:
        return words
    copy, kind, operator, subtask, name = found.groups()
    ids = {each.name: each.operator_id for each in lab.job.operators}
    start = f"/{ids.get(operator)}-{subtask}-"
    root = LOCAL_STATE if copy else snapshot_path(lab, name)
    held = [path for path in lab.look.files.paths(root) if start in path and kind in path and f"/{name}/" in f"{path}/"]
    if not held:
        raise LabError(f"there is no {words}; operators are {', '.join(ids)}")
    return held[0]


def _named(path: str, lab: Lab) -> str:
    """Return the last name of a path. A savepoint's name is random, so its number replaces it."""
    name = path.rpartition("/")[2]
    metadata = lab._world.edge.snapshots().get(path) if name.startswith("savepoint-") else None
    return name if metadata is None else f"savepoint-{metadata.checkpoint_id}"


# ---- the views ----------------------------------------------------------------------------------------------------


def status(lab: Lab) -> Iterator[str]:
    """The job's status, and the reason."""
    error = " ".join(lab.error.splitlines())
    yield f"{lab.status}, epoch {lab.look.master.epoch}" + (f": {in_one_line(error, LONGEST_ERROR)}" if error else "")


def checkpoints(lab: Lab) -> Iterator[str]:
    """All checkpoints, as Flink's web UI has them."""
    for row in sorted(lab.checkpoints().itertuples(), key=lambda row: row.id):
        failure = f": {in_one_line(row.failure)}" if row.failure else ""
        discarded = ", discarded" if row.discarded else ""
        unaligned = ", unaligned" if row.unaligned else ""
        acked = f"{row.acked} of {row.total} acknowledged"
        yield f"chk-{row.id} {row.kind} {row.status}, {acked}{unaligned}{discarded}{failure}"


def counts(lab: Lab) -> Iterator[str]:
    """The number of checkpoints by outcome, savepoints included."""
    counted = lab.look.master.checkpoints.statistics.counts
    yield f"{counted.completed} completed, {counted.failed} failed, {counted.in_progress} in progress"
    yield f"{counted.total} in all, {counted.restored} restored"


def subtasks(lab: Lab, name: str) -> Iterator[str]:
    """The statistics of each subtask in a checkpoint."""
    stats = lab.statistics.subtasks(int(name.removeprefix("of ").removeprefix("chk-")))
    for row in stats.itertuples():
        unaligned = ", unaligned" if row.unaligned else ""
        yield f"{row.task} {row.status}{unaligned}"


def pending(lab: Lab) -> Iterator[str]:
    """Pending checkpoints, and the tasks that they wait for."""
    for each in lab.moment().checkpoints.values():
        if each.status == PENDING:
            waits = f"waits for {', '.join(each.missing)}" if each.missing else each.step or "has all acknowledgements"
            yield f"chk-{each.checkpoint_id} {waits}"


def store(lab: Lab) -> Iterator[str]:
    """The completed checkpoints that a restore can use."""
    for each in lab.look.master.checkpoints.store.checkpoints:
        yield f"chk-{each.checkpoint_id}"


def shared(lab: Lab) -> Iterator[str]:
    """The files that checkpoints share, with the checkpoints that wrote and use them, and whether they exist."""
    entries = lab.look.master.checkpoints.store.registry.entries.values()
    for each in sorted(entries, key=lambda each: str(each.handle)):
        name = ", ".join(file.rpartition("/")[2] for file in each.handle.files())
        yield f"{name}: brought by chk-{each.created_by_id}, last used by chk-{each.last_used_id}"
    there = sorted(path.rpartition("/")[2] for path in lab.look.files.contents if "/shared/" in path)
    yield f"on the disk: {', '.join(there) or 'none'}"


def runs(lab: Lab) -> Iterator[str]:
    """The runs of each retained checkpoint with incremental state, oldest first, with the entries that they set or
    remove.
    """
    for checkpoint in lab.look.master.checkpoints.store.checkpoints:
        for state in checkpoint.operator_states.values():
            for subtask, held in sorted(state.subtask_states.items()):
                for handle in held.managed_keyed_state:
                    if isinstance(handle, IncrementalRemoteKeyedStateHandle):
                        where = f"chk-{checkpoint.checkpoint_id} {state.label}/{subtask}"
                        yield f"{where}: {', '.join(_runs(lab, handle))}"


def _runs(lab: Lab, handle: IncrementalRemoteKeyedStateHandle) -> Iterator[str]:
    manifest = StateFiles(lab.look.files.filesystem).read(handle.meta_state)
    for entry in decode_manifest(manifest, f"of {handle!r}") if is_manifest(manifest) else ():
        yield f"{entry.rows} of chk-{checkpoint_of(entry.name)}"


def requests(lab: Lab) -> Iterator[str]:
    """The user's requests, and the answers."""
    for number, (request_id, name) in enumerate(requested(lab), 1):
        yield f"{number}. {name}: {_answer(lab, request_id)}"


def requested(lab: Lab) -> list[tuple[int, str]]:
    """Return the user's requests: number and kind."""
    asked = (
        action for action in lab.past.actions if isinstance(action, ProtocolMessage) and hasattr(action, "request_id")
    )
    return [(action.request_id, type(action).__name__) for action in asked]


def _answer(lab: Lab, number: int) -> str:
    try:
        path = lab.look.answer(number)
    except JobFailedError as error:
        return f"failed: {in_one_line(str(error))}"
    return "no answer yet" if path is None else f"done: {_named(path, lab)}"


def output(lab: Lab, sink: str = "") -> Iterator[str]:
    """The rows that the sink has published so far."""
    with catch_warnings():
        simplefilter("ignore")
        frame = lab.output(sink)
    rows = Counter(" ".join(f"{name}={row[name]}" for name in frame.columns) for row in frame.to_dict("records"))
    for row, times in sorted(rows.items(), key=lambda each: _natural(each[0])):
        yield row if times == 1 else f"{row}  ({times} times)"


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that compares the numbers in a row as numbers."""
    parts = ((is_number, "".join(part)) for is_number, part in groupby(text, str.isdigit))
    return [(int(part) if is_number else 0, "" if is_number else part) for is_number, part in parts]


def files(lab: Lab) -> Iterator[str]:
    """The files on the disk by snapshot, and those to which no snapshot refers."""
    metadata = lab._world.edge.snapshots()
    referred = {file for each in metadata.values() for state in each.operator_states for file in state.files()}
    below = Counter(path.rpartition("/")[0] for root in SNAPSHOTS for path in lab.look.files.paths(root))
    for directory in sorted(below, key=_natural):
        if "/store" in directory:
            continue
        held = [path for path in lab.look.files.paths(directory) if not path.endswith("/_metadata")]
        orphans = [path for path in held if path not in referred]
        complete = "_metadata and " if directory in metadata else ""
        nobodys = f", of which no _metadata tells {len(orphans)}" if orphans else ""
        yield f"{_named(directory, lab)}: {complete}{len(held)} files of state{nobodys}"


def state(lab: Lab, name: str) -> Iterator[str]:
    """The contents of a snapshot on the disk, by operator."""
    metadata = lab._world.edge.snapshots()[snapshot_path(lab, name.removeprefix("of "))]
    names = {operator.operator_id: operator.name for operator in lab.job.operators}
    for operator in metadata.operator_states:
        if operator.fully_finished:
            yield f"{operator.name or names.get(operator.operator_id, operator.label)}: all finished"
            continue
        for subtask, held in sorted(operator.subtask_states.items()):
            contents = "; ".join(_contents(held))
            if contents:
                yield f"{operator.label}/{subtask}: {contents}"
        if operator.coordinator_state is not None:
            yield f"{operator.label}: the state of its coordinator"
    for hook in hook_states(metadata.master_states):
        yield f"hook {hook.name}: version {hook.version}"


def _contents(held: OperatorSubtaskState) -> Iterator[str]:
    if held.finished:
        yield "finished"
    for keyed in held.managed_keyed_state:
        yield f"keyed state of key groups {keyed.key_group_range.start} to {keyed.key_group_range.end}"
    for handle in held.managed_operator_state:
        for name, info in sorted(handle.state_name_to_partition_offsets.items()):
            mode = OperatorStateMode(info.mode).name
            yield f"list {name!r} ({mode}) with {len(info.offsets)} entries"
    for what, in_flight in (("input", held.input_channel_state), ("output", held.result_subpartition_state)):
        if in_flight:
            yield f"{what} in flight on {len(in_flight)} channel{'s' if len(in_flight) > 1 else ''}"


def entries(lab: Lab) -> Iterator[str]:
    """The keyed state that the tasks hold now, by key; with TTL when each entry was accessed."""
    for table in lab.state():
        if table.kind == KEYED:
            for row in sorted(table.rows.to_pylist(), key=lambda row: str(row["key"])):
                accessed = row.get(COLUMN)
                since = "" if accessed is None else f", accessed at {round(accessed.timestamp() * 1_000)} ms"
                yield f"{row['task']}: {table.name} of {row['key']} is {row['value']}{since}"


def restores(lab: Lab) -> Iterator[str]:
    """The state that the last restore assigned to each task."""
    frame = lab.look.restores()
    for row in frame[frame["epoch"] == frame["epoch"].max()].itertuples():
        given = ", ".join(map(str, row[6]))
        groups = row.key_groups
        of_groups = f", key groups {groups[0]} to {groups[1]}" if isinstance(groups, list | tuple) else ""
        entries = row.entries
        of_entries = "" if pd.isna(entries) else f", {entries:g} entries"
        yield f"{row.operator} in {row.task}: {row.kind} of old subtask {given}{of_groups}{of_entries}"


def tasks(lab: Lab) -> Iterator[str]:
    """Each task's execution state, its attempt if its region restarted, and the checkpoint it was restored from."""
    moment = lab.moment()
    for name, task in moment.tasks.items():
        attempt = "" if task.attempt == moment.epoch else f" in attempt {task.attempt}"
        restored = "" if task.restored is None else f", restored from chk-{task.restored}"
        yield f"{name} {task.state}{attempt}{restored}"


def reads(lab: Lab) -> Iterator[str]:
    """The number of files that each task read from its own machine when it started."""
    for record in lab.trace:
        if record.is_a(StateRead) and record.id.startswith(f"{record.machine}@{lab.look.master.epoch}#"):
            yield f"{record.machine}: {record.data['from_local']} files read from its own machine"


def channels(lab: Lab) -> Iterator[str]:
    """The contents of the channels: at the sender, on the wire, in the receiver's queue."""
    moment: Moment = lab.moment()
    ends = {stage.epoch: stage.ends() for stage in lab.look.stages}[moment.epoch]
    for number, channel in sorted(moment.channels.items()):
        places = {"at the sender": channel.queued, "on the wire": channel.wire, "arrived": channel.arrived}
        lines = [f"{place} {', '.join(map(_item, items))}" for place, items in places.items() if items]
        if channel.blocked:
            lines.append("blocked")
        if lines:
            yield f"{ends[number][0]} -> {ends[number][1]}: {'; '.join(lines)}"


def _item(item: Item) -> str:
    return item.kind + (f" chk-{item.checkpoint_id}" if item.checkpoint_id is not None else "")


def time(lab: Lab) -> Iterator[str]:
    """The time."""
    yield f"{lab.look.at_ms} ms"


_ALL = (
    status,
    time,
    tasks,
    channels,
    checkpoints,
    counts,
    pending,
    subtasks,
    store,
    shared,
    runs,
    state,
    entries,
    files,
    requests,
    restores,
    reads,
    output,
)
VIEWS: Mapping[str, Callable[..., Iterator[str]]] = {view.__name__: view for view in _ALL}
"""The views by name, as in `show NAME`."""
_EMPTY = {
    "channels": "nothing is in the channels",
    "entries": "no task holds keyed state",
    "pending": "no checkpoint is pending",
    "reads": "no task has read its state",
    "restores": "nothing was restored",
    "runs": "no retained checkpoint has incremental state",
    "store": "no checkpoint is in the store",
}
TAKES_NAME = ("output", "state", "subtasks")


def show(lab: Lab, what: str) -> list[str]:
    """Return the lines of `show WHAT`, or one that says that there are none. Raises LabError for an unknown view."""
    name, _, rest = what.partition(" ")
    view = VIEWS.get(name)
    if view is None or (rest and name not in TAKES_NAME):
        raise LabError(f"there is no 'show {what}'; there is {', '.join(VIEWS)}")
    arguments: tuple[Any, ...] = (rest,) if rest else ()
    return list(view(lab, *arguments)) or [_EMPTY.get(name, f"no {name}")]
