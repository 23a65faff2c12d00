"""Parts of the protocol that a user may replace: a barrier handler, a request decider, and others.

    class Mine(CheckpointBarrierHandler): ...

    lab = Lab(env, parts=Parts(barrier_handler=Mine))
    explore(env, exactly_once(rows), parts=Parts(barrier_handler=Mine))
    swarm(range(100), job=env.job_graph().with_parts(Parts(barrier_handler=Mine)), faults=["kill"])

Parts belong to the job's graph, so every host that runs the job uses them. Each is checked against its contract
(`UserDefinedPart`). An exception it raises, or a return value of the wrong type, becomes a `PartError` with the part's
name.

All parts are parts of machines. They must use no clock, random number, thread or file, and must keep their state in
their attributes. A function that closes over a part is not copied with it; a bound method is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, ClassVar, Protocol, TypeVar, cast

from kit.core.protocol.words import ProtocolError

T = TypeVar("T")
Factory = Callable[..., object]


class PartError(ProtocolError):
    """A user-defined part broke its contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """User-defined parts that a job uses instead of the built-in ones; None means built-in.

    Each is a function, usually a class, that is called to create one part.

    `barrier_handler(gates, actions, checkpoints_after_tasks_finish=...)` creates a task's
    `kit.machines.task.barrier_handler.CheckpointBarrierHandler`.

    `channel_state_capture(writer)` creates a task's
    `kit.machines.channel.channel_state.channel_state_capture.ChannelStateCapture`: the decision what is in flight when
    a barrier overtakes.

    `request_decider(max_concurrent, min_pause_ms, refuse, reschedule)` creates the job's
    `kit.machines.coordinator.request_decider.RequestDecider`.

    `pending_checkpoint(tasks)` creates a pending checkpoint's record of its tasks
    (`kit.machines.coordinator.own_pending_checkpoint.TaskAcknowledgements`).

    `operator_state_repartitioner()` creates a `kit.machines.restore.own_repartitioner.OperatorStateRepartitioner`.

    A sink is not a part but an operator, and needs nothing here: derive from `kit.CollectSink`, let `create_operator`
    return your own `kit.stream.connectors.sink.SinkOperator`, and pass it to `stream.sink_to`.

    Raises PartError for anything that cannot be called.
    """

    barrier_handler: Factory | None = None
    channel_state_capture: Factory | None = None
    request_decider: Factory | None = None
    pending_checkpoint: Factory | None = None
    operator_state_repartitioner: Factory | None = None

    def __post_init__(self) -> None:
        for name in self.names:
            make = getattr(self, name)
            if not callable(make):
                raise PartError(f"Parts({name}={make!r}): expected a class, or a function that makes one")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the user-defined parts."""
        return tuple(each.name for each in fields(self) if getattr(self, each.name) is not None)

    def __repr__(self) -> str:
        return f"Parts({', '.join(f'{name}={_called(getattr(self, name))}' for name in self.names)})"


class UserDefinedPart:
    """A wrapper that checks a user-defined part against its contract, and names the part in errors.

    `RETURNS` has the types that its methods may return, where that matters. Exceptions from the modules `BEYOND`,
    raised in functions that the part only triggered, pass through unchanged.
    """

    RETURNS: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    BEYOND: ClassVar[frozenset[str]] = frozenset()
    __slots__ = ("_name", "_part")

    def __init__(self, name: str, part: object) -> None:
        self._name = name
        self._part = part

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._named(name, lambda: getattr(self._part, name))
        if not callable(found):
            return found
        return lambda *given, **named: self._returned(name, self._named(name, lambda: found(*given, **named)))

    def _named(self, what: str, do: Callable[[], T]) -> T:
        try:
            return do()
        except PartError:
            raise
        except Exception as error:
            if self._is_beyond(error.__traceback__):
                raise
            message = (
                f"{self._name} of your own, {_called(type(self._part))}: {type(error).__name__} in {what}: {error}"
            )
            raise PartError(message) from error

    def _is_beyond(self, at: TracebackType | None) -> bool:
        while at is not None:
            if at.tb_frame.f_globals.get("__name__") in self.BEYOND:
                return True
            at = at.tb_next
        return False

    def _returned(self, name: str, value: T) -> T:
        expected = self.RETURNS.get(name)
        if expected is not None and not isinstance(value, expected):
            types = " or ".join("None" if each is type(None) else each.__name__ for each in expected)
            raise PartError(
                f"{self._name} of your own, {_called(type(self._part))}: {name} returned {value!r}, expected {types}"
            )
        return value

    def __repr__(self) -> str:
        return self._named("__repr__", lambda: repr(self._part))


def made(name: str, make: Factory, contract: type[T], held: type[UserDefinedPart], *given: Any, **named: Any) -> T:
    """Create the user-defined part, checked against its contract. Raises PartError if it does not fit."""
    try:
        part = make(*given, **named)
    except PartError:
        raise
    except Exception as error:
        raise PartError(f"Parts({name}={_called(make)}): {type(error).__name__} when it was made: {error}") from error
    if not isinstance(part, contract):
        missing = [each for each in _members(contract) if not hasattr(part, each)]
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        what = f"{contract.__module__}.{contract.__name__}"
        raise PartError(f"Parts({name}={_called(make)}) made a {type(part).__name__}{lacks}: expected a {what}")
    return cast(T, held(name, part))


def _members(contract: type) -> list[str]:
    if Protocol in contract.__mro__:
        names = {*vars(contract), *contract.__annotations__}
    else:
        names = getattr(contract, "__abstractmethods__", set())
    return sorted(name for name in names if not name.startswith("_"))


def _called(make: object) -> str:
    return getattr(make, "__qualname__", "") or repr(make)
