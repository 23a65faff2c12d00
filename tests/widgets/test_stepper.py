"""The stepper as Python sees it; what it shows is tested with the exported page, which runs the same module."""

from __future__ import annotations

import pytest

from kit.draw.frames import frames
from kit.protocol.trace import Trace
from tests.draw.labs import lab_of
from tests.draw.script import story
from widgets import Stepper


def test_the_frames_travel_once_and_value_follows() -> None:
    stepper = Stepper(story())
    made = frames(story())
    assert len(stepper.film["frames"]) == len(made)
    stepper.value = 20
    assert stepper.moment.caption == made[20].moment.caption
    assert repr(stepper) == f"Stepper({len(made)} frames, at 20)"


def test_records_alone_say_no_shape() -> None:
    with pytest.raises(ValueError, match="does not say what the job looks like"):
        Stepper(Trace(story()))


def test_a_lab_refreshes() -> None:
    lab = lab_of()
    stepper = Stepper(lab)
    before = len(stepper.film["frames"])
    lab.run_until(checkpoint=1)
    stepper.refresh()
    assert len(stepper.film["frames"]) > before
    assert stepper.value == len(stepper.film["frames"]) - 1
    assert 1 in stepper.moment.checkpoints


def test_a_lab_that_has_not_begun_can_be_shown() -> None:
    assert Stepper(lab_of()).moment.epoch == 1


def test_where_no_widget_can_be_shown_there_is_a_picture() -> None:
    stepper = Stepper(story(), value=30)
    bundle = stepper._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/svg+xml"].startswith("<svg")
    assert data["text/plain"] == repr(stepper)
    assert "application/vnd.jupyter.widget-view+json" in data
