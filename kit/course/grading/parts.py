"""The student's parts, as the kit and the checks call them; each forwards its calls to the student's process.

`Remote` is a part's other end. It is copied with the machine that has the part, and its digest is that of the part's
state in the student's process, so the lab can go back and `explore` knows equal states.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
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


def _method(path: str) -> Any:
    """Return a method that calls the student's."""

    def call(self: Any, *given: Any, **named: Any) -> Any:
        return self._remote.call(path, *given, **named)

    return call


def _attribute(path: str) -> Any:
    """Return a property that reads the student's attribute."""
    return property(lambda self: self._remote.get(path))


class Handler(CheckpointBarrierHandler):
    """Lab 1."""

    student: Student
    name: str
    process_barrier = _method("process_barrier")
    process_cancellation = _method("process_cancellation")
    process_end_of_partition = _method("process_end_of_partition")
    pending_checkpoint_id = _attribute("pending_checkpoint_id")
    awaited_channels = _attribute("awaited_channels")

    def __init__(self, gates: Any, actions: Any, **settings: Any) -> None:
        super().__init__(gates, actions, **settings)
        given = Given(gates, GATES), Given(actions, ACTIONS)
        self._remote = Remote(self.student, self.name, self, HANDLER, given, settings)


class Part:
    """A part that derives from nothing; `student` and `name` say whose it is.

    A subclass names the `attributes` and the `methods` that the student writes.
    """

    student: Student
    name: str

    def __init_subclass__(cls, attributes: Sequence[str] = (), methods: Sequence[str] = ()) -> None:
        for each in attributes:
            setattr(cls, each, _attribute(each))
        for each in methods:
            setattr(cls, each, _method(each))

    def __init__(self, *given: Any) -> None:
        self._remote = Remote(self.student, self.name, self, OPAQUE, given, {})


class Decider(Part, attributes=("queue",), methods=("add", "choose", "abort_all")):
    """Lab 2."""

    def __init__(self, max_concurrent: int, min_pause_ms: int, refuse: Any, reschedule: Any) -> None:
        super().__init__(max_concurrent, min_pause_ms, Given(refuse, FUNCTION), Given(reschedule, FUNCTION))

    def validate(self) -> None:
        """Do nothing: the student's process has the state."""


class Pending(Part, attributes=("states", "to_delete", "is_complete"), methods=("acknowledge", "abort")):
    """Lab 3."""


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
    element_received = _method("element_received")
    checkpoint_stopped = _method("checkpoint_stopped")
    barrier_overtakes = _method("barrier_overtakes")

    def __init__(self, writer: Any) -> None:
        super().__init__(writer)
        self._remote = Remote(self.student, self.name, self, OPAQUE, [Given(writer, WRITER)], {})

    def checkpoint_started(self, checkpoint_id: int, channel: Any, queue: Any) -> None:
        self._remote.call(
            "checkpoint_started", checkpoint_id, channel, queue if isinstance(queue, list) else list(queue)
        )


class Sink(SinkFrame):
    """Lab 6."""

    student: Student
    name: str
    process_batch = _method("process_batch")
    snapshot_state = _method("snapshot_state")
    notify_checkpoint_complete = _method("notify_checkpoint_complete")
    notify_checkpoint_aborted = _method("notify_checkpoint_aborted")
    effects_committed = _method("effects_committed")
    restored = _method("restored")
    open = _method("open")

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self._remote = Remote(self.student, self.name, self, SINK, [Given(spec, OPAQUE)], {})


class Hook(Part, attributes=("identifier",), methods=("trigger_checkpoint", "restore_checkpoint", "reset", "close")):
    """Lab 7."""

    def __init__(self, ledger: Any) -> None:
        super().__init__(Given(ledger, LEDGER))

    @property
    def serializer(self) -> Any:
        """The serializer of its values, if it has one."""
        return Serializer(self._remote) if isinstance(self._remote.get("serializer"), Foreign) else None


class Rescale(Part, methods=("owner", "key_groups", "state", "buffers", "keeps", "senders")):
    """Lab 9."""


class Serializer:
    """The serializer of a hook."""

    version = _attribute("serializer.version")
    serialize = _method("serializer.serialize")
    deserialize = _method("serializer.deserialize")

    def __init__(self, remote: Remote) -> None:
        self._remote = remote


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
    return partial(student.apply, name) if callable(found) else found
