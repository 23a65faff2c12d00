"""The subject of a view: a run after some of its records."""

from __future__ import annotations

from kit.run.reading import moment_at
from kit.run.stage import Stage
from kit.run.subject import Subject
from tests.draw.labs import lab_of


def test_a_subject_is_the_run_as_it_was_then() -> None:
    lab = lab_of()
    lab.run()
    subject = Subject(lab, n=100)
    assert len(subject.trace) == subject.moment.n == 100
    assert subject.moment == moment_at(lab, 100)
    assert not subject.is_present
    assert subject.stage.tasks() == Stage.of(lab.trace.stages[0]).tasks()


def test_a_subject_without_a_number_is_the_present() -> None:
    lab = lab_of()
    lab.run()
    subject = Subject(lab)
    assert subject.is_present
    assert subject.checkpoint_id == max(lab.moment().checkpoints)
    assert Subject(lab, checkpoint=2).checkpoint_id == 2
    assert Subject(lab, n=0).checkpoint_id is None
