"""Why? The chain of causes behind what a run shows, from the question down to the first cause.

Everything is read from the trace and the shapes of its epochs, nothing else, so a question about a run on a cluster is
answered as one about a lesson. A trace without single buffers tells less; where it ends, the answer says so.

    questions.py    what may be asked, and which topic that is
    inquiry.py      how one answer leads to the next question
    evidence.py     what the trace tells at one moment, from the run's one `Reading`
    under_way.py    what was asked for or sent, and has not come
    waits.py        whose acknowledgement is missing, in which phase its task is, and where the barriers are that it
                    waits for: the facts that all answers about a pending checkpoint share
    channels.py, tasks.py, pending.py, ended.py, requests.py, life.py, late.py, output.py    the answers
    in_short.py, phases.py, wait_for.py    the same answers as sentences, as a table and as the waits of a graph
    fact.py, answer.py    what an answer is: a chain of facts, as text and table; `kit.draw.views.answer` draws it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.why.answer import Why
    from kit.why.asking import Asking, why
    from kit.why.fact import Fact
    from kit.why.questions import WhyError

_offer(
    __name__,
    {
        "kit.why.answer": ["Why"],
        "kit.why.asking": ["Asking", "why"],
        "kit.why.fact": ["Fact"],
        "kit.why.questions": ["WhyError"],
    },
)

__all__ = ["Asking", "Fact", "Why", "WhyError", "why"]
