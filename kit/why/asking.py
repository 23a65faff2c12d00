"""The door: what a lab, a job on Spark and a trace have in common of "why?". `Named` has its parameters, for all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from kit.core.protocol.showing import Showing

if TYPE_CHECKING:
    from kit.why.answer import Why
    from kit.why.evidence import Evidence

F = TypeVar("F", bound=Callable[..., "Why"])


class Named(TypedDict, total=False):
    """What is asked about, by name: a task and a checkpoint ask for its acknowledgement, a channel and a checkpoint for
    its barrier there.
    """

    task: str | None
    channel: int | None
    checkpoint: int | None
    request: int | None
    epoch: int | None


def named_by(names: type) -> Callable[[F], F]:
    """Let a function's signature show the parameters of its `**named`, which are those of `names`, for whoever presses
    Shift+Tab.
    """

    def show(function: F) -> F:
        own = signature(function)
        kept = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        types: dict[str, Any] = {name: getattr(of, "__forward_arg__", of) for name, of in names.__annotations__.items()}
        shown = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=of) for name, of in types.items()]
        whole = own.replace(parameters=[*kept, *shown])

        @wraps(function)
        def asked(*arguments: Any, **named: Any) -> Why:
            whole.bind(*arguments, **named)  # a TypeError names what is none of them
            return function(*arguments, **named)

        asked.__signature__ = whole  # type: ignore[attr-defined]
        return cast(F, asked)

    return show


@named_by(Named)
def why(run: Any, about: object = None, **named: Unpack[Named]) -> Why:
    """Why something in a run is as it is: the chain of causes, as far as the trace tells. `run` is a Lab, a SparkJob
    or a Trace.

    `about` is a task ("sums/1"), a channel ("letters/0 -> sums/1"), "checkpoint 3", "request 4", "restart", "refused",
    "no checkpoint", "job", "late rows" (also "of sums", or of a task), "output out", a few words with one of these in
    them, or an object: a record of the trace, a checkpoint, a task, a channel. By name: `task`, `channel` (a number),
    `checkpoint` (an id), `request` (a number), `epoch`; a task and a checkpoint ask for its acknowledgement, a channel
    and a checkpoint for its barrier there. Without anything: why the job stands where it stands.

    Raises WhyError for what the run does not have.
    """
    from kit.why.evidence import Evidence
    from kit.why.questions import answer_to

    return answer_to(Evidence(run), about, **named)


class Asking(Showing):
    """What a Lab and a SparkJob answer."""

    _evidence: Evidence | None = None
    """What was known when they were last asked: only what is new since then is read."""

    def _known(self) -> Evidence:
        from kit.why.evidence import Evidence

        self._evidence = Evidence(self) if self._evidence is None else self._evidence.now(self)
        return self._evidence

    @named_by(Named)
    def why(self, about: object = None, **named: Unpack[Named]) -> Why:
        """Why something is as it is: the chain of causes, as `kit.why.why` has it."""
        from kit.why.questions import answer_to

        return answer_to(self._known(), about, **named)
