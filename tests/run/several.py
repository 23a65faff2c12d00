"""What is read from two runs with several of everything: `python -m tests.run.several` writes `several.txt` again.

At some moments, and for each checkpoint: Flink's statistics, the numbers over time, lives, barriers, paths, journeys
and captions. The times are the lab's, so they change with the order of messages; read the output of `git diff` after a
change, whatever else it is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from kit.hosts.lab import Lab
from kit.run.barrier_log import BarrierLog
from kit.run.captions import caption_of
from kit.run.checkpoint_log import CheckpointLog
from kit.run.checkpoint_path import legend_of
from kit.run.checkpoint_words import how_it_went, slow_phases, spans_of_task
from kit.run.journeys import Journeys, journeys
from kit.run.over_time import over_time_of
from kit.run.reading import moment_at, reading_of
from kit.run.redistribution import redistribution, restores_table
from kit.run.run import run_of
from kit.run.stage import stage_for
from tests.several_run import moments
from tests.stored_parts import Part, store
from tests.timed_run import timed_moments

STORED = Path(__file__).with_suffix(".txt")
SHOWN = ("6 and 7 are pending", "the job stops", "readers are paused", "it stops")
"""The moments at which everything is read."""
ENDS = ("the job stops", "it has stopped")
"""The last moments, at which the captions are read."""


def parts() -> Iterator[Part]:
    """Each part with its lines."""
    for moment, lab, _ in chain(moments(), timed_moments()):
        if moment in SHOWN:
            found, log = journeys(lab), CheckpointLog(reading_of(lab))
            read = [*_overview(lab), *_checkpoints(lab, found), _lives(log), _barriers(lab), *_travels(found)]
            yield from ((f"{moment}: {title}", lines) for title, lines in read)
        if moment in ENDS:
            yield f"{moment}: captions", list(_captions(lab))


def _overview(lab: Lab) -> Iterator[Part]:
    """What is said of the whole run."""
    statistics, over_time = lab.statistics, over_time_of(lab)
    for name in ("counts", "latest", "history", "summary", "initialization", "metrics", "task_metrics", "spans"):
        yield name, _rows(getattr(statistics, name))
    yield "operator metrics", _rows(statistics.operator_metrics)
    yield "metrics of operators", _rows(lab.metrics())
    yield "over time: checkpoints", _rows(over_time.checkpoints)
    yield "over time: recoveries", _rows(over_time.recoveries)
    yield "over time: backlog", _rows(over_time.backlog.iloc[::20])
    yield "tasks", _rows(moment_at(lab).to_pandas())
    if lab.moment().restores:
        yield "redistribution", _rows(redistribution(lab))
        yield "restores", _rows(restores_table(lab.trace))


def _checkpoints(lab: Lab, found: Journeys) -> Iterator[Part]:
    """What is said of each checkpoint."""
    for number, known in found.last.checkpoints.items():
        yield f"checkpoint {number}: how it went", [how_it_went(found, known), str(slow_phases(found, known))]
        yield f"checkpoint {number}: detail", _rows(lab.statistics.detail(number))
        yield f"checkpoint {number}: operators", _rows(lab.statistics.operators(number))
        yield f"checkpoint {number}: subtasks", _rows(lab.statistics.subtasks(number))
        spread = lab.statistics.spread(number)
        yield f"checkpoint {number}: spread", _rows(spread[["end_to_end_ms", "full_bytes"]])
        spans = {task: spans_of_task(found, known, task) for task in known.expected}
        yield f"checkpoint {number}: paths", [f"{task}: {_spans(each)}" for task, each in spans.items()]
        legend = legend_of(span for each in spans.values() for span in each)
        yield f"checkpoint {number}: legend", [", ".join(each) for each in legend]


def _spans(spans: list[Any]) -> str:
    return ", ".join(f"{each.look} {each.start_ms}-{each.end_ms}{' open' * each.open}" for each in spans)


def _lives(log: CheckpointLog) -> Part:
    lines = [f"waiting: {[f'{each.label} {each.at_ms}' for each in log.queue]}", f"timers: {log.timers}"]
    for number, life in log.lives.items():
        states = [f"{state.name} {at_ms}" for state, at_ms in life.states]
        lines.append(f"{number}: {life.request} {life.asked_ms} {life.begun_ms} {states} {life.ended} {life.ended_ms}")
        lines += [f"  {each.kind} {each.of} {each.start_ms}-{each.end_ms} {each.error}" for each in life.steps]
    return "lives", lines


def _barriers(lab: Lab) -> Part:
    log = BarrierLog(reading_of(lab))
    lines = [f"{task}: {each.first_ms}-{each.released_ms}" for task, each in log.tasks.items()]
    for number, each in log.paths.items():
        lines.append(f"{number}: {each.queued_ms} {each.sent_ms} {each.taken_ms} {each.blocks} {len(each.overtaken)}")
    return "barriers", lines


def _travels(found: Journeys) -> Iterator[Part]:
    """What travelled: the elements summed, a sample of the messages with all that were lost, and the incidents."""
    figures = ["rows", "queued_ms", "sent_ms", "received_ms", "taken_ms"]
    channels = found.to_pandas().groupby(["epoch", "channel", "sender", "receiver"], sort=False)
    yield "elements of each channel", _rows(channels[figures].sum())
    for number in found.cuts:
        crossing = found.to_pandas(number).groupby(["epoch", "kind", "crossing"], sort=False)
        yield f"elements around the cut of {number}", _rows(crossing[figures].sum())
    incidents = [f"{each.kind} {each.at}: {each.text}" for each in found.marks]
    incidents += [f"epoch {epoch} {at}" for epoch, at in found.epochs.items()]
    incidents += [f"{number} {each.triggered} {each.finished}" for number, each in found.lives.items()]
    incidents += [f"lost: {task} {at}" for task, at in found.losses]
    yield "incidents", incidents
    letters = [f"{each.mail} {each.task} {each.checkpoint_id} {each.sent} {each.over}" for each in found.letters]
    yield "messages", letters[::9] + [line for line, each in zip(letters, found.letters, strict=True) if each.lost]


def _captions(lab: Lab) -> Iterator[str]:
    """The captions of the first and the last record of each kind and role, with the tasks that channels connect."""
    run = run_of(lab)
    kinds: dict[tuple[str, str], list[str]] = {}
    epoch = 0
    for record in run.trace:
        epoch = record.data.get("epoch", epoch) if record.kind == "StateAssigned" else epoch
        ends = stage_for(run.stages, epoch).ends()
        kinds.setdefault((record.kind, record.role), []).append(caption_of(record, ends))
    for (kind, role), captions in kinds.items():
        yield f"{kind} {role}: {captions[0]} | {captions[-1]}"


def _rows(table: pd.DataFrame | pd.Series[Any]) -> list[str]:
    return [line.rstrip(",") for line in table.to_csv().splitlines()]


if __name__ == "__main__":
    store(STORED, parts())
