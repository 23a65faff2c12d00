"""The history of a value in keyed state: the steps that changed it, found by repeating the run.

A lab's run can be repeated, so no history is stored. A copy of the lab goes back to the beginning of the epoch, takes
the same steps, and reads the value whenever its task has handled an event. This costs as much as the steps did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.protocol.elements import Buffer
from kit.core.protocol.events import StateRead
from kit.core.protocol.tasks import vertex_of
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.world.actions import ReceiveElement
from kit.hosts.lab.world.world import World
from kit.machines.task.chain import ChainLink
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.graph.partitioners import key_array
from kit.why import Fact, Why, WhyError
from kit.why.evidence import Evidence
from kit.why.fact import MOST, fact
from kit.why.values import beginning, origin

ROWS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: the task that owns the key, the operator in it, and the name of the state."""

    task: str
    operator: str
    state: str
    key: Any

    def __str__(self) -> str:
        return f"{self.state} of key {self.key!r} in {self.task}"

    def read(self, world: World) -> Any:
        """Return the present value, by namespace if the state has any; None if it has none."""
        task = world.tasks.get(self.task)
        if task is None:
            return None
        for link in task.chain.links:
            if link.operator_id == self.operator and link.keyed is not None:
                table = link.keyed.tables.get(self.state)
                return None if table is None else _value(link.keyed.all_rows(table), self.key)
        return None


def _value(rows: pa.Table, key: Any) -> Any:
    own = [place for place, each in enumerate(rows["key"].to_pylist()) if _same(each, key)]
    if not own:
        return None
    rows = rows.take(pa.array(own))
    values = rows["value"].to_pylist()
    return dict(zip(rows["namespace"].to_pylist(), values)) if "namespace" in rows.column_names else values[0]


@dataclass(frozen=True, slots=True)
class Change:
    """A step that changed the value: the value before and after, the event, the element taken with it and its rows."""

    before: Any
    after: Any
    event: TraceRecord
    element: TraceRecord | None
    rows: list[Any]


def places(world: World, key: Any, state: str | None, about: str | None) -> list[Place]:
    """Return the places where a key may have a value, limited to this state, task or operator if given."""
    found = []
    for task, machine in world.tasks.items():
        for link in machine.chain.links:
            if about not in (None, task, link.name, vertex_of(task)) or not _owns(link, key):
                continue
            names = [] if link.keyed is None else list(link.keyed.tables)
            found += [Place(task, link.operator_id, name, key) for name in names if state in (None, name)]
    return found


def _owns(link: ChainLink, key: Any) -> bool:
    """Return True if a key belongs to this subtask of a keyed operator."""
    if link.keyed is None:
        return False
    try:
        if not isinstance(key, tuple):
            key = pa.scalar(key, link.keyed.key_type).as_py()
        group = assign_to_key_group(key, link.max_parallelism, link.keyed.key_type)
    except (TypeError, ValueError, pa.ArrowException):
        return False
    return group in link.key_group_range


def why_value(lab: Any, evidence: Evidence, key: Any, state: str | None, about: str | None) -> Why:
    """Explain a value by the steps that changed it. Raises WhyError if no state has the key, or several have."""
    world: World = lab._world
    found = places(world, key, state, about)
    if len(found) != 1:
        there = ", ".join(f"state={each.state!r} of {each.task}" for each in found)
        if found:
            raise WhyError(f"key {key!r} is in several states: {there}; say which")
        links = (link for machine in world.tasks.values() for link in machine.chain.links)
        known = sorted({name for link in links if link.keyed is not None for name in link.keyed.tables})
        raise WhyError(f"no keyed state holds key {key!r}; states are {', '.join(known) or 'none'}")
    (place,) = found
    now = place.read(world)
    changes = list(history(lab, place))
    facts = [_fact_of(evidence, place, change) for change in changes[::-1][:MOST]]
    if len(changes) > MOST:
        facts.append(Fact(f"{len(changes) - MOST} earlier turns changed it before"))
    facts.append(_first(evidence, place, changes[0].before if changes else now))
    what = "has no value" if now is None else f"is {now}"
    return Why(f"Why is the {place} what it is?", fact(f"the {place} {what}", *facts))


def _fact_of(evidence: Evidence, place: Place, change: Change) -> Fact:
    before = "nothing" if change.before is None else change.before
    after = "nothing" if change.after is None else change.after
    if change.element is None:
        led = evidence.cause(change.event)
        because = None if led is None else fact(evidence.caption(led), record=led)
        return fact(f"{before} became {after}: {evidence.caption(change.event)}", because, record=change.event)
    source, _ = evidence.ends[change.element.data["channel"]]
    shown = ", ".join(map(str, change.rows[:ROWS_SHOWN]))
    more = f" and {len(change.rows) - ROWS_SHOWN} more" if len(change.rows) > ROWS_SHOWN else ""
    taken = f"{place.task} took {shown}{more} of {source}" if shown else f"{place.task} took an element of {source}"
    return fact(f"{before} became {after}: {taken}", origin(evidence, change.element), record=change.event)


def _first(evidence: Evidence, place: Place, value: Any) -> Fact:
    """Return the fact about the value at the beginning of the epoch."""
    began = beginning(evidence, place.task)
    if value is None:
        return fact(f"there was none when epoch {evidence.moment.epoch} began", began)
    return fact(f"it was {value} when epoch {evidence.moment.epoch} began", began)


def history(lab: Any, place: Place) -> Iterator[Change]:
    """Yield the changes of a value since its task was restored, oldest first."""
    actions = lab.past.actions
    other = lab.fork()
    other.goto(_beginning_of_epoch(other))
    other._undone = []
    elements: dict[str, tuple[TraceRecord, Any]] = {}
    value = place.read(other._world)
    for action in actions[other.position :]:
        arriving = other._world.queued(action.channel)[:1] if isinstance(action, ReceiveElement) else []
        step = other._do(action)
        own = [record for record in step.records if record.machine == place.task and record.role == "event"]
        if arriving and own:
            elements[own[0].id] = own[0], arriving[0]
        before, value = value, place.read(other._world) if own else value
        if own and value != before and not any(record.is_a(StateRead) for record in own):
            received, element = elements.get(own[0].cause, (None, None))
            rows: list[Any] = []
            if received is not None and isinstance(element, Buffer):
                rows = _own_rows(other._world, place, received.data["channel"], element.batch)
            yield Change(before, value, own[0], received, rows)


def _beginning_of_epoch(lab: Any) -> int:
    """Return the number of the step before the present epoch."""
    steps = range(1, lab.position)
    return 1 + bisect_left(steps, lab.look.master.epoch, key=lambda step: lab.goto(step).look.master.epoch)


def _own_rows(world: World, place: Place, channel: int, batch: pa.RecordBatch) -> list[Any]:
    """Return the rows of a buffer that have the key."""
    gates = world.graph.task(place.task).gates
    columns = next((gate.edge.key_columns for gate in gates if channel in gate.channels), ())
    rows = batch.to_pylist()
    if not columns:
        return rows
    return [row for row, key in zip(rows, key_array(batch, columns).to_pylist()) if _same(key, place.key)]


def _same(stored: Any, key: Any) -> bool:
    """Return True if a stored key, possibly of several columns, equals the given one."""
    return bool(stored == key or (isinstance(stored, dict) and tuple(stored.values()) == key))
