"""A reading that grows with its run knows what one that is made now knows: forwards, back, and another way."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kit.core.trace.trace import Trace, keeps_record
from kit.hosts.lab import Lab, ready_job
from kit.run import reading
from kit.run.moments.moment import moments
from kit.run.reading import Reading, reading_of
from tests.why.jobs import running


def told(read: Reading) -> tuple[object, ...]:
    moment, records = read.moment_at(), read.records
    answers = [[each.id for each in read.answers(record)] for record in records]
    kinds = [each.id for each in read.of_kinds(sorted({record.kind for record in records}))]
    return kinds, answers, dict(moment.tasks), dict(moment.channels), dict(moment.checkpoints), dict(moment.messages)


def test_a_lab_that_goes_back_and_another_way_is_read_on() -> None:
    lab, chance = running(interval_ms=20), Random(1)
    found = Reading(lab)
    for _ in range(12):
        lab.back(chance.randrange(1, 20))
        for _ in range(chance.randrange(5, 25)):
            lab.step(chance.choice(list(lab.enabled())))
        found = found.follow(lab)
        assert told(found) == told(Reading(lab))


def test_of_two_answers_to_a_command_a_run_that_goes_back_keeps_the_first() -> None:
    lab = Lab(ready_job("keyed-sum", rows=60, interval_ms=20), seed=1)
    lab.run_until(checkpoint=1)
    for name in ("sums/0", "sums/1"):
        lab.faults.duplicate(f"duplicate NotifyCheckpointComplete of chk-1 from job to {name}")
    commands = [record for record in lab.trace if record.kind == "NotifyCheckpointComplete"]
    lab.run_until(checkpoint=2)
    twice = [record for record in commands if len(reading_of(lab).answers(record)) == 2]
    assert len(twice) == 2
    for command in sorted(twice, key=lambda record: reading_of(lab).answers(record)[1].at_ms, reverse=True):
        first, second = reading_of(lab).answers(command)
        lab.goto(lab.past.position_of(list(lab.trace).index(second) + 1) - 1)
        assert second not in list(lab.trace)
        assert list(reading_of(lab).answers(command)) == [first]


def test_a_moment_in_the_past_is_the_moment_of_that_part() -> None:
    lab = running(interval_ms=20)
    lab.run_until(checkpoint=2)
    found = Reading(lab)
    made = list(moments(lab))
    for n in range(0, len(lab.trace), 37):
        assert found.moment_at(n) == made[n]
        assert list(found.of_kind("CheckpointPending", n)) == [
            each for each in lab.trace[:n] if each.kind == "CheckpointPending"
        ]


def test_records_come_with_the_moment_before_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MARK_EVERY", 50)
    monkeypatch.setattr(reading, "RECORDS_PER_PART", 0)
    lab = running(interval_ms=20)
    lab.run_until(checkpoint=2)
    found = Reading(lab)
    places = [0, 1, 40, 49, 50, 51, 130, len(lab.trace) - 1]
    for record, moment in found.with_moments([lab.trace[place] for place in places]):
        assert moment.now() == replace(found.moment_at(found.position(record)), cause=None)


def test_effects_that_are_told_before_their_causes_find_their_place() -> None:
    lab = running(interval_ms=20)
    kept = [record for record in lab.trace if keeps_record(record)]
    machines = sorted({record.machine for record in kept}, reverse=True)
    trace, found = Trace(stages=lab.look.stages), Reading()
    for machine in machines:
        trace.extend([record for record in kept if record.machine == machine])
        found = found.follow(trace)
        assert told(found) == told(Reading(trace))
    assert len(found.records) == len(kept)
