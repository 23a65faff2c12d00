"""The access of a student's part to the kit in grading: the visible members of objects, and the importable names.

A surface lists values (sent with the object, which does not change), attributes (looked up when they are read) and
methods. Nothing else can be reached from the student's process: no private name, and no other module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.core.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    DataElement,
    EndOfData,
    Watermark,
)
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.handles import (
    InputChannelInfo,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    StateMetaInfo,
)
from kit.course.classroom.find_the_bug import job, wanted
from kit.machines.channel.input_channel import InputChannel
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest
from kit.machines.job.job_master import JobMaster
from kit.verify import explore as exploring
from kit.verify.explore import Exploration, Situation


@dataclass(frozen=True)
class Surface:
    """The visible members of one kind of object."""

    name: str
    values: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def description(self) -> dict[str, object]:
        """The description that the student's process receives."""
        return {
            "name": self.name,
            "classes": self.classes or (self.name,),
            "attributes": self.attributes,
            "methods": self.methods,
        }


OPAQUE = Surface("object")
GATES = Surface("InputGates", attributes=("open_channels", "channels", "[]"))
ACTIONS = Surface(
    "BarrierActions",
    attributes=("at",),
    methods=("trigger_checkpoint_on_barrier", "abort_checkpoint_on_barrier", "all_barriers_received"),
)
WRITER = Surface("CaptureWriter", methods=("add_input_data", "add_output_data"))
FUNCTION = Surface("function", methods=("",))
LEDGER = Surface("Ledger", attributes=("position", "lines"), methods=("append", "cut"))
CONTEXT = Surface("OperatorContext", methods=("stage", "commit", "drop"))
HANDLER = Surface(
    "CheckpointBarrierHandler",
    methods=("_mark_alignment_start", "_mark_alignment_end", "_reset_alignment", "_notify_checkpoint"),
)
SINK = Surface("SinkFrame", attributes=("context",), methods=("file", "remember", "remembered"))

SURFACES: tuple[tuple[Any, Surface], ...] = (
    (InputChannel, Surface("InputChannel", ("number", "source_task"), ("blocked", "ended"), ("block", "resume"))),
    (CheckpointBarrier, Surface("CheckpointBarrier", ("checkpoint_id", "timestamp_ms"))),
    (CancelCheckpointMarker, Surface("CancelCheckpointMarker", ("checkpoint_id",))),
    (Buffer, Surface("Buffer", classes=("Buffer", "DataElement"))),
    (Watermark, Surface("Watermark", ("timestamp_ms",), classes=("Watermark", "DataElement"))),
    (EndOfData, Surface("EndOfData")),
    (DataElement, Surface("DataElement")),
    (InputChannelInfo, Surface("InputChannelInfo")),
    (ResultSubpartitionInfo, Surface("ResultSubpartitionInfo")),
    (
        CheckpointTriggerRequest,
        Surface(
            "CheckpointTriggerRequest", ("timestamp_ms", "number", "periodic", "target", "request_id", "properties")
        ),
    ),
    (JobMaster, Surface("JobMaster", attributes=("checkpoints",))),
    (CheckpointCoordinator, Surface("CheckpointCoordinator", attributes=("pending",))),
    (
        Situation,
        Surface(
            "Situation",
            attributes=("at_rest", "master", "status", "completed"),
            methods=("output", "output_after_failure", "acknowledged", "published", "files"),
        ),
    ),
    (Exploration, Surface("Exploration", attributes=("states", "transitions", "holds", "complete"))),
)
EQUAL = (InputChannelInfo, ResultSubpartitionInfo, CheckpointTriggerRequest)
"""Types whose equal objects are the same one for a part."""
ENUMS: dict[str, Any] = {"CheckpointFailureReason": CheckpointFailureReason, "OperatorStateMode": OperatorStateMode}
VALUES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "CheckpointException": (CheckpointException, ("reason", "detail")),
    "StateMetaInfo": (StateMetaInfo, ("offsets", "mode")),
    "OperatorStreamStateHandle": (OperatorStreamStateHandle, ("state_name_to_partition_offsets", "delegate")),
}
"""Types that a part may make, with their fields."""
MOST_STATES = 300_000
_PROPERTIES = ("always", "sometimes", "eventually")
_READY = [name for name in dir(exploring) if name[0].islower() and name not in (*_PROPERTIES, "explore")]


def _explore(*given: Any, **named: Any) -> Exploration:
    """Explore with a limit, whatever the student asks for."""
    most = named.get("most_states")
    named["most_states"] = min(most, MOST_STATES) if isinstance(most, int) and most > 0 else MOST_STATES
    named["progress"] = False
    named.pop("parts", None)
    return exploring.explore(*given, **named)


FUNCTIONS: dict[str, Any] = {
    **{name: getattr(exploring, name) for name in (*_PROPERTIES, *_READY)},
    "explore": _explore,
    "job": job,
    "wanted": wanted,
}
"""Functions of the kit that a part may call."""


def surface_of(value: object) -> Surface:
    """Return what may be seen of an object."""
    for kind, surface in SURFACES:
        if isinstance(value, kind):
            return surface
    return _OTHERS.get(type(value).__name__, OPAQUE)


_OTHERS = {
    "CheckpointProperties": Surface("CheckpointProperties", ("is_savepoint", "forced")),
    "Effect": Surface("Effect", ("staged", "final")),
    "RecordBatch": Surface("RecordBatch", ("num_rows",)),
}


_OFFERED: dict[str, tuple[str, ...]] = {
    "kit.core.protocol.elements": (
        "Buffer",
        "CancelCheckpointMarker",
        "CheckpointBarrier",
        "DataElement",
        "EndOfData",
        "Watermark",
    ),
    "kit.core.protocol.reasons": ("CheckpointFailureReason", "CheckpointException"),
    "kit.core.state.handles": ("OperatorStateMode", "StateMetaInfo", "OperatorStreamStateHandle"),
    "kit.machines.coordinator.request_decider": ("CheckpointTriggerRequest",),
    "kit.course.classroom.find_the_bug": ("job", "wanted"),
    "kit.verify.explore": tuple(FUNCTIONS),
}
"""The names that a part may import, by module."""


def offers() -> dict[str, dict[str, Any]]:
    """Return the names that a part may import, by module, with what stands for them in the student's process."""
    return {
        **{module: {name: _offer(name) for name in names} for module, names in _OFFERED.items()},
        "kit.machines.task.barrier_handler": {
            "CheckpointBarrierHandler": ["base", ("_gates", "_actions"), HANDLER.methods]
        },
        "kit.machines.channel.channel_state.channel_state_capture": {"ChannelStateCapture": ["base", ("writer",), ()]},
        "kit.course.classroom.two_phase_sink": {"SinkFrame": ["base", ("_spec",), SINK.methods]},
    }


def _offer(name: str) -> list[Any]:
    if name in FUNCTIONS:
        return ["function"]
    if name in ENUMS:
        return ["enum", list(ENUMS[name].__members__)]
    return ["value", VALUES[name][1]] if name in VALUES else ["kind"]
