"""The machines' state in a checkpoint, and the statements of pictures at that moment that contradict it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import patch

from kit.core.protocol.messages import AcknowledgeCheckpoint, DeclineCheckpoint
from kit.draw.stage.drawing import Touched
from kit.draw.stage.facts import facts_of
from kit.draw.stage.layout import lay_out
from kit.draw.stage.scene import SceneContext, task_sprites
from kit.draw.views.barriers import draw_barriers
from kit.draw.views.checkpoint_life import draw_checkpoint_life
from kit.hosts.lab import Lab
from kit.machines.task.barrier_tracker import CheckpointBarrierTracker
from kit.machines.task.stream_task import StreamTask
from kit.run.captions import listed
from kit.run.subject import Subject
from kit.why import acknowledgement
from kit.why.phases import phases_of


@dataclass(frozen=True)
class Doing:
    """The phase of one subtask in one pending checkpoint, and the senders whose barriers it has yet to take."""

    phase: str
    awaited: tuple[str, ...] = ()


def doing(lab: Lab, checkpoint: int, name: str) -> Doing | None:
    """Return the phase of a subtask; None if it does not run, or has aborted the checkpoint."""
    if name in lab.look.master.checkpoints.pending[checkpoint].acked_tasks:
        return Doing("acknowledged")
    task = lab.look.tasks.get(name)
    if task is None or not task.is_running:
        return None
    sent = {
        type(message.word)
        for (sender, _), _, message in lab._world.agenda.messages()
        if sender == name and getattr(message.word, "checkpoint_id", None) == checkpoint
    }
    if AcknowledgeCheckpoint in sent or DeclineCheckpoint in sent:
        return Doing("ack" if AcknowledgeCheckpoint in sent else "declined")
    awaited = _awaited(task, checkpoint)
    writing = next((each for each in task.checkpoints.running if each.checkpoint_id == checkpoint), None)
    if writing is not None:
        return Doing("async" if writing.written is None else "in_flight", awaited or ())
    if awaited is not None:
        return Doing("alignment", awaited)
    if _newest(task) >= checkpoint or checkpoint in task.checkpoints._aborted:
        return None
    return Doing("start_delay", tuple(channel.source_task for channel in task.inputs.open_channels))


def _awaited(task: StreamTask, checkpoint: int) -> tuple[str, ...] | None:
    """The senders whose barriers the task's handler waits for; None where it is not collecting them."""
    handler = task.barriers
    if isinstance(handler, CheckpointBarrierTracker):
        count = handler._find(checkpoint)
        if count is None or count.aborted:
            return None
        open_channels = task.inputs.open_channels
        return tuple(each.source_task for each in open_channels if each.number not in count.channels)
    if handler.pending_checkpoint_id != checkpoint:
        return None
    return tuple(channel.source_task for channel in handler.awaited_channels)


def _newest(task: StreamTask) -> int:
    """The newest checkpoint that the task has begun, if only to give it up."""
    handler = task.barriers
    met = (
        handler.latest_checkpoint_id if isinstance(handler, CheckpointBarrierTracker) else handler.current_checkpoint_id
    )
    return max(task.checkpoints.last_checkpoint_id, met)


def untruths(lab: Lab) -> Iterator[str]:
    """Yield false statements of the phases, the barriers, the life of a checkpoint, the panel and the tasks' boxes."""
    subject = Subject(lab)
    moment, pending = subject.moment, lab.look.master.checkpoints.pending
    shown = {each.checkpoint_id: each for each in moment.pending}
    if shown.keys() != pending.keys():
        yield f"pending are {list(pending)}, shown are {list(shown)}"
        return
    for number, truly in pending.items():
        tasks = {*truly.acked_tasks, *truly.not_yet_acked_tasks}
        told = facts_of(moment, Touched(set(), set(), {number}, set()))[f"checkpoint:{number}"]
        says = shown[number].acked, shown[number].expected, told.get("acked"), told["expected"]
        acked = {*truly.acked_tasks}
        if (set(says[0]), set(says[1]), *says[2:]) != (acked, tasks, len(acked), len(tasks)):
            yield f"checkpoint {number}: {sorted(acked)} of {sorted(tasks)} have acknowledged, shown is {says}"
            continue
        yield from _of_tasks(lab, subject, number)
        yield from _of_life(lab, number)


def _of_tasks(lab: Lab, subject: Subject, number: int) -> Iterator[str]:
    with patch.object(acknowledgement, "enumerated", ", ".join):  # all of them, not the first few
        table = phases_of(subject.journeys, number).set_index("task")
    waits = defaultdict(list)
    for wait in draw_barriers(Subject(lab, None, number)).wait_for.waits:
        waits[wait.target].append(wait.source)
    triggered = {task.task for task in lab.look.master.checkpoints.pending[number].plan.tasks_to_trigger}
    for name, row in table.iterrows():
        truly = doing(lab, number, str(name))
        says = f"checkpoint {number} at {name}: {truly}"
        if truly is None:
            if row["waits_for"] and name not in lab.look.tasks:
                yield f"{says}, but it waits for {row['waits_for']}"
            continue
        phase = row["open_phase"] if row["status"] == "unfinished" else row["status"]
        if phase != truly.phase:
            yield f"{says}, phases: {phase}"
        elif name in triggered:
            if truly.phase == "start_delay" and not row["waits_for"].startswith("the trigger"):
                yield f"{says}, phases: it waits for {row['waits_for']}"
        else:
            named = re.findall(r"([\w-]+/\d+) \(", row["waits_for"])
            if sorted(named) != sorted(truly.awaited) or sorted(waits[name]) != sorted(truly.awaited):
                yield f"{says}, phases: it waits for {row['waits_for']}; barriers: for {waits[name]}"
        yield from _of_box(lab, subject, number, str(name), truly, is_triggered=name in triggered)


LINES = {
    "start_delay": "running",
    "async": "writing its state for {}",
    "in_flight": "captures in-flight data",
    "ack": "has sent its ack of {}",
    "acknowledged": "has acknowledged {}",
    "declined": "has declined {}",
}
"""What stands in a task's box, by what it does for the newest checkpoint that it met."""


def _of_box(lab: Lab, subject: Subject, number: int, name: str, truly: Doing, *, is_triggered: bool) -> Iterator[str]:
    known = subject.moment.tasks[name]
    newest, _ = known.checkpoint or (None, "")
    if newest != number or known.frozen or known.state != "RUNNING":
        return
    sprites = dict(task_sprites(lay_out(lab.look.stages[-1]), name, SceneContext.of(subject.moment)))
    line, detail = (sprites.get(f"t:{name}:{part}", {"text": "", "class": ""}) for part in ("line", "detail"))
    box = f"checkpoint {number} at {name}: {truly}, its box: {line['text']!r}, {detail.get('title', detail['text'])!r}"
    if truly.phase != "alignment":
        if line["text"] != LINES[truly.phase].format(number):
            yield box
    elif not is_triggered and line["text"] != "running":  # a barrier that is only announced has not come
        came = len(lab.look.tasks[name].inputs.open_channels) - len(truly.awaited)
        found = re.fullmatch(rf"barrier {number}: (\d+) of (\d+) came", str(line["text"]))
        is_counted = found is not None and int(found[1]) >= came
        awaited = 0 if found is None else int(found[2]) - int(found[1])
        waits_for = f"waits for {listed(truly.awaited)}"
        if not is_counted or awaited != len(truly.awaited) or detail.get("title", detail["text"]) != waits_for:
            yield box


def _of_life(lab: Lab, number: int) -> Iterator[str]:
    """Yield false statements about the missing acknowledgements."""
    truly = lab.look.master.checkpoints.pending[number]
    answer = draw_checkpoint_life(Subject(lab, None, number)).answer()
    missing, every = len(truly.not_yet_acked_tasks), truly.tasks
    told = re.search(r"waits for (\d+) of (\d+) acknowledgements", answer)
    if told is not None and (int(told[1]), int(told[2])) != (missing, every):
        yield f"checkpoint {number}: {missing} of {every} acknowledgements are missing, its life: {answer}"
