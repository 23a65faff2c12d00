"""The present state of a lab's tasks as tables: the state of their operators, and the contents of the channels.

Reading it changes nothing, and copies only what is shown. Sources and sinks fill their operator state in
`snapshot_state`, so it is as old as the last checkpoint. Their present state has tables of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.protocol.elements import Buffer, Element, RecordFragment
from kit.core.protocol.tasks import vertex_of
from kit.core.state.handles import OperatorStateMode
from kit.hosts.lab.errors import LabError, enumerated, nearest
from kit.hosts.lab.world.world import World
from kit.machines.task.chain import ChainLink
from kit.machines.task.stream_task import StreamTask
from kit.snapshots.state_tables import (
    BROADCAST,
    IN_FLIGHT,
    KEYED,
    SOURCE,
    SPLIT,
    STAGED,
    TIMERS,
    UNION,
    WINDOWS,
    StateTable,
    StateTables,
)
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.operator_store import BroadcastState, OperatorStateEntry
from kit.stream.backend.states.tables import StateTable as KeyedTable
from kit.stream.backend.timers import TimerService
from kit.stream.connectors.sink import SinkOperator
from kit.stream.operators.sources.source_operator import SourceOperator
from kit.stream.operators.windows.window_operator import WindowOperatorBase

_MODES = {
    OperatorStateMode.SPLIT_DISTRIBUTE: SPLIT,
    OperatorStateMode.UNION: UNION,
    OperatorStateMode.BROADCAST: BROADCAST,
}
_AT_CHECKPOINTS = "as the operator put it there at the last checkpoint or restore"
_QUEUED, _WIRE, _ARRIVED, _HELD = "waits at the sender", "on the wire", "waits at the receiver", "behind the barrier"
_RECOVERED = "recovered, waits at the receiver"

Found = tuple[str, str, str, pa.Table, str]
"""Kind, operator, name, rows, note."""


def state_tables(world: World, task: str | None = None) -> StateTables:
    """Return the state of all tasks, of one task (`sums/1`), or of a vertex (`sums`). Raises LabError for an unknown
    name.
    """
    names = _named(world, task)
    found: dict[tuple[str, str, str], StateTable] = {}
    for name in names:
        for kind, operator, state, rows, note in _of_task(world, world.tasks[name]):
            before = found.get((kind, operator, state))
            whole = rows if before is None else pa.concat_tables([before.rows, rows])
            found[kind, operator, state] = StateTable(kind, operator, state, whole, note)
    about = "all tasks" if task is None else task
    return StateTables(f"State of {about} at {world.at_ms} ms", found.values())


def queue_table(world: World, channel: int | str) -> StateTable:
    """Return the contents of a channel, oldest first, a row per record.

    `channel` is its number, or "left/0 -> sums/0". Raises LabError for an unknown channel.
    """
    if isinstance(channel, str):
        channel = _channel_of(world, channel)
    if channel not in range(world.graph.channel_count):
        there = f"there are {world.graph.channel_count}, counted from 0"
        raise LabError(f"there is no channel {channel!r}; {there}")
    ends = world.graph.channels[channel]
    rows = _elements(world, channel)
    return StateTable(IN_FLIGHT, ends.target_task, f"from {ends.source_task}, channel {channel}", rows)


def _channel_of(world: World, words: str) -> int:
    """Return the number of the first channel from one task to the other."""
    named: dict[str, int] = {}
    for number in range(world.graph.channel_count):
        ends = world.graph.channels[number]
        named.setdefault(f"{ends.source_task} -> {ends.target_task}", number)
    wanted = " -> ".join(part.strip() for part in words.split("->"))
    if wanted not in named:
        raise LabError(f"there is no channel {words!r}; did you mean {enumerated(nearest(wanted, [*named]))}?")
    return named[wanted]


def _named(world: World, task: str | None) -> list[str]:
    names = [name for name in world.tasks if task in (None, name, vertex_of(name))]
    if not names and task is not None:
        if not world.tasks:
            raise LabError(f"no task is there now: the job is {world.master.status.name}")
        raise LabError(f"there is no task {task!r}; did you mean {enumerated(nearest(task, [*world.tasks]))}?")
    return names


def _of_task(world: World, machine: StreamTask) -> Iterator[Found]:
    for link in machine.chain.links:
        if not link.closed:
            for kind, name, rows, note in _of_link(link):
                yield kind, link.name, name, _with_task(rows, machine.name), note
    for channel in machine.inputs:
        if any(True for _ in _places(world, channel.number)):
            rows = _elements(world, channel.number)
            yield IN_FLIGHT, machine.name, f"from {channel.source_task}, channel {channel.number}", rows, ""


def _with_task(rows: pa.Table, task: str) -> pa.Table:
    return rows.add_column(0, "task", pa.array([task] * rows.num_rows, pa.string()))


Part = tuple[str, str, pa.Table, str]


def _of_link(link: ChainLink) -> Iterator[Part]:
    operator = link.operator
    if isinstance(operator, WindowOperatorBase) and link.keyed_state.tables:
        yield WINDOWS, "windows", operator.windows(), ""
    if link.keyed is not None:
        for name, table in sorted(link.keyed.tables.items()):
            yield KEYED, name, _keyed(link.keyed, table), ""
        for name, service in sorted(link.keyed.timer_services.items()):
            yield TIMERS, name, _timers(service, link.max_parallelism), ""
    for name, state in sorted(link.operator_state.states.items()):
        yield _MODES[state.mode], name, _entries(state), _AT_CHECKPOINTS
    if isinstance(operator, SourceOperator):
        yield SOURCE, link.name, _splits(operator), "the splits it holds; the first is the one it reads"
    if isinstance(operator, SinkOperator):
        held = pa.Table.from_pylist([each._asdict() for each in operator.held()], schema=_HELD_SCHEMA)
        yield STAGED, link.name, held, "rows that no complete checkpoint covers, or not published for good"


def _groups(keys: pa.Array, max_parallelism: int) -> pa.Array:
    found = key_groups(keys, max_parallelism) if len(keys) else np.empty(0)
    return pa.array(found.astype(np.int32))


def _keyed(backend: HeapKeyedStateBackend, table: KeyedTable) -> pa.Table:
    rows = backend.all_rows(table)
    groups = _groups(rows["key"].combine_chunks(), backend.max_parallelism)
    rows = rows.add_column(0, "key_group", groups)
    return rows.take(pa.array(np.argsort(groups.to_numpy(), kind="stable"))).combine_chunks()


def _timers(service: TimerService, max_parallelism: int) -> pa.Table:
    tables = []
    for domain, queue in (("event time", service.event_time), ("processing time", service.processing_time)):
        due = queue.entries()
        columns: dict[str, Any] = {
            "domain": pa.array([domain] * len(due.keys), pa.string()),
            "time_ms": pa.array(due.timestamps_ms),
            "key_group": _groups(due.keys, max_parallelism),
            "key": due.keys,
        }
        if due.namespaces is not None:
            columns["namespace"] = due.namespaces
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def _entries(state: OperatorStateEntry) -> pa.Table:
    if isinstance(state, BroadcastState):
        return pa.Table.from_batches(state.batches()).replace_schema_metadata(None)
    elements = pa.array(state.get(), state.element_type)
    return pa.table({"entry": pa.array(range(len(elements)), pa.int64()), "value": elements})


def _splits(operator: SourceOperator) -> pa.Table:
    held = operator.splits
    return pa.table(
        {
            "split": pa.array([json.dumps(split, sort_keys=True) for split, _ in held], pa.string()),
            "position": pa.array([position for _, position in held], pa.int64()),
        }
    )


_HELD_SCHEMA = pa.schema(
    [
        ("state", pa.string()),
        ("part", pa.int64()),
        ("staged_by", pa.int64()),
        ("rows", pa.int64()),
        ("final", pa.string()),
    ]
)


# --- channels ---------------------------------------------------------------------------------------------------------


def _elements(world: World, number: int) -> pa.Table:
    """Return a channel's elements, the next to be taken first; a buffer has a row for each of its records."""
    ends = world.graph.channels[number]
    heads: list[dict[str, Any]] = []
    batches: list[pa.RecordBatch] = []
    at: list[int | None] = []
    for serial, (place, element) in enumerate(_places(world, number)):
        head = {
            "place": place,
            "element": serial,
            "kind": type(element).__name__,
            "checkpoint_id": getattr(element, "checkpoint_id", None),
            "timestamp_ms": getattr(element, "timestamp_ms", None),
            "bytes": element.size_bytes if isinstance(element, Buffer | RecordFragment) else None,
        }
        many = element.rows if isinstance(element, Buffer) else 1
        heads += [head] * many
        if isinstance(element, Buffer):
            first = sum(batch.num_rows for batch in batches)
            batches.append(element.batch)
            at += range(first, first + many)
        else:
            at.append(None)
    rows = pa.Table.from_pylist(heads, schema=_ELEMENTS)
    rows = rows.append_column("record", _records(batches, at))
    rows = rows.add_column(0, "source", pa.array([ends.source_task] * rows.num_rows, pa.string()))
    rows = rows.add_column(1, "channel", pa.array([number] * rows.num_rows, pa.int64()))
    return _with_task(rows, ends.target_task)


_ELEMENTS = pa.schema(
    [
        ("place", pa.string()),
        ("element", pa.int64()),
        ("kind", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


def _records(batches: list[pa.RecordBatch], at: list[int | None]) -> pa.Array:
    if not batches:
        return pa.nulls(len(at))
    whole = pa.Table.from_batches(batches).combine_chunks()
    return pa.concat_arrays([each.to_struct_array() for each in whole.to_batches()]).take(pa.array(at, pa.int64()))


def _places(world: World, number: int) -> Iterator[tuple[str, Element]]:
    ends = world.graph.channels[number]
    receiver, sender = world.tasks.get(ends.target_task), world.tasks.get(ends.source_task)
    if receiver is not None:
        yield from ((_RECOVERED, element) for element in receiver.input.recovered(number))
        channel = receiver.inputs.channel(number)
        queue, held = channel.queue, channel.held
        behind = len(queue) - held
        yield from ((_ARRIVED if place < behind else _HELD, element) for place, element in enumerate(queue))
    yield from ((_WIRE, element) for element in world.queued(number))
    if sender is not None:
        yield from ((_QUEUED, element) for element in sender.outputs.subpartition(number).queue)
