"""Questions of the chapters that the reader answers before the result is shown.

The answers are here and not in the notebooks, where they would stand beside the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question with answers to choose from: `right` is one of them, and `why` explains it.

    Raises ValueError for fewer than two answers, equal ones, and a right answer that is not among them.
    """

    text: str
    answers: tuple[str, ...]
    right: str
    why: str

    def __post_init__(self) -> None:
        if len(self.answers) < 2 or len(set(self.answers)) < len(self.answers) or self.right not in self.answers:
            raise ValueError(
                f"Question: the answers are {list(self.answers)} and the right one is {self.right!r}: give at least "
                "two different answers, with the right one among them"
            )


QUESTIONS: Mapping[str, Question] = {
    "a copy of one moment": Question(
        "You copy all positions and balances at this very moment, and restore them later. Does the bank still hold "
        "400 euros?",
        ("yes", "probably not"),
        "probably not",
        "The sources would continue behind the postings that were on their way, so these would be in no account. For "
        "some transfers the money has left one account and never reaches the other. That is why a checkpoint is needed "
        "even with a single channel: positions and state must fit each other. A checkpoint keeps the state "
        "consistent. It does not mark single records as done.",
    ),
    "without alignment": Question(
        "What will be wrong with this checkpoint?",
        ("money will be missing", "there will be too much money", "one or the other"),
        "one or the other",
        "The checkpoint has too many postings, but each of them may take money or add it. \u201cAt least once\u201d "
        "promises that no record is lost. It does not promise that no money is lost.",
    ),
    "without the in-flight data": Question(
        "How many euros will the bank hold in the end?",
        (
            "400",
            "400 minus those in the row \u201cstored in flight\u201d",
            "400 plus those in the row \u201cstored in flight\u201d",
        ),
        "400 minus those in the row \u201cstored in flight\u201d",
        "Those postings are in no balance, and no source sends them again.",
    ),
    "the price of alignment": Question(
        "By which factor will the durations of an aligned and of an unaligned checkpoint differ?",
        ("about two", "about ten", "about a hundred"),
        "about ten",
        "An aligned barrier waits behind both queues: about 2 x 16 buffers, at 12 ms each, are about 400 ms. An "
        "unaligned barrier waits for a few turns of the task.",
    ),
    "a declined checkpoint": Question(
        "Three of four subtasks have written their parts. What happens now?",
        (
            "the checkpoint completes without the fourth part",
            "the checkpoint is aborted, and the three parts are deleted",
            "the three parts are kept, and the fourth is written again",
        ),
        "the checkpoint is aborted, and the three parts are deleted",
        "One term of the invariant is missing: for the bank, the balances of some accounts. The job goes on, if it "
        "tolerates the failure.",
    ),
    "a lost acknowledgement": Question(
        "What notices that the acknowledgement is lost?",
        ("the subtask that sent it", "the next barrier", "the timeout of the checkpoint"),
        "the timeout of the checkpoint",
        "No record is lost: the next checkpoint covers the same records. A failure before that repeats more work.",
    ),
    "an unknown result of the store": Question(
        "May the coordinator delete the files of this checkpoint?",
        ("yes", "no"),
        "no",
        "If the store has the entry, the next driver restores exactly this checkpoint and needs its files. If the "
        "store does not have it, the files cost only space.",
    ),
    "the tasks that go back": Question(
        "Which tasks go back, and to what?",
        (
            "those of worker 1, to checkpoint 1",
            "all tasks, to checkpoint 1",
            "all tasks, to the half of checkpoint 2 that exists",
        ),
        "all tasks, to checkpoint 1",
        "If only the tasks of worker 1 went back, the others would count the records again that the sources send "
        "again. In the bank, a transfer would be half booked.",
    ),
    "the latest checkpoint": Question(
        "To which of the two does the job return?",
        ("to checkpoint 1", "to savepoint 2"),
        "to checkpoint 1",
        "A savepoint is not in the store, so a restart does not find it.",
    ),
    "an older checkpoint": Question(
        "Will the job use the older one?",
        ("yes", "no"),
        "no",
        "The output of the time between the two checkpoints is published already. Going further back would publish it "
        "a second time, so the job fails and leaves the decision to you.",
    ),
}
"""By the name that a chapter uses."""


def question(name: str) -> Question:
    """Return the question of this name. Raises ValueError for an unknown name."""
    if name not in QUESTIONS:
        raise ValueError(f"no question is called {name!r}: there are {', '.join(map(repr, QUESTIONS))}")
    return QUESTIONS[name]
