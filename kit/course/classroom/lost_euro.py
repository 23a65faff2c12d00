"""Checks of the lab "find the lost euro": a recorded run of a bank in which one posting was lost or counted twice.

A case is a file with the trace of the run, and with what an auditor wrote down: the contents of each completed
checkpoint, and the rows that the job published. Each student has a case of their own (`file_name`). A grader knows the
right answers (`use_cases`); this package has neither the bug nor an answer. Without a grader, the checks compare an
answer with the student's own case as far as the books of the bank go.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pandas as pd

from kit.core.trace.trace import Trace
from kit.course.bank import balances
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.searching import seed
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab.jobs.story_jobs import OPENING_BALANCE, TRANSFERS

BEHIND = "a task counted a posting that came behind a barrier before its checkpoint was taken"
LEFT_OUT = "a task stored its in-flight records without one of them"
STORED_TOO_LATE = "a task stored a posting as in flight that came behind the barrier"
CAUSES = {
    "counted behind the barrier": BEHIND,
    "left out of the in-flight records": LEFT_OUT,
    "stored behind the barrier": STORED_TOO_LATE,
    "state not kept": "the coordinator did not keep the state of a task that had acknowledged",
    "wrong source position": "a source stored a position that is not the one at its barrier",
}
"""What may have happened, by the words of the answer; not all of it did."""
ACCOUNTS = sorted({name for text in TRANSFERS.values() for each in text.split(", ") for name in each.split()[:2]})
TRACE, TABLES = "trace", "tables.json"
Posting = tuple[str, str, int]
"""A branch, an account, and the euros that are added to it."""


@dataclass(frozen=True)
class Answer:
    """The right answer to a case."""

    euros: int
    checkpoint: int
    posting: Posting
    event: str
    cause: str

    @property
    def as_code(self) -> str:
        """The answer as a student writes it."""
        word = next(word for word, cause in CAUSES.items() if cause == self.cause)
        values = {"EUROS": self.euros, "CHECKPOINT": self.checkpoint, "POSTING": self.posting}
        lines = {**values, "EVENT": self.event, "CAUSE": word}
        return "".join(f"{name} = {value!r}\n" for name, value in lines.items())


@dataclass(frozen=True)
class Case:
    """A recorded run of the bank `transfers`, with the tables that its auditor made."""

    trace: Trace
    tables: Mapping[str, Any]

    @property
    def checkpoints(self) -> list[int]:
        """The checkpoints that completed while both branches had transfers to send: their ids, in order."""
        return [int(each) for each in self.tables["checkpoints"]]

    def state(self, checkpoint: int) -> pd.DataFrame:
        """Return the accounts in a checkpoint: account, balance, number of postings, and the task that kept them."""
        return self._table(checkpoint, "state")

    def positions(self, checkpoint: int) -> pd.DataFrame:
        """Return for each branch the number of transfers that it had sent ahead of the barrier."""
        return self._table(checkpoint, "positions")

    def in_flight(self, checkpoint: int) -> pd.DataFrame:
        """Return the postings that a checkpoint stored as in flight: branch, task, place, account and amount.

        `task` is the task to which the posting was under way. The postings of a channel are in the order of sending.
        """
        return self._table(checkpoint, "in flight")

    @cached_property
    def output(self) -> pd.DataFrame:
        """The rows that the job published: account, balance and postings after each posting."""
        return pd.DataFrame(self.tables["output"])

    def transfers(self, branch: str, number: int) -> pd.DataFrame:
        """Return the first transfers of a branch in the order in which it sends them: payer, payee and amount."""
        return pd.DataFrame(transfers_of(branch, number))

    def _table(self, checkpoint: int, name: str) -> pd.DataFrame:
        tables = self.tables["checkpoints"].get(str(checkpoint))
        if tables is None:
            raise KeyError(f"checkpoint {checkpoint} did not complete; these did: {self.checkpoints}")
        return pd.DataFrame(tables[name])

    def save(self, path: Path) -> None:
        """Write the case to a file."""
        with tempfile.TemporaryDirectory() as directory, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            self.trace.save(Path(directory) / TRACE)
            for name, data in (
                (TRACE, (Path(directory) / TRACE).read_bytes()),
                (TABLES, json.dumps(self.tables).encode()),
            ):
                file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)

    @classmethod
    def load(cls, path: Path) -> Case:
        """Return the case that `save` wrote."""
        with tempfile.TemporaryDirectory() as directory, zipfile.ZipFile(path) as file:
            trace = Trace.load(file.extract(TRACE, directory))
            return cls(trace, json.loads(file.read(TABLES)))

    def __repr__(self) -> str:
        return f"Case({len(self.trace)} records, checkpoints {self.checkpoints})"


def transfers_of(branch: str, number: int) -> list[dict[str, Any]]:
    """Return the first transfers of a branch. Raises KeyError for an unknown branch."""
    made = [each.split() for each in TRANSFERS[branch].split(", ")]
    rows = (made[at % len(made)] for at in range(number))
    return [{"payer": payer, "payee": payee, "amount": int(amount)} for payer, payee, amount in rows]


def tables_of(run: Any, checkpoint: int) -> dict[str, Any]:
    """Return what an auditor writes down about a checkpoint that has just completed."""
    values = snapshot_contents(run, checkpoint=checkpoint).values
    kept = {table.name: table.to_pandas() for table in values.of("keyed state")}
    state = kept["balance"].merge(kept["postings"], on=["key", "task"], suffixes=("", "_count"))
    return {
        "state": [
            {
                "account": each["key"],
                "balance": int(each["value"]),
                "postings": int(each["value_count"]),
                "task": each["task"],
            }
            for each in state.to_dict("records")
        ],
        "positions": [
            {"branch": table.operator, "position": int(table.to_pandas()["position"].sum())}
            for table in values.of("source position")
        ],
        "in flight": [
            posting
            for table in values.of("in flight")
            for row in table.to_pandas().to_dict("records")
            for posting in _in_flight(table.operator, table.name, row)
        ],
    }


def _in_flight(operator: str, name: str, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the posting of a row of in-flight data: "gate 1 channel 0" of its receiver, or an output of its sender."""
    if not row["record"].startswith("{"):
        return
    numbers = [int(word) for word in name.split() if word.isdigit()]
    if name.startswith("gate"):
        place = {"branch": list(TRANSFERS)[numbers[0]], "task": row["task"], "place": "received"}
    else:
        place = {"branch": operator.partition("-")[0], "task": f"accounts/{numbers[1]}", "place": "not sent yet"}
    yield place | json.loads(row["record"])


def file_name(student: str) -> str:
    """Return the name of the file with the case of a student; it does not show the student's id."""
    return f"{blake2b(student.strip().lower().encode(), digest_size=5).hexdigest()}.case"


_open: list[Case] = []
"""The case that was opened last."""
_answer_to: list[Callable[[int], Answer]] = []
"""The function that returns the right answer for a student's seed; only a grader has it."""


def use_cases(answer_to: Callable[[int], Answer]) -> None:
    """Take the right answers from `answer_to(seed)`, as a grader does; `seed` is that of the student."""
    _answer_to[:] = [answer_to]


def open_case(student: str, directory: str | Path = "cases") -> Case:
    """Open the case of a student. Raises NotYet if the directory has none."""
    path = Path(directory) / file_name(student)
    if not path.exists():
        raise NotYet(f"{path} does not exist: is {student!r} your id as your teacher knows it? 'practice' is for all.")
    _open[:] = [Case.load(path)]
    return _open[0]


def _known() -> Answer | None:
    return _answer_to[0](seed()) if _answer_to else None


def _written(name: str, value: Any) -> None:
    if value is None:
        raise NotYet(f"{name} is not written yet.")


def _whole(name: str, value: Any) -> int:
    _written(name, value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotYet(f"{name} is {value!r}. Expected a whole number.")
    return value


LATER = "Whether it is right is checked when your lab is graded"


def _money() -> int | None:
    """Return the euros that were created in the run, by a grader's answer or else by the case that is open."""
    known = _known()
    if known is not None:
        return known.euros
    if not _open:
        return None
    return int(balances(_open[0].output)["all accounts"]) - OPENING_BALANCE * len(ACCOUNTS)


def _first_wrong() -> int | None:
    """Return the first checkpoint whose books do not add up."""
    known = _known()
    if known is not None:
        return known.checkpoint
    for case in _open:
        for checkpoint in case.checkpoints:
            state, flying = case.state(checkpoint), case.in_flight(checkpoint)
            sent = 2 * int(case.positions(checkpoint)["position"].sum())
            if int(state["postings"].sum()) + len(flying) != sent:
                return checkpoint
    return None


@check
def counts_the_money(euros: Any) -> str:
    """Check the euros that the run has created (positive) or destroyed (negative)."""
    found, right = _whole("EUROS", euros), _money()
    if right is None:
        return f"{found} euros. {LATER}"
    if found == -right:
        raise NotYet(
            f"EUROS is {found}: the number is right and the sign is not. Created is positive, destroyed is negative."
        )
    if found != right:
        raise NotYet(
            f"EUROS is {found}. The four accounts began with {OPENING_BALANCE} euros each: take the last balance of "
            "each account in the output, and compare the sums."
        )
    return f"{abs(right)} euros were {'created' if right > 0 else 'destroyed'}"


@check
def names_the_checkpoint(checkpoint: Any) -> str:
    """Check the first checkpoint that does not account for every posting exactly once."""
    found, right = _whole("CHECKPOINT", checkpoint), _first_wrong()
    if right is None:
        return f"checkpoint {found}. {LATER}"
    if found > right:
        raise NotYet(f"CHECKPOINT is {found}. An earlier one is wrong already: later ones repeat its error.")
    if found < right:
        raise NotYet(
            f"CHECKPOINT is {found}, and its books are right: twice the sum of the positions is the number of postings "
            "in the accounts and in flight."
        )
    return f"checkpoint {found} is the first one that is wrong"


@check
def names_the_posting(posting: Any) -> str:
    """Check the posting that was lost or counted twice."""
    _written("POSTING", posting)
    if not isinstance(posting, tuple | list) or len(posting) != 3:
        raise NotYet(f"POSTING is {posting!r}. Expected (branch, account, amount), such as ('east', 'ann', -30).")
    branch, account, amount = posting
    if branch not in TRANSFERS or (account, amount) not in _postings(branch):
        raise NotYet(f"POSTING is {posting!r}. No such posting is sent: look at case.transfers({branch!r}, 6).")
    known = _known()
    if known is None:
        return f"{amount} euros to {account} from {branch}. {LATER}"
    if (account, amount) != known.posting[1:]:
        raise NotYet(
            f"POSTING is {posting!r}. Compare each account in the first wrong checkpoint with the postings that were "
            "sent up to the positions: one account has a posting too many or too few."
        )
    if branch != known.posting[0]:
        raise NotYet(f"POSTING is {posting!r}: account and amount are right, and the branch is not.")
    return f"{amount} euros to {account} from {branch}"


def _postings(branch: str) -> set[tuple[str, int]]:
    rows = transfers_of(branch, len(TRANSFERS[branch].split(", ")))
    return {(row["payer"], -row["amount"]) for row in rows} | {(row["payee"], row["amount"]) for row in rows}


@check
def names_the_event(event: Any) -> str:
    """Check the event in whose handling the posting was counted, stored or left out."""
    _written("EVENT", event)
    if not isinstance(event, str) or "#" not in event:
        raise NotYet(f"EVENT is {event!r}. Expected the id of an event, such as 'accounts/0@1#12'.")
    if "." in event.rpartition("#")[2]:
        raise NotYet(f"EVENT is {event!r}, which is a command. Expected its event: leave out what is behind the dot.")
    known = _known()
    if known is None:
        if _open and _open[0].trace.find(event) is None:
            raise NotYet(f"EVENT is {event!r}: the trace has no such record.")
        return f"{event}. {LATER}"
    if event == known.event:
        return event
    found, right = event.partition("#"), known.event.partition("#")
    if found[0] != right[0]:
        raise NotYet(f"EVENT is {event!r}, of another task. Which task keeps the account, and in which attempt?")
    when = "later" if found[2].isdigit() and int(found[2]) < int(right[2]) else "earlier"
    raise NotYet(f"EVENT is {event!r}: the task is right, and it happened {when}.")


@check
def names_the_cause(cause: Any) -> str:
    """Check what happened to the posting."""
    _written("CAUSE", cause)
    if cause not in CAUSES:
        raise NotYet(f"CAUSE is {cause!r}. Expected one of {', '.join(map(repr, CAUSES))}.")
    known = _known()
    if known is None:
        return f"{CAUSES[cause]}. {LATER}"
    if CAUSES[cause] != known.cause:
        raise NotYet(
            f"CAUSE is {cause!r}. Is there one posting too many or too few? Is it in the balance, or among the "
            "in-flight records?"
        )
    return CAUSES[cause]
