"""The step from one answer to the next question.

An answer asks for its causes by topic, through the `Inquiry`, which has the function of each topic. So "why is this
channel blocked" may lead to "why does that task have no turn" and back to another channel, and the modules with the
answers do not import each other. Each question is answered once. A question that comes up again while it is being
answered is a cycle of waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from kit.why.evidence import Evidence
from kit.why.fact import Fact

CYCLE = "this closes a cycle of waits"


class Topic(Enum):
    """The topics of questions; the value is the text for a cycle."""

    CHANNEL = "channel {} is blocked"
    QUEUE = "the output queue of channel {} is not sent"
    BARRIER = "barrier {} has not been taken from channel {}"
    BEGIN = "{} has not sent barrier {}"
    TURN = "{} has no turn"
    END = "{} has not finished"
    STATE = "{} is not running"
    ACK = "{} has not acknowledged checkpoint {}"
    CHECKPOINT = "checkpoint {} has not ended"
    ENDED = "checkpoint {} has ended"
    NEXT = "no checkpoint has begun"
    JOB = "the job makes no progress"
    VALUES = "the state of {} is as it is"
    LATE = "late rows were dropped"
    OUTPUT = "the output lacks rows"
    RESTART = "epoch {} began"
    REQUEST = "request {} is not answered"
    REFUSAL = "the refusal {}"
    FAILURE = "the failure {}"


Answer = Callable[..., Fact]


class Inquiry:
    """One question about one moment of a run, and all the questions that it leads to."""

    def __init__(self, evidence: Evidence, answers: Mapping[Topic, Answer]) -> None:
        self.evidence = evidence
        self._answers = answers
        self._known: dict[tuple[Topic, tuple[object, ...]], Fact | None] = {}

    def ask(self, topic: Topic, *about: object) -> Fact:
        """Return the answer to a question."""
        question = topic, about
        if question not in self._known:
            self._known[question] = None
            self._known[question] = self._answers[topic](self, *about)
        answer = self._known[question]
        if answer is None:
            return Fact(f"{CYCLE}: {topic.value.format(*about)}")
        return answer

    def before(self, evidence: Evidence) -> Inquiry:
        """Return an inquiry at an earlier moment."""
        return Inquiry(evidence, self._answers)
