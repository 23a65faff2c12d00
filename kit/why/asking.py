"""The door: what a lab, a job on Spark and a trace have in common of "why?"."""

from __future__ import annotations

from typing import Any

from kit.protocol.showing import Showing
from kit.why.answer import Why
from kit.why.evidence import Evidence
from kit.why.questions import answer_to


def why(
    run: Any,
    about: object = None,
    *,
    task: str | None = None,
    channel: int | None = None,
    checkpoint: int | None = None,
    request: int | None = None,
    epoch: int | None = None,
) -> Why:
    """Why something in a run is as it is: the chain of causes, as far as the trace tells. `run` is a Lab, a SparkJob
    or a Trace.

    `about` is a task ("sums/1"), a channel ("letters/0 -> sums/1"), "checkpoint 3", "request 4", "restart", "refused",
    "no checkpoint", "job", a few words with one of these in them, or an object: a record of the trace, a checkpoint, a
    task, a channel. By name: `task`, `channel` (a number), `checkpoint` (an id), `request` (a number), `epoch`; a task
    and a checkpoint ask for its acknowledgement, a channel and a checkpoint for its barrier there. Without anything:
    why the job stands where it stands.

    Raises WhyError for what the run does not have.
    """
    named = {"task": task, "channel": channel, "checkpoint": checkpoint, "request": request, "epoch": epoch}
    return answer_to(Evidence(run), about, **named)


class Asking(Showing):
    """What a Lab and a SparkJob answer."""

    _evidence: Evidence | None = None
    """What was known when they were last asked: only what is new since then is read."""

    def _known(self) -> Evidence:
        self._evidence = Evidence(self) if self._evidence is None else self._evidence.now(self)
        return self._evidence

    def why(
        self,
        about: object = None,
        *,
        task: str | None = None,
        channel: int | None = None,
        checkpoint: int | None = None,
        request: int | None = None,
        epoch: int | None = None,
    ) -> Why:
        """Why something is as it is: the chain of causes, as `kit.why.why` has it."""
        named: dict[str, Any] = {
            "task": task,
            "channel": channel,
            "checkpoint": checkpoint,
            "request": request,
            "epoch": epoch,
        }
        return answer_to(self._known(), about, **named)
