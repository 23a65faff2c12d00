"""The pending work of the lab, and so its enabled actions, updated incrementally.

Messages between one task and the JobMaster keep their order, and so do the elements of a channel. A timer is due or
not. A pending read or write may finish at any time. A task that can take a turn is listed by its number. For each kind,
the agenda has the numbers of the enabled actions in a fixed order: due timers in the order in which they were first
set, messages by route in the order in which the routes were first used, reads and writes, channels, turns.

So finding and performing the i-th action costs the same in a job of five tasks or of five hundred.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from kit.core.protocol.words import Envelope, ProtocolMessage
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
from kit.machines.channel.ready_numbers import ReadyNumbers
from kit.stream.graph.execution_graph import ExecutionGraph

Way = tuple[str, str]
"""Sender and receiver of messages; machine and name of a timer."""


class Agenda:
    """The pending work between the machines of a lab. `len` counts the enabled actions, without letting time pass;
    `agenda[i]` is the i-th of them.
    """

    def __init__(self) -> None:
        self.at_ms = 0
        self._graph: ExecutionGraph | None = None
        self._numbers = count(1)
        self._mail: dict[Way, tuple[int, deque[Envelope]]] = {}
        self._ways: dict[int, Way] = {}
        self._timers: dict[Way, tuple[int, Envelope]] = {}
        self._set: dict[int, Way] = {}
        self._later: list[tuple[int, int]] = []
        """When timers that were not due when they were set will be, and their numbers; also of some that are gone."""
        self._io: dict[int, tuple[str, Envelope]] = {}
        self._io_numbers = count(1)
        self._awaited: dict[int, int] = {}
        """What waits for something outside the lab, by its number among reads and writes, and when to look for it."""
        self._wires: dict[int, deque[Envelope]] = {}
        """Only channels on which something is under way."""
        self._held: set[str] = set()
        """Machines that stand still: nothing reaches them and nothing is done for them."""
        self._delayed: list[tuple[int, Way, Envelope]] = []
        """Messages that are held back, each with the route and the time until which it is."""
        self._take_turns: list[TakeTurn] = []
        """The turn of each task, by its number: a value, and so made once."""
        self._task_numbers: dict[str, int] = {}
        self._due, self._letters, self._asked, self._sent, self._turns = (ReadyNumbers() for _ in range(5))
        self._kinds: tuple[tuple[ReadyNumbers, Callable[[Agenda, int], Action]], ...] = (
            (self._due, lambda agenda, number: FireTimer(*agenda._set[number])),
            (self._letters, Agenda._message_action),
            (self._asked, Agenda._io_action),
            (self._sent, Agenda._wire_action),
            (self._turns, lambda agenda, number: agenda._take_turns[number]),
        )

    # --- what may happen ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._due) + len(self._letters) + len(self._asked) + len(self._sent) + len(self._turns)

    def __bool__(self) -> bool:
        return bool(self._turns or self._sent or self._letters or self._asked or self._due)

    def __getitem__(self, rank: int) -> Action:
        for ready, action in self._kinds:
            size = len(ready)
            if rank < size:
                return action(self, ready[rank])
            rank -= size
        raise IndexError(rank)

    def __iter__(self) -> Iterator[Action]:
        return (action(self, number) for ready, action in self._kinds for number in ready)

    @property
    def wait(self) -> LetTimePass | None:
        """Return the action that waits for the next timer; None if no timer is set."""
        later = self._later
        while later and not self._is_set(*later[0]):
            heappop(later)
        if self._delayed or self._awaited:
            times = [until_ms for until_ms, _, _ in self._delayed] + [due_ms for due_ms, _ in later[:1]]
            times += [due_ms for due_ms in self._awaited.values() if due_ms > self.at_ms]
            return LetTimePass(min(times)) if times else None
        return LetTimePass(later[0][0]) if later else None

    def allows(self, action: Action) -> bool:
        """Return True if this action, which was enabled earlier, still is."""
        match action:
            case TakeTurn():
                return self._task_numbers.get(action.task, -1) in self._turns
            case ReceiveElement():
                return action.channel in self._wires
            case DeliverMessage():
                return self.message(action.sender, action.receiver, 0) is not None
            case FireTimer():
                return (action.machine, action.timer) in self._timers
            case CarryOut():
                return action.number in (self._asked if action.number in self._awaited else self._io)
        raise KeyError(action)

    def _message_action(self, number: int) -> Action:
        sender, receiver = way = self._ways[number]
        message = self._mail[way][1][0].word
        return DeliverMessage(*named(message), sender, receiver)

    def _io_action(self, number: int) -> Action:
        machine, (command, _) = self._io[number]
        return CarryOut(machine, *named(command), number)

    def _wire_action(self, number: int) -> Action:
        assert self._graph is not None
        channel = self._graph.channels[number]
        return ReceiveElement(number, channel.source_task, channel.target_task, self._wires[number][0].word.element)

    # --- time and timers ------------------------------------------------------------------------------------------

    def advance(self, at_ms: int) -> None:
        """Advance the time: timers become due, and delayed messages may arrive."""
        self.at_ms = at_ms
        while self._later and self._later[0][0] <= at_ms:
            due_ms, number = heappop(self._later)
            if self._is_set(due_ms, number) and self._set[number][0] not in self._held:
                self._due.add(number)
        if self._delayed and min(until_ms for until_ms, _, _ in self._delayed) <= at_ms:
            self._delayed = [each for each in self._delayed if each[0] > at_ms]
            self._look_at_mail()

    def schedule(self, machine: str, timer: Envelope) -> None:
        """Set the timer of a `ScheduleTimer`; replaces one of the same name."""
        due_ms = timer.word.due_ms
        way = (machine, timer.word.timer)
        known = self._timers.get(way)
        number = next(self._numbers) if known is None else known[0]
        self._timers[way] = number, timer
        self._set[number] = way
        if due_ms <= self.at_ms and machine not in self._held:
            self._due.add(number)
        else:
            self._due.discard(number)
            heappush(self._later, (due_ms, number))

    def take_timer(self, machine: str, timer: str) -> Envelope:
        """Remove a timer that fires. Raises KeyError if it is not set."""
        number, taken = self._timers.pop((machine, timer))
        del self._set[number]
        self._due.discard(number)
        return taken

    def timer(self, machine: str, timer: str) -> Envelope | None:
        """Return the `ScheduleTimer` of a timer, due or not; None if it is not set."""
        _, known = self._timers.get((machine, timer), (0, None))
        return known

    def timers(self) -> list[Way]:
        """Return the timers that are set, due or not."""
        return list(self._timers)

    def due_ms(self, machine: str, timer: str) -> int | None:
        """Return the time at which a timer is due; None if it is not set."""
        known = self.timer(machine, timer)
        return None if known is None else int(known.word.due_ms)

    def cancel_timer(self, machine: str, timer: str) -> None:
        """Forget a timer, if it is set."""
        if (machine, timer) in self._timers:
            self.take_timer(machine, timer)

    def _is_set(self, due_ms: int, number: int) -> bool:
        way = self._set.get(number)
        return way is not None and self._timers[way][1].word.due_ms == due_ms

    # --- messages -------------------------------------------------------------------------------------------------

    def post(self, sender: str, receiver: str, message: Envelope) -> None:
        """Send a message."""
        way = (sender, receiver)
        if way not in self._mail:
            number = next(self._numbers)
            self._mail[way] = number, deque()
            self._ways[number] = way
        number, queue = self._mail[way]
        queue.append(message)
        if not (self._held or self._delayed) or self._may_arrive(way, queue):
            self._letters.add(number)

    def place_of(self, sender: str, receiver: str, cause: str) -> int | None:
        """Return the index, on this route, of the message with this id; None if there is none."""
        _, queue = self._mail.get((sender, receiver), (0, ()))
        return next((place for place, message in enumerate(queue) if message.cause == cause), None)

    def take_message(self, sender: str, receiver: str, place: int = 0) -> Envelope:
        """Remove and return the first message on this route, or the one at `place`. Raises KeyError or IndexError if it
        does not exist.
        """
        number, queue = self._mail[sender, receiver]
        message = queue[place]
        del queue[place]
        if not queue:
            self._letters.discard(number)
        if self._delayed or place:
            self._look_at_mail()
        return message

    def duplicate_message(self, sender: str, receiver: str, place: int) -> None:
        """Insert a copy behind the `place`-th message on this route. Raises KeyError or IndexError."""
        queue = self._mail[sender, receiver][1]
        queue.insert(place + 1, Envelope(*queue[place]))

    def insert_message(self, sender: str, receiver: str, place: int, message: Envelope) -> None:
        """Insert a message as the `place`-th on this route. Raises KeyError if nothing is in flight on it."""
        self._mail[sender, receiver][1].insert(place, message)

    def delay_message(self, sender: str, receiver: str, place: int, until_ms: int) -> None:
        """Delay the `place`-th message on this route, and those behind it, until that time. Raises KeyError or
        IndexError if it does not exist.
        """
        self._delayed.append((until_ms, (sender, receiver), self._mail[sender, receiver][1][place]))
        self._look_at_mail()

    def messages(self) -> Iterator[tuple[Way, int, Envelope]]:
        """Yield all messages in flight, by route, with their index on it."""
        for way, (_, queue) in self._mail.items():
            for place, message in enumerate(queue):
                yield way, place, message

    def message(self, sender: str, receiver: str, place: int) -> Envelope | None:
        """Return the `place`-th message on a route; None if there are fewer."""
        _, queue = self._mail.get((sender, receiver), (0, None))
        return queue[place] if queue and place < len(queue) else None

    def delayed_until(self, sender: str, receiver: str) -> int | None:
        """Return the time until which the first message on a route is delayed; None if it is not."""
        _, queue = self._mail.get((sender, receiver), (0, None))
        times = [until_ms for until_ms, _, message in self._delayed if queue and message is queue[0]]
        return max(times, default=None)

    def _may_arrive(self, way: Way, queue: deque[Envelope]) -> bool:
        """Return True if the first message on this route is not delayed."""
        if not queue or way[1] in self._held:
            return False
        return all(message is not queue[0] for _, _, message in self._delayed)

    def _look_at_mail(self) -> None:
        """Recompute the messages that may arrive, after a rare change."""
        for way, (number, queue) in self._mail.items():
            (self._letters.add if self._may_arrive(way, queue) else self._letters.discard)(number)

    # --- reads and writes -----------------------------------------------------------------------------------------

    def begin(self, machine: str, command: Envelope) -> None:
        """Add an asynchronous command of a machine."""
        number = next(self._io_numbers)
        self._io[number] = machine, command
        if machine not in self._held:
            self._asked.add(number)

    def wait_for(self, machine: str, command: Envelope, due_ms: int) -> None:
        """Add a machine's request to be notified of something outside the lab, which is polled from `due_ms` on."""
        number = next(self._io_numbers)
        self._io[number] = machine, command
        self._awaited[number] = due_ms

    def look_for_awaited(self, is_there: Callable[[str, Any], bool]) -> None:
        """Enable the requests whose condition now holds."""
        for number, due_ms in self._awaited.items():
            machine, command = self._io[number]
            if due_ms <= self.at_ms and machine not in self._held and is_there(machine, command.word):
                self._asked.add(number)
            else:
                self._asked.discard(number)

    @property
    def awaits(self) -> bool:
        """True if a machine waits for something outside the lab."""
        return bool(self._awaited)

    def take_io(self, number: int) -> tuple[str, Envelope]:
        """Remove pending work, and return its machine and command. Raises KeyError if it is not pending."""
        self._asked.discard(number)
        self._awaited.pop(number, None)
        return self._io.pop(number)

    def cancel_io(self, is_meant: Callable[[str, ProtocolMessage], bool]) -> None:
        """Cancel pending work that meets the condition."""
        for number in [number for number, entry in self._io.items() if is_meant(entry[0], entry[1].word)]:
            self.take_io(number)

    # --- elements and turns ---------------------------------------------------------------------------------------

    def begin_epoch(self, graph: ExecutionGraph) -> None:
        """Start an epoch with new tasks and empty wires."""
        self._graph = graph
        self._take_turns = [TakeTurn(task.task) for task in graph.tasks]
        self._task_numbers = {task.task: number for number, task in enumerate(graph.tasks)}

    def end_epoch(self, machines: Collection[str]) -> None:
        """Remove the remaining tasks and slots. Messages to those killed before still arrive."""
        self.forget(machines)
        self._wires.clear()
        self._sent.clear()

    def set_turn(self, task: str, available: bool) -> None:
        """Set whether a task can take a turn."""
        (self._turns.add if available else self._turns.discard)(self._task_numbers[task])

    def send(self, sent: Envelope) -> None:
        """Send an element on the channel of its `SendElement`."""
        channel = sent.word.channel
        if channel not in self._wires:
            self._wires[channel] = deque()
            if not self._held or self._receiver(channel) not in self._held:
                self._sent.add(channel)
        self._wires[channel].append(sent)

    def take_element(self, channel: int) -> Envelope:
        """Remove and return the first element on a channel. Raises KeyError if there is none."""
        queue = self._wires[channel]
        sent = queue.popleft()
        if not queue:
            self._empty(channel)
        return sent

    def _empty(self, channel: int) -> None:
        del self._wires[channel]
        self._sent.discard(channel)

    def on_wire(self, channel: int) -> list[Envelope]:
        """Return the elements in flight on a channel."""
        return list(self._wires.get(channel, ()))

    def _receiver(self, channel: int) -> str:
        assert self._graph is not None
        return self._graph.channels[channel].target_task

    @property
    def busy_channels(self) -> list[int]:
        """Return the channels with elements in flight."""
        return list(self._wires)

    @property
    def work(self) -> Mapping[int, tuple[str, Envelope]]:
        """The pending commands, with their machines, by number."""
        return self._io

    # --- standing still -------------------------------------------------------------------------------------------

    @property
    def held(self) -> frozenset[str]:
        """The frozen machines."""
        return frozenset(self._held)

    def hold(self, names: Collection[str]) -> None:
        """Freeze these machines."""
        self._held.update(names)
        self._look_at(names)

    def release(self, names: Collection[str]) -> None:
        """Release these machines; the caller must call `set_turn` for them."""
        self._held.difference_update(names)
        self._look_at(names)

    def _look_at(self, names: Collection[str]) -> None:
        """Recompute the enabled actions of these machines, except their turns."""
        self._look_at_mail()
        for (machine, _), (number, timer) in self._timers.items():
            if machine in names:
                is_due = timer.word.due_ms <= self.at_ms and machine not in self._held
                (self._due.add if is_due else self._due.discard)(number)
        for number, (machine, _) in self._io.items():
            if machine in names and number not in self._awaited:
                (self._asked.discard if machine in self._held else self._asked.add)(number)
        for channel in self._wires:
            if self._receiver(channel) in names:
                (self._sent.discard if self._receiver(channel) in self._held else self._sent.add)(channel)
        for name in names:
            self._turns.discard(self._task_numbers.get(name, -1))

    def forget(self, names: Collection[str]) -> None:
        """Drop the pending work of removed tasks and slots."""
        self._held.difference_update(names)
        self._delayed = [each for each in self._delayed if not {*each[1]} & {*names}]
        for way in [way for way in self._mail if way[0] in names or way[1] in names]:
            number, _ = self._mail.pop(way)
            del self._ways[number]
            self._letters.discard(number)
        for machine, timer in [way for way in self._timers if way[0] in names]:
            self.take_timer(machine, timer)
        self.cancel_io(lambda machine, command: machine in names)
        for number in self.busy_channels:
            assert self._graph is not None
            channel = self._graph.channels[number]
            if channel.source_task in names or channel.target_task in names:
                self._empty(number)
        for name in names:
            self._turns.discard(self._task_numbers.get(name, -1))

    # --- copying --------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, object]) -> Agenda:
        """Return another agenda in the same state; messages and graphs are immutable, and shared."""
        other = Agenda()
        other.at_ms, other._graph = self.at_ms, self._graph
        other._numbers, other._io_numbers = copy.copy(self._numbers), copy.copy(self._io_numbers)
        other._mail = {way: (number, queue.copy()) for way, (number, queue) in self._mail.items()}
        other._ways, other._timers, other._set = dict(self._ways), dict(self._timers), dict(self._set)
        other._later = [each for each in self._later if self._is_set(*each)]
        heapify(other._later)
        other._io, other._awaited = dict(self._io), dict(self._awaited)
        other._held, other._delayed = set(self._held), list(self._delayed)
        other._wires = {channel: queue.copy() for channel, queue in self._wires.items()}
        other._take_turns, other._task_numbers = self._take_turns, self._task_numbers
        for (mine, _), (others, _) in zip(self._kinds, other._kinds):
            for number in mine:
                others.add(number)
        return other
