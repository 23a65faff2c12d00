"""The explainer: it answers "why?" with a chain of causes, from the question down to the first cause.

Answers are read from the trace and the shapes of its epochs alone, so a run on a cluster is explained like a lesson in
the lab. A trace without single buffers has fewer facts, and the answer says where they end.

| module | content |
|---|---|
| `questions` | the possible questions, and the topic of each |
| `inquiry` | the step from one answer to the next question |
| `evidence` | the facts of the trace at one moment, from the run's one `Reading` |
| `under_way` | pending commands and messages in flight |
| `waits` | the facts about a pending checkpoint that all answers share: missing acknowledgements, phases, barriers |
| `channels`, `tasks`, `pending`, `acknowledgement`, `ended`, `requests`, `life`, `late`, `output` | the answers |
| `phases`, `wait_for` | the same answers as a table, and as the edges of a graph |
| `fact`, `answer` | an answer as a chain of facts, as text and table; `kit.draw.views.answer` draws it |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.why.answer import Why as Why
    from kit.why.asking import Asking as Asking
    from kit.why.asking import why as why
    from kit.why.fact import Fact as Fact
    from kit.why.questions import WhyError as WhyError

_offer(__name__)
