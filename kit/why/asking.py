"""The public API of "why?", which a lab, a job on Spark and a trace share. `Named` has its parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from kit.core.trace.showing import Showing

if TYPE_CHECKING:
    from kit.why.answer import Why
    from kit.why.evidence import Evidence

F = TypeVar("F", bound=Callable[..., "Why"])


class Named(TypedDict, total=False):
    """The subject of a question by name. A task with a checkpoint means its acknowledgement; a channel with a
    checkpoint means the barrier on that channel.
    """

    task: str | None
    channel: int | None
    checkpoint: int | None
    request: int | None
    epoch: int | None


def named_by(names: type) -> Callable[[F], F]:
    """Show the parameters of a function's `**named`, those of `names`, in its signature, and so also on Shift+Tab."""

    def show(function: F) -> F:
        own = signature(function)
        kept = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        types: dict[str, Any] = {name: getattr(of, "__forward_arg__", of) for name, of in names.__annotations__.items()}
        shown = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=of) for name, of in types.items()]
        whole = own.replace(parameters=[*kept, *shown])

        @wraps(function)
        def checked(*arguments: Any, **named: Any) -> Why:
            whole.bind(*arguments, **named)  # the TypeError names the unknown argument
            return function(*arguments, **named)

        checked.__signature__ = whole  # type: ignore[attr-defined]
        return cast(F, checked)

    return show


@named_by(Named)
def why(run: Any, about: object = None, **named: Unpack[Named]) -> Why:
    """Explain something in a Lab, a SparkJob or a Trace by its chain of causes, as far as the trace has them.

    `about` is one of these, or a few words that contain one:

    - a task ("sums/1") or a channel ("letters/0 -> sums/1");
    - "checkpoint 3", "no checkpoint", "request 4", "refused", "restart", "job";
    - "late rows" (also "of sums", or of a task), "output out".

    It may also be an object: a record of the trace, a checkpoint, a task, a channel. The arguments by name are `task`,
    `channel` (a number), `checkpoint` (an id), `request` (a number) and `epoch`. A task with a checkpoint means its
    acknowledgement; a channel with a checkpoint means the barrier on it. Without arguments, the answer explains the
    state of the job.

    Raises WhyError for something that the run does not have.
    """
    from kit.why.evidence import Evidence
    from kit.why.questions import answer_to

    return answer_to(Evidence(run), about, **named)


class Asking(Showing):
    """The common base of a Lab and a SparkJob that answers questions."""

    def _evidence(self) -> Evidence:
        from kit.why.evidence import Evidence

        return Evidence(self)

    @named_by(Named)
    def why(self, about: object = None, **named: Unpack[Named]) -> Why:
        """Explain something by its chain of causes, as `kit.why.why` does."""
        return why(self, about, **named)
