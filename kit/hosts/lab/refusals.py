"""The reasons why an action may not happen now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kit.hosts.lab.faults.fault import Fault, not_asked, not_there
from kit.hosts.lab.faults.faults import FileFault
from kit.hosts.lab.world.actions import (
    Action,
    CarryOut,
    DeliverMessage,
    FireTimer,
    LetTimePass,
    ReceiveElement,
    TakeTurn,
    named,
)
from kit.hosts.lab.world.world import World

DRIVER_IS_DEAD = (
    "the driver was killed, and nothing happens in this lab any more; Lab(job, after=lab, recover=True) is the next one"
)


def waiting(world: World) -> Iterator[tuple[Action, str]]:
    """Yield the actions that may not happen yet, each with what it waits for."""
    for each in _awaited(world):
        why_not = refusal(world, each)
        if why_not is not None:
            yield each, why_not


def _awaited(world: World) -> Iterator[Action]:
    yield from (FireTimer(machine, timer) for machine, timer in world.agenda.timers())
    for (sender, receiver), place, message in world.agenda.messages():
        if place == 0:
            yield DeliverMessage(*named(message.word), sender, receiver)
    for number, (machine, asked) in world.agenda.work.items():
        yield CarryOut(machine, *named(asked.word), number)
    for task in world.tasks:
        yield TakeTurn(task)


def stands_still(world: World) -> Iterator[str]:
    """Yield the faults that keep a world from continuing, as sentences."""
    if world.driver_is_dead:
        yield DRIVER_IS_DEAD
    if world.frozen:
        yield f"frozen: worker {', '.join(map(str, sorted(world.frozen)))}; lab.faults.thaw() lets one go on"


def refusal(world: World, action: Action) -> str | None:
    """Return why an action may not happen now, and what it waits for, or None if it may."""
    if world.driver_is_dead and not isinstance(action, FileFault):
        return DRIVER_IS_DEAD
    if isinstance(action, Fault):
        return action.refusal(world)
    if type(action) in _REFUSALS:
        return _REFUSALS[type(action)](world, action)
    raise TypeError(f"{action!r} is nothing that a lab knows how to do")


def _deliver(world: World, action: DeliverMessage) -> str | None:
    first = world.agenda.message(action.sender, action.receiver, 0)
    if first is None:
        return f"nothing is in flight from {action.sender} to {action.receiver}"
    if named(first.word) != (action.message, action.checkpoint_id):
        return f"{type(first.word).__name__} is before it: messages on one way keep their order"
    until_ms = world.agenda.delayed_until(action.sender, action.receiver)
    if until_ms is not None:
        return f"it is held back until {until_ms} ms"
    return _frozen(world, action.receiver)


def _receive(world: World, action: ReceiveElement) -> str | None:
    if not world.agenda.on_wire(action.channel):
        return f"nothing is in flight in channel {action.channel}"
    return _frozen(world, action.task)


def _turn(world: World, action: TakeTurn) -> str | None:
    task = world.tasks.get(action.task)
    if task is None:
        return not_there(world, action.task)
    if not task.available:
        return f"{action.task} is {task.state.name}, and has no input that it may take or no room for what it sends"
    return _frozen(world, action.task)


def _fire(world: World, action: FireTimer) -> str | None:
    due_ms = world.agenda.due_ms(action.machine, action.timer)
    if due_ms is None:
        return f"{action.machine} has set no timer {action.timer}"
    if due_ms > world.at_ms:
        return f"it is due at {due_ms} ms, and it is {world.at_ms} ms now"
    return _frozen(world, action.machine)


def _frozen(world: World, machine: str) -> str | None:
    return f"{machine} is frozen with its worker: thaw it" if machine in world.agenda.held else None


_REFUSALS: dict[type[Action], Callable[[World, Any], str | None]] = {
    DeliverMessage: _deliver,
    ReceiveElement: _receive,
    TakeTurn: _turn,
    CarryOut: lambda world, action: not_asked(world, action.command, action.number) or _frozen(world, action.machine),
    FireTimer: _fire,
    LetTimePass: lambda world, action: None,
}
