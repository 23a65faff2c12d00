"""The student's parts, as the kit and the checks call them; each forwards its calls to the student's process.

`Remote` is a part's other end. It is copied with the machine that has the part, and its digest is that of the part's
state in the student's process, so the lab can go back and `explore` knows equal states.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kit.course.classroom.two_phase_sink import SinkFrame
from kit.course.grading.student import Foreign, Given, Student, Table
from kit.course.grading.surfaces import ACTIONS, FUNCTION, GATES, HANDLER, LEDGER, OPAQUE, SINK, WRITER, Surface
from kit.hosts.lab.world.copying import copy_of
from kit.machines.channel.channel_state.channel_state_capture import ChannelStateCapture
from kit.machines.task.barrier_handler import CheckpointBarrierHandler


class Remote:
    """A part in the student's process."""

    def __init__(
        self, student: Student, name: str, owner: Any, surface: Surface, given: Sequence[Any], named: Mapping[str, Any]
    ) -> None:
        self._student = student
        self._table = Table(owner, surface)
        self._keep(student.new(self._table, name, given, named))

    def _keep(self, number: int) -> None:
        self._number = number
        weakref.finalize(self, self._student.free, number).atexit = False

    def call(self, path: str, *given: Any, **named: Any) -> Any:
        """Call a method."""
        return self._student.call(self._table, self._number, path, given, named)

    def get(self, path: str) -> Any:
        """Return an attribute."""
        return self._student.get(self._table, self._number, path)

    def __deepcopy__(self, memo: dict[int, Any]) -> Remote:
        made = object.__new__(Remote)
        memo[id(self)] = made
        number, items = self._student.copy(self._table, self._number)
        made._student, made._table = self._student, Table()
        made._keep(number)
        made._table.items = [(copy_of(value, memo), surface) for value, surface in items]
        for each, (value, _) in enumerate(made._table.items[1:], 1):
            made._table.known(value, each)
        return made

    def digest_parts(self) -> object:
        """Return what makes two parts equal: their state, and the objects that they know."""
        return self._student.digest(self._table, self._number)


class Handler(CheckpointBarrierHandler):
    """Lab 1."""

    student: Student
    name: str

    def __init__(self, gates: Any, actions: Any, **settings: Any) -> None:
        super().__init__(gates, actions, **settings)
        given = Given(gates, GATES), Given(actions, ACTIONS)
        self._remote = Remote(self.student, self.name, self, HANDLER, given, settings)

    def process_barrier(self, barrier: Any, channel: Any, *, is_rpc: bool = False) -> None:
        self._remote.call("process_barrier", barrier, channel, is_rpc=is_rpc)

    def process_cancellation(self, marker: Any, channel: Any) -> None:
        self._remote.call("process_cancellation", marker, channel)

    def process_end_of_partition(self, channel: Any) -> None:
        self._remote.call("process_end_of_partition", channel)

    @property
    def pending_checkpoint_id(self) -> Any:
        return self._remote.get("pending_checkpoint_id")

    @property
    def awaited_channels(self) -> Any:
        return self._remote.get("awaited_channels")


class Part:
    """A part that derives from nothing; `student` and `name` say whose it is."""

    student: Student
    name: str

    def __init__(self, *given: Any) -> None:
        self._remote = Remote(self.student, self.name, self, OPAQUE, given, {})


class Decider(Part):
    """Lab 2."""

    def __init__(self, max_concurrent: int, min_pause_ms: int, refuse: Any, reschedule: Any) -> None:
        super().__init__(max_concurrent, min_pause_ms, Given(refuse, FUNCTION), Given(reschedule, FUNCTION))

    @property
    def queue(self) -> Any:
        """The requests that wait."""
        return self._remote.get("queue")

    def add(self, request: Any) -> Any:
        """Add a request."""
        return self._remote.call("add", request)

    def choose(self, **facts: Any) -> Any:
        """Choose a request."""
        return self._remote.call("choose", **facts)

    def abort_all(self, why: Any) -> None:
        """Refuse all requests."""
        self._remote.call("abort_all", why)

    def validate(self) -> None:
        """Check the invariants."""


class Pending(Part):
    """Lab 3."""

    def __init__(self, tasks: list[str]) -> None:
        super().__init__(tasks)

    @property
    def states(self) -> Any:
        """The states that are kept."""
        return self._remote.get("states")

    @property
    def to_delete(self) -> Any:
        """The states that are not needed."""
        return self._remote.get("to_delete")

    @property
    def is_complete(self) -> Any:
        """True if all have acknowledged."""
        return self._remote.get("is_complete")

    def acknowledge(self, task: str, state: Any) -> Any:
        """Record an acknowledgement."""
        return self._remote.call("acknowledge", task, state)

    def abort(self) -> None:
        """Abort the checkpoint."""
        self._remote.call("abort")


class Repartitioner(Part):
    """Lab 4."""

    def repartition_state(self, previous: Any, old_parallelism: int, new_parallelism: int) -> Any:
        """Return the handles of each new subtask."""
        given = [list(handles) for handles in previous]
        return self._remote.call("repartition_state", given, old_parallelism, new_parallelism)


class Capture(ChannelStateCapture):
    """Lab 5."""

    student: Student
    name: str

    def __init__(self, writer: Any) -> None:
        super().__init__(writer)
        self._remote = Remote(self.student, self.name, self, OPAQUE, [Given(writer, WRITER)], {})

    def checkpoint_started(self, checkpoint_id: int, channel: Any, queue: Any) -> None:
        self._remote.call(
            "checkpoint_started", checkpoint_id, channel, queue if isinstance(queue, list) else list(queue)
        )

    def element_received(self, channel: Any, element: Any) -> None:
        self._remote.call("element_received", channel, element)

    def checkpoint_stopped(self, checkpoint_id: int, channel: Any) -> None:
        self._remote.call("checkpoint_stopped", checkpoint_id, channel)

    def barrier_overtakes(self, checkpoint_id: int, subpartition: Any, queue: Any) -> None:
        self._remote.call("barrier_overtakes", checkpoint_id, subpartition, queue)


class Sink(SinkFrame):
    """Lab 6."""

    student: Student
    name: str

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self._remote = Remote(self.student, self.name, self, SINK, [Given(spec, OPAQUE)], {})

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        self._remote.call("process_batch", batch, input_index)

    def snapshot_state(self, checkpoint_id: int) -> None:
        self._remote.call("snapshot_state", checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._remote.call("notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._remote.call("notify_checkpoint_aborted", checkpoint_id)

    def effects_committed(self, checkpoint_id: int) -> None:
        self._remote.call("effects_committed", checkpoint_id)

    def restored(self) -> None:
        self._remote.call("restored")

    def open(self) -> None:
        self._remote.call("open")


class Hook(Part):
    """Lab 7."""

    def __init__(self, ledger: Any) -> None:
        super().__init__(Given(ledger, LEDGER))

    @property
    def identifier(self) -> Any:
        """The hook's name."""
        return self._remote.get("identifier")

    @property
    def serializer(self) -> Any:
        """The serializer of its values, if it has one."""
        return Serializer(self._remote) if isinstance(self._remote.get("serializer"), Foreign) else None

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> Any:
        """Return the value of a checkpoint."""
        return self._remote.call("trigger_checkpoint", checkpoint_id, timestamp_ms)

    def restore_checkpoint(self, checkpoint_id: int, value: Any) -> None:
        """Go back to a checkpoint."""
        self._remote.call("restore_checkpoint", checkpoint_id, value)

    def reset(self) -> None:
        """Begin from nothing."""
        self._remote.call("reset")

    def close(self) -> None:
        """End."""
        self._remote.call("close")


class Rescale(Part):
    """Lab 9."""

    def __init__(self) -> None:
        super().__init__()

    def owner(self, key_group: int, max_parallelism: int, parallelism: int) -> Any:
        """Return the owner of a key group."""
        return self._remote.call("owner", key_group, max_parallelism, parallelism)

    def key_groups(self, subtask: int, max_parallelism: int, parallelism: int) -> Any:
        """Return the key groups of a subtask."""
        return self._remote.call("key_groups", subtask, max_parallelism, parallelism)

    def state(self, old: Sequence[tuple[int, int]], mine: tuple[int, int]) -> Any:
        """Return the parts of old files that a new subtask reads."""
        return self._remote.call("state", old, mine)

    def buffers(self, old: Sequence[tuple[int, int]], mine: tuple[int, int]) -> Any:
        """Return the old subtasks whose channels a new one reads."""
        return self._remote.call("buffers", old, mine)

    def keeps(self, key_group: int, mine: tuple[int, int]) -> Any:
        """Return True if a new subtask keeps such a record."""
        return self._remote.call("keeps", key_group, mine)

    def senders(self, subtask: int, old_parallelism: int, new_parallelism: int) -> Any:
        """Return the old senders that a new one takes over."""
        return self._remote.call("senders", subtask, old_parallelism, new_parallelism)


class Serializer:
    """The serializer of a hook."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    @property
    def version(self) -> Any:
        """The version of the bytes."""
        return self._remote.get("serializer.version")

    def serialize(self, value: Any) -> Any:
        """Return a value as bytes."""
        return self._remote.call("serializer.serialize", value)

    def deserialize(self, version: int, data: bytes) -> Any:
        """Return the value of these bytes."""
        return self._remote.call("serializer.deserialize", version, data)


PARTS: dict[str, type] = {
    "align_barriers": Handler,
    "request_decider": Decider,
    "pending_checkpoint": Pending,
    "repartitioner": Repartitioner,
    "unaligned_capture": Capture,
    "two_phase_sink": Sink,
    "master_hook": Hook,
    "rescale": Rescale,
}
"""The part that the checks of a lab take, by their module; those of other labs take functions and values."""


def part_of(student: Student, checks: str, name: str) -> Any:
    """Return what a check is given for the student's global `name`: a part, a function or a value."""
    if checks in PARTS:
        return type(name, (PARTS[checks],), {"student": student, "name": name, "__module__": __name__})
    found = student.value(name)
    return _function(student, name) if callable(found) else found


def _function(student: Student, name: str) -> Callable[..., Any]:
    return partial(student.apply, name)
