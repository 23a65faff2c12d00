"""A run has one reading, which everything that shows or explains the run shares; it stays right as the run moves."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

import pytest

import kit
from kit.core.trace.trace import Trace, TraceRecord, keeps_record
from kit.draw import barriers, checkpoint_life
from kit.hosts.lab import Lab, ready_job
from kit.run import reading
from kit.run.moments.job_state import Running
from kit.run.moments.moment import fold, moments
from kit.run.over_time import over_time_of
from kit.run.reading import moment_at, reading_of
from kit.why import WhyError, why
from tests.why.jobs import running


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each record has been folded into a state of the job, wherever that is done."""
    counts: Counter[str] = Counter()

    def counted(moment: Running, records: Iterable[TraceRecord]) -> None:
        seen = list(records)
        counts.update(record.id for record in seen)
        fold(moment, seen)

    for module in list(sys.modules.values()):
        if vars(module).get("fold") is fold and module.__name__ != __name__:
            monkeypatch.setattr(module, "fold", counted)
    return counts


def test_the_explorer_and_all_questions_read_each_record_once(folded: Counter[str]) -> None:
    lab = Lab(ready_job("keyed-sum", rows=60, interval_ms=20), seed=1)
    lab.run_until(checkpoint=1)
    explorer = kit.show(lab)
    lab.why()
    for _ in range(5):
        explorer.step()
        explorer.stepper.selected = "task:sums/0"
        lab.why("sums/1")
    lab.trace.why()
    lab.look.svg()
    assert explorer.session.run.moment == lab.moment() == moment_at(lab.trace)
    assert checkpoint_life(lab).answer()
    assert explorer.error == ""
    assert set(folded) == {record.id for record in lab.trace}
    assert set(folded.values()) == {1}
    explorer.close()


def test_a_step_is_read_once_however_often_one_asks_and_looks(folded: Counter[str]) -> None:
    lab = Lab(ready_job("keyed-sum", rows=60, interval_ms=20), seed=1)
    lab.run_until(checkpoint=1)
    explorer = kit.show(lab)
    for _ in range(3):
        folded.clear()
        known = len(lab.trace)
        explorer.step()
        lab.why()
        lab.trace.why()
        barriers(lab)
        assert dict(folded) == {record.id: 1 for record in lab.trace[known:]}
    explorer.close()


def test_a_fork_shares_what_was_read_before(folded: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MARK_EVERY", 20)
    monkeypatch.setattr(reading, "RECORDS_PER_PART", 0)
    lab = running(interval_ms=20)
    lab.why()
    other, known = lab.fork(), len(lab.trace)
    for each in (lab, other):
        each.step(list(each.enabled())[0 if each is lab else -1])
    folded.clear()
    lab.why()
    other.why()
    assert folded.total() < 2 * 20 < known
    assert reading_of(lab).records == list(lab.trace)
    assert reading_of(other).records == list(other.trace)


def as_new(lab: Lab) -> Trace:
    """The same records as a run that nobody has read."""
    return Trace(list(lab.trace), detailed=True, stages=lab.trace.stages)


def answers(run: Lab | Trace) -> Iterator[str]:
    tasks = moment_at(run).tasks
    for about in (None, "no checkpoint", *tasks):
        try:
            yield str(why(run, about))
        except WhyError as error:
            yield str(error)


def assert_told_as_if_new(*labs: Lab) -> None:
    for lab in labs:
        new = as_new(lab)
        assert moment_at(lab) == list(moments(new))[-1]
        if lab.look.at_ms == moment_at(new).at_ms:  # a lab's clock may be ahead of its records
            assert list(answers(lab)) == list(answers(new))
            assert barriers(lab).to_pandas().equals(barriers(new).to_pandas())


@pytest.mark.parametrize("seed", range(3))
def test_runs_that_go_back_fork_and_go_on_are_told_as_if_read_anew(seed: int) -> None:
    chance, labs = Random(seed), [running(interval_ms=20)]
    for _ in range(10):
        lab = chance.choice(labs)
        match chance.randrange(4):
            case 0:
                lab.back(chance.randrange(1, 25))
            case 1 if len(labs) < 3:
                labs.append(lab.fork())
            case _:
                for _ in range(chance.randrange(1, 15)):
                    lab.step(chance.choice(list(lab.enabled())))
        if chance.random() < 0.7:
            assert_told_as_if_new(*chance.sample(labs, len(labs)))
    assert_told_as_if_new(*labs)


def test_a_view_stays_that_of_its_moment_whatever_the_run_does() -> None:
    lab = running(interval_ms=20)
    lab.run_until(record="CheckpointTriggered")
    for _ in range(6):
        lab.step()
    shown = [checkpoint_life(lab), barriers(lab)]
    numbers, then = over_time_of(lab), over_time_of(as_new(lab))
    before = [each._repr_html_() for each in shown]
    lab.back(4)
    for _ in range(30):
        lab.step(list(lab.enabled())[-1])
    lab.why()
    assert [each._repr_html_() for each in shown] == before
    assert numbers.backlog.equals(then.backlog)
    assert numbers.recoveries.equals(then.recoveries)


def test_a_trace_that_tells_effects_first_is_read_on() -> None:
    lab = running(interval_ms=20)
    lab.run_until(checkpoint=1)
    kept = [record for record in lab.trace if keeps_record(record)]
    trace = Trace(stages=lab.look.stages)
    for start in range(0, len(kept), 40):
        trace.extend(sorted(kept[start : start + 40], key=lambda record: record.machine, reverse=True))
        assert moment_at(trace).n == len(trace)
        assert str(why(trace)) == str(why(Trace(list(trace), stages=lab.look.stages)))
