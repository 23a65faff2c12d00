"""The words above a still picture, and the JobMaster's panel: the checkpoints under way and those that ended.

A page to step through shows both as text beside the picture, where they stay in view (`stage.js`).
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from kit.draw.stage.layout import Layout
from kit.draw.stage.scene import Named, colour, cut, fit, fit_line, most_characters, rect, text
from kit.run.captions import caption_of, caption_of_moment, listed, lower_first
from kit.run.durations import duration
from kit.run.moments.job_state import ABORTED, COMPLETED, INTERRUPTED, CheckpointMoment, Moment, is_of_the_job_master
from kit.run.reason_words import ended_in_short
from kit.run.sizes import size_text
from kit.run.stage import Stage

PANEL_TOP, PANEL_HEIGHT, GRAPH_TOP = 84, 104, 210
PROGRESS_CELLS, CHIP_WIDTH = 24, 166


@dataclass(frozen=True, slots=True)
class Words:
    """The lines above the picture: what happened, its results, and its cause."""

    what: str
    then: str = ""
    because: str = ""


def words_of(stage: Stage, moment: Moment) -> Words:
    """Describe the moment's last record, naming channels by the tasks that they connect."""
    if moment.record is None:
        return Words(caption_of_moment(moment))
    ends = stage.ends()
    because = "" if moment.cause is None else lower_first(caption_of(moment.cause, ends))
    return words_at_the_end(moment, Words(caption_of(moment.record, ends), because=because))


def words_at_the_end(moment: Moment, words: Words) -> Words:
    """Return the words of a job that has ended: its end and the reason. For any other job, return `words`."""
    ended = _ENDED.get(moment.job)
    if ended is None:
        return words
    then = "" if words.what.startswith("The job is now ") else words.what
    then_words = "; ".join(filter(None, (then, words.then)))
    return Words(f"{ended}: {moment.error}" if moment.job == "FAILED" else ended, then_words, words.because)


_ENDED = {
    "FINISHED": "The job has finished",
    "CANCELED": "The job was cancelled",
    "FAILED": "The job has failed",
    "SUSPENDED": "Another driver runs the job now",
}


def in_two_lines(layout: Layout, words: Words) -> Words:
    """Break a long first line into two lines."""
    what, *rest = wrap(words.what, most_characters(layout.width - 2 * 24, 16, bold=True)) or [""]
    return Words(what, " ".join(rest) or words.then, words.because)


def words_sprites(layout: Layout, words: Words) -> Named:
    """Draw the lines above the picture, cut to its width."""
    width = layout.width - 2 * 24
    yield "what", cut(text("panel", 24, 28, "what", fit(words.what, width, 16, bold=True)), words.what)
    yield "then", cut(text("panel", 24, 49, "then", fit_line(words.then, width, 12.5)), words.then)
    because = f"because {words.because}" if words.because else ""
    yield "because", cut(text("panel", 24, 69, "because", fit_line(because, width, 12.5)), because)


# --- the coordinator --------------------------------------------------------------------------------------------------


def panel_sprites(layout: Layout, moment: Moment) -> Named:
    """Draw the JobMaster's panel: the job's status, its pending checkpoints, and those that ended."""
    right = layout.width - 24
    acting = " acting" if moment.record is not None and is_of_the_job_master(moment.record) else ""
    yield "jm", rect("panel", 24, PANEL_TOP, right - 24, PANEL_HEIGHT, "jm" + acting, 8)
    yield "jm:title", text("panel", 38, PANEL_TOP + 20, "jm-title", "JobMaster, checkpoint coordinator")
    status = "not started" if moment.job == "CREATED" else f"job {moment.job.lower()}"
    classes = "jm-status bad" if moment.job in INTERRUPTED else "jm-status"
    restored = next((restore for restore in reversed(moment.restores) if restore.epoch == moment.epoch), None)
    parts = [status, f"epoch {moment.epoch}"]
    if restored is not None:
        whom = f"{len(restored.tasks)} tasks " if restored.tasks else ""
        parts.append(f"{whom}restored from checkpoint {restored.checkpoint_id}")
    clock = duration(moment.elapsed_ms)
    beside = right - max(96, 28 + 7 * len(clock))
    yield "jm:status", text("panel", beside, PANEL_TOP + 20, classes, ", ".join(parts), "end")
    yield "jm:clock", text("panel", right - 14, PANEL_TOP + 20, "jm-status", clock, "end")
    pending = sorted(moment.pending, key=lambda checkpoint: checkpoint.checkpoint_id)
    if moment.error:
        error = fit_line(moment.error, right - 38 - 14, 12, bold=True)
        yield "jm:error", cut(text("panel", 38, PANEL_TOP + 45, "jm-status bad", error), moment.error)
    elif not pending:
        yield "jm:idle", text("panel", 38, PANEL_TOP + 45, "quiet", "no checkpoint under way")
    for row, checkpoint in enumerate(pending[:2]):
        yield from _progress(layout, checkpoint, row, PANEL_TOP + 34 + row * 19)
    if len(pending) > 2:
        yield "jm:more", text("panel", right - 14, PANEL_TOP + 64, "quiet", f"and {len(pending) - 2} more", "end")
    yield from _history(layout, moment)


def _progress(layout: Layout, checkpoint: CheckpointMoment, row: int, y: float) -> Named:
    name = f"pending{row}"
    number = checkpoint.checkpoint_id
    yield f"{name}:flag", rect("panel", 38, y, 24, 14, f"barrier {colour(number)}", 2)
    yield f"{name}:number", text("panel", 50, y + 10.5, "barrier-number", str(number), "middle")
    kind = "savepoint" if checkpoint.savepoint else "checkpoint"
    yield f"{name}:kind", text("panel", 69, y + 11, "progress", kind)
    total, acked = len(checkpoint.expected), len(checkpoint.expected) - len(checkpoint.missing)
    x = 142.0
    if 0 < total <= PROGRESS_CELLS:
        for index, task in enumerate(checkpoint.expected):
            done = "done" if task in checkpoint.acked else "todo"
            yield f"{name}:{index}", rect("panel", x, y + 1, 10, 12, f"cell {done}", 1.5)
            x += 12.5
    elif total:
        width = PROGRESS_CELLS * 8.0
        yield f"{name}:all", rect("panel", x, y + 1, width, 12, "cell todo", 1.5)
        yield f"{name}:part", rect("panel", x, y + 1, width * acked / total, 12, "cell done", 1.5)
        x += width
    line = f"{acked} of {total} acknowledged" if total else ""
    if checkpoint.step and checkpoint.step != "waiting for acknowledgements":
        line += f"; {checkpoint.step}"
    elif 0 < len(checkpoint.missing) < total:
        line += f"; still to come: {listed(checkpoint.missing)}"
    yield f"{name}:text", text("panel", x + 8, y + 11, "progress", fit(line.lstrip("; "), layout.width - x - 60, 11))


def _history(layout: Layout, moment: Moment) -> Named:
    """Draw a chip for each checkpoint that ended, the newest on the right."""
    y = PANEL_TOP + PANEL_HEIGHT - 27
    ended = [each for _, each in sorted(moment.checkpoints.items()) if each.status in (COMPLETED, ABORTED)]
    room = int((layout.width - 24 * 2 - 28) // (CHIP_WIDTH + 6))
    for slot, checkpoint in enumerate(ended[-room:]):
        x = 38 + slot * (CHIP_WIDTH + 6)
        sign, look, what = "✗", "lost", ended_in_short(checkpoint.reason).replace("checkpoint ", "")
        if checkpoint.status == COMPLETED:
            took = "" if checkpoint.duration_ms is None else duration(checkpoint.duration_ms)
            size = "" if checkpoint.size_bytes is None else f", {size_text(checkpoint.size_bytes)}"
            sign, look, what = "✓", "completed", took + size
        yield f"chip{slot}", rect("panel", x, y, CHIP_WIDTH, 18, f"chip {look}", 9)
        line = fit(f"{sign} {checkpoint.checkpoint_id}: {what}", CHIP_WIDTH - 12, 10.5)
        yield f"chip{slot}:text", text("panel", x + 8, y + 12.5, "chip-text", line)
