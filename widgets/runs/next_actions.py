"""Lists of the actions that are possible next in a lab, and of the faults that can or cannot be injected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from kit.hosts.lab import Lab
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import WorkerFault
from kit.hosts.lab.world.actions import Action
from kit.run.sizes import counted
from widgets.runs.explored_run import ExploredRun
from widgets.runs.item import Item

JOB = "job"
WORKER = "Worker "
ELEMENTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\bBuffer\((\d+) rows\)"), lambda found: f"a buffer of {counted(int(found[1]), 'row')}"),
    (re.compile(r"\bCheckpointBarrier\((\d+), \w+\)"), lambda found: f"barrier {found[1]}"),
    (re.compile(r"\bWatermark\(timestamp_ms=(-?\d+)\)"), lambda found: f"watermark {int(found[1]):,} ms"),
    (re.compile(r"\bWatermark\(end of event time\)"), lambda _: "the last watermark"),
    (re.compile(r"\bEndOfData\(.*?\)"), lambda _: "the end of data"),
    (re.compile(r"\bEndOfPartition\(\)"), lambda _: "the end of the stream"),
)
"""How an element of a channel is written in an action, and how it is said to a reader."""


def next_items(lab: Lab) -> list[Item]:
    """Return the possible next actions by machine, each followed by what the machine waits for."""
    actions = chain(((action, "") for action in _enabled(lab)), lab.look.waiting().refused)
    return _by_group(_items(actions, _machine))


def fault_items(lab: Lab) -> list[Item]:
    """Return the faults by the machine that they affect, with those that are not allowed."""
    items = _items(_faults(lab), _whom)
    return _by_group(sorted(items, key=lambda item: not item.group.startswith(WORKER)))


def action_of(lab: Lab, key: str) -> Action:
    """Return the action or fault with this key that is allowed now. Raises KeyError."""
    for action in chain(_enabled(lab), lab.faults.possible()):
        if action.key == key:
            return action
    raise KeyError(f"{key!r} cannot happen at step {lab.position}")


def faults_on(lab: Lab, machine: str) -> Iterator[tuple[Fault, str]]:
    """Yield the faults that affect a machine, each with the reason why it is not allowed now ("" if it is)."""
    stage = lab.look.stages[-1]
    worker = stage.slot_of(machine) if machine in stage.tasks() else None
    for fault, why_not in _faults(lab):
        if fault.subject == machine or (isinstance(fault, WorkerFault) and fault.worker == worker):
            yield fault, why_not


def _faults(lab: Lab) -> Iterator[tuple[Any, str]]:
    """Yield all faults, those that are possible now first, each with the reason why it is not ("" if it is)."""
    faults = lab.faults.possible()
    return chain(((each, "") for each in faults), faults.refused)


def next_on(lab: Lab, machine: str, channel: int | None = None) -> Iterator[tuple[Action, str]]:
    """Yield the possible next actions of a machine, or only the arrivals from one channel."""
    for action in _enabled(lab):
        if action.subject == machine and (channel is None or getattr(action, "channel", None) == channel):
            yield action, ""


def why_none_can_act(explored: ExploredRun) -> str:
    """Return, as a sentence, why no action is possible on the shown run; "" if one is."""
    lab = explored.lab
    if lab is None:
        return "This run is recorded: it can be looked at, not changed."
    if not explored.is_present:
        return ""
    if not can_go_on(lab):
        return f"The job is {lab.status.lower()}, and nothing more can happen. Step back, or start another run."
    return ""


def can_go_on(lab: Lab) -> bool:
    """Return True if any action is still possible in the lab."""
    return bool(lab.enabled()) or lab.look.wait is not None


def _enabled(lab: Lab) -> list[Action]:
    enabled = list(lab.enabled())
    return enabled if enabled or lab.look.wait is None else [lab.look.wait]


def _items(actions: Iterable[tuple[Action, str]], group: Callable[[Action], str]) -> Iterator[Item]:
    for action, why_not in actions:
        yield Item(action.key, label_of(action), group(action), action.text, why_not)


def label_of(action: Action) -> str:
    """Return the action as a sentence for a button."""
    text = action.text
    for written, said in ELEMENTS:
        text = written.sub(said, text)
    return text[:1].upper() + text[1:]


def _machine(action: Action) -> str:
    if action.subject == JOB:
        return "JobMaster"
    return action.subject or action.group.value


def _whom(action: Action) -> str:
    return f"{WORKER}{action.subject}" if isinstance(action, WorkerFault) else _machine(action)


def _by_group(items: Iterable[Item]) -> list[Item]:
    """Sort the items by group, in the order in which the groups first occur."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    return [item for group in groups.values() for item in group]
