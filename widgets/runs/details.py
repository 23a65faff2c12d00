"""The details of the item that was clicked on the stage, and the actions that the kernel offers on it.

The page itself shows the facts of the film about the item (`details.js`). These details add what only the kernel knows:
why the item is in its state at the cursor, the records in its state or queue, and the figures of each subtask. For a
recorded run, only the explanation is known. Faults are offered on the item that they affect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice
from typing import Any

from kit.core.html_tables import frame_html
from kit.core.protocol.notes import AllTasksRunning
from kit.draw.views.checkpoints.state_html import split_name, tables_html
from kit.hosts.lab import Lab, LabError
from kit.hosts.lab.faults.faults import FAULTS, KillWorker, TurnClock
from kit.hosts.lab.world.actions import Action
from kit.hosts.lab.world.schedulers import Adversarial, Scheduler
from kit.machines.job.status import JobStatus
from kit.run.sizes import counted
from kit.snapshots.state_tables import SOURCE, STAGED
from kit.stream.settings.job_settings import NoRestart
from kit.why import Why, WhyError, why
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import JOB, action_of, faults_on, label_of, next_on
from widgets.runs.session import Session

MOST_ROWS, FIRST_FACTS = 30, 5
MOST_OFFERS = 14
HOLD, RELEASE, WHAT_IF = "hold", "release", "what-if"
MESSAGE_FAULTS = {kind.name(): kind.offer for kind in FAULTS.values() if kind.offer}
"""The faults offered on a message, by the method of `lab.faults` that injects them."""


def choose(session: Session, key: str) -> None:
    """Perform an action that was offered on an item."""
    kind, _, rest = key.partition("|")
    if kind == WHAT_IF:
        session.attempt(lambda: _answer(session, int(rest)))
    elif kind in (HOLD, RELEASE):
        session.attempt(lambda: _hold_back(session, rest, hold=kind == HOLD))
    elif kind in MESSAGE_FAULTS:
        session.do(lambda lab: getattr(lab.faults, kind)(rest), f"lab.faults.{kind}({rest!r})")
    else:
        session.do(lambda lab: lab.step(action_of(lab, key)))


def _answer(session: Session, worker: int) -> None:
    lab = session.run.lab_at_cursor
    assert lab is not None
    session.answer = what_if_html(lab, worker)
    session.changed()


def _hold_back(session: Session, words: str, *, hold: bool) -> None:
    lab = session.run.lab_at_cursor
    assert lab is not None
    scheduler = _scheduler(lab, words, hold)

    def choose_otherwise(lab: Lab) -> None:
        lab.scheduler = scheduler

    session.do(choose_otherwise, f"lab.scheduler = {scheduler!r}")


# --- the details ------------------------------------------------------------------------------------------------------


def details_html(explored: ExploredRun, selected: str) -> str:
    """Return the details of an item at the cursor, as HTML in the colours of pictures."""
    kind, _, name = selected.partition(":")
    parts = [_why_html(explored, kind, name)]
    lab = explored.lab_at_cursor
    if lab is not None and kind in ("task", "vertex"):
        parts.append(_state_html(lab, name))
    if lab is not None and kind == "channel":
        parts.append(_queue_html(lab, int(name)))
    if kind == "checkpoint":
        parts.append(_checkpoint_html(explored, int(name)))
    return f'<div class="kit-picture kit-item-details">{"".join(parts)}</div>'


def _why_html(explored: ExploredRun, kind: str, name: str) -> str:
    try:
        if kind == "message":
            record = explored.subject.trace.find(name)
            return "" if record is None else _answer_html(_why(explored, record))
        if kind == "task":
            return _answer_html(_why(explored, task=name))
        if kind in ("channel", "checkpoint"):
            return _answer_html(_why(explored, **{kind: int(name)}))
        return _answer_html(_why(explored)) if kind == JOB else ""
    except WhyError as error:
        return f"<p>{escape(str(error))}</p>"


def _why(explored: ExploredRun, about: object = None, **named: Any) -> Why:
    lab = explored.lab_at_cursor
    return lab.why(about, **named) if lab is not None else why(explored.subject.run, about, **named)


def _answer_html(answer: Why) -> str:
    return answer.html(most=FIRST_FACTS, machines=False)


def _state_html(lab: Lab, name: str) -> str:
    try:
        return f"<h4>What it holds</h4>{tables_html(lab.state(name), MOST_ROWS, name if '/' in name else '')}"
    except LabError as error:
        return f'<p class="kit-quiet">{escape(str(error))}</p>'


def _queue_html(lab: Lab, channel: int) -> str:
    """Return the values of the elements in a channel. The page lists the elements and their places."""
    queue = lab.queue(channel)
    values = queue[queue["record"].notna() | queue["timestamp_ms"].notna()]
    values = values.drop(columns=["task", "source", "channel", "place"]).dropna(axis="columns", how="all")
    return f"<h4>The values in it, first in the queue first</h4>{frame_html(values, MOST_ROWS)}" if len(values) else ""


def _checkpoint_html(explored: ExploredRun, checkpoint_id: int) -> str:
    """Return the figures of each subtask. The page has those of the checkpoint."""
    lab = explored.lab
    if lab is None or not explored.is_present or checkpoint_id not in explored.moment.checkpoints:
        return ""
    wanted = ["task", "status", "start_delay_ms", "alignment_ms", "sync_ms", "async_ms", "end_to_end_ms"]
    wanted += ["checkpointed_bytes", "persisted_bytes"]
    return f"<h4>Subtasks</h4>{frame_html(lab.statistics.subtasks(checkpoint_id)[wanted], MOST_ROWS)}"


# --- what would be ----------------------------------------------------------------------------------------------------


def what_if_html(lab: Lab, worker: int) -> str:
    """Return what would be lost if a worker died now, as a copy of the lab shows."""
    sentences = "".join(f"<li>{escape(each)}</li>" for each in what_if(lab, worker))
    return f'<div class="kit-picture kit-item-details"><h4>If worker {worker} died now</h4><ul>{sentences}</ul></div>'


def what_if(lab: Lab, worker: int) -> Iterator[str]:
    """Yield sentences about the effects of a worker's death, which a copy of the lab tries."""
    other = lab.fork()
    other.faults.kill(worker)
    other.scheduler = Adversarial("turn")  # no source reads before all tasks are back
    pending = [each.checkpoint_id for each in lab.moment().pending]
    try:
        other.run_until(record=AllTasksRunning.__name__)
    except LabError as error:
        yield from _for_good(lab, other, str(error).splitlines()[0])
        return
    restored = other.moment().restores[-1:]
    back = f"checkpoint {restored[0].checkpoint_id}" if restored else "the beginning, because no checkpoint is complete"
    yield f"All tasks would restart from {back}."
    for each in pending:
        yield f"Checkpoint {each}, which is pending, would be lost."
    yield from _read_again(lab, other)
    for table in lab.state().of(STAGED):
        rows = table.to_pandas()
        thrown = int(rows.loc[rows["final"] == "", "rows"].sum()) if len(rows) else 0
        if thrown:
            yield f"{table.operator} would discard {counted(thrown, 'row')} that it has not published."
    yield (
        "No published row would be lost or repeated."
        if lab.job.settings.checkpoint.is_exactly_once
        else "Records since that checkpoint would count twice: the mode is at-least-once."
    )


def _for_good(lab: Lab, other: Lab, error: str) -> Iterator[str]:
    """Yield sentences about the effects if the job does not recover."""
    if isinstance(lab.job.settings.restart, NoRestart) and other.status == JobStatus.FAILED.name:
        yield "The job would fail and not restart: its restart strategy is none. “Another run” can change it."
    else:
        yield f"The job would not recover: {error}"
    newest = lab.look.master.checkpoints.store.latest_id
    yield (
        f"Checkpoint {newest} would remain, and another run can start from it."
        if newest
        else "No checkpoint is complete, so all state would be lost."
    )


def _read_again(lab: Lab, other: Lab) -> Iterator[str]:
    """Yield how far each source would go back."""
    now, then = _positions(lab), _positions(other)
    for (task, split), position in now.items():
        back = then.get((task, split), next((at for (_, name), at in then.items() if name == split), 0))
        if back < position:
            what = f"{counted(position - back, 'row')} of {split_name(split)}"
            yield f"{task} would read {what} again, from row {back} on."


def _positions(lab: Lab) -> dict[tuple[str, str], int]:
    return {
        (row["task"], row["split"]): int(row["position"])
        for table in lab.state().of(SOURCE)
        for row in table.rows.to_pylist()
    }


# --- what is offered --------------------------------------------------------------------------------------------------


def offers(explored: ExploredRun, selected: str) -> Iterator[dict[str, str]]:
    """Yield the possible actions on an item at the cursor, in the form of the stepper's `offers`."""
    lab = explored.lab_at_cursor
    kind, _, name = selected.partition(":")
    if lab is None:
        return
    if kind == "task":
        faults = list(faults_on(lab, name))
        faults.sort(key=lambda each: (bool(each[1]), isinstance(each[0], TurnClock)))  # the likely ones first
        for worker in (fault.worker for fault, why_not in faults if isinstance(fault, KillWorker) and not why_not):
            yield _offer(selected, f"{WHAT_IF}|{worker}", f"What if worker {worker} died now?", "tried out in a copy")
        yield from _of_actions(selected, next_on(lab, name))
        yield from _of_actions(selected, faults)
    elif kind == "channel":
        sender, receiver = lab.look.stages[-1].ends()[int(name)]
        yield from _of_actions(selected, next_on(lab, receiver, channel=int(name)))
        words = f"receive {sender} {receiver}"
        if words in held_back(lab):
            yield _offer(selected, f"{RELEASE}|{words}", "Release it", "the scheduler chooses this channel again")
        else:
            hint = "nothing arrives here while anything else can happen"
            yield _offer(selected, f"{HOLD}|{words}", "Hold it back", hint)
    elif kind == "message" and name in explored.moment.messages:
        for fault, label in MESSAGE_FAULTS.items():
            yield _offer(selected, f"{fault}|{name}", label, "a fault of the network")
    elif kind == JOB:
        yield from _of_actions(selected, next_on(lab, JOB))
        yield from _of_actions(selected, faults_on(lab, JOB))
    elif kind == "checkpoint":
        possible = lab.faults.possible()
        of_it = ((each, "") for each in possible if getattr(each, "checkpoint_id", None) == int(name))
        yield from _of_actions(selected, of_it)


def _offer(on: str, key: str, label: str, hint: str = "", why_not: str = "") -> dict[str, str]:
    return {"key": key, "label": label, "on": on, "hint": hint, "why_not": why_not}


def _of_actions(selected: str, actions: Iterable[tuple[Action, str]]) -> Iterator[dict[str, str]]:
    for action, why_not in islice(actions, MOST_OFFERS):
        yield _offer(selected, action.key, label_of(action), action.text, why_not)


# --- a channel that is held back --------------------------------------------------------------------------------------


def held_back(lab: Lab) -> tuple[str, ...]:
    """Return what the scheduler holds back, in words."""
    held = lab.scheduler.hold_back if isinstance(lab.scheduler, Adversarial) else ()
    return (held,) if isinstance(held, str) else tuple(held) if isinstance(held, list | tuple) else ()


def _scheduler(lab: Lab, words: str, hold: bool) -> Scheduler:
    """Return the scheduler that holds this back, or no longer. Its other choices do not change."""
    before = lab.scheduler
    otherwise = before.otherwise if isinstance(before, Adversarial) else before
    held = (*held_back(lab), words) if hold else tuple(each for each in held_back(lab) if each != words)
    return Adversarial(held, otherwise=otherwise) if held else otherwise
