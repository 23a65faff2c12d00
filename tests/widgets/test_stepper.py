"""The stepper as Python sees it; what it shows is tested with the exported page and JupyterLab, which run the same
module.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kit.core.trace.trace import Trace
from kit.draw import frames
from kit.hosts.spark import SparkJob
from kit.run.captions import caption_of_moment
from tests.draw.labs import lab_of, letters
from tests.draw.script import story
from widgets import Stepper


def last(stepper: Stepper) -> int:
    return len(stepper.film["frames"]) - 1


def test_the_frames_travel_once_and_value_follows() -> None:
    stepper = Stepper(story())
    made = frames(story())
    assert len(stepper.film["frames"]) == len(made)
    stepper.value = 20
    assert caption_of_moment(stepper.moment) == caption_of_moment(made[20].moment)
    assert repr(stepper) == f"Stepper({len(made)} frames, at 20)"


def test_it_opens_at_the_present_of_whatever_it_is_given(tmp_path: Path) -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    saved = Trace.load(lab.trace.save(tmp_path / "run.jsonl"))
    for run in (lab, lab.trace, lab.trace[:100], saved):
        stepper = Stepper(run)
        assert stepper.value == last(stepper)
        assert stepper.moment.n == len(run.trace if run is lab else run)
    assert Stepper(lab, value=0).moment.n == 0
    for begun in (lab_of(), SparkJob(letters())):
        assert Stepper(begun).moment.epoch == 1


def test_the_step_of_a_frame_is_the_one_that_the_lab_counts() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    stepper = Stepper(lab)
    assert f"step {stepper.film['frames'][-1]['step']}," in repr(lab)
    for frame in stepper.film["frames"][9::40]:
        assert len(lab.fork().goto(frame["step"]).trace) >= frame["n"] > len(lab.fork().goto(frame["step"] - 1).trace)
    assert stepper.film["frames"][0]["step"] == 0
    assert "step" not in Stepper(lab.trace).film["frames"][-1]


def test_value_and_cursor_keep_together() -> None:
    stepper = Stepper(story())
    made = frames(story())
    assert stepper.n == made[-1].moment.n
    stepper.value = 12
    assert stepper.n == made[12].moment.n
    stepper.n = made[20].moment.n - 1
    assert stepper.value == 19
    assert stepper.n == made[20].moment.n - 1
    stepper.n = 0
    assert stepper.value == 0


def test_what_somebody_chose_is_heard() -> None:
    stepper = Stepper(story())
    chosen: list[str] = []
    stepper.on_act(chosen.append)
    stepper._handle_custom_msg({"do": "kill"}, [])
    assert chosen == ["kill"]


def test_what_is_no_run_is_told_how_to_become_one() -> None:
    with pytest.raises(TypeError, match=r"StreamEnvironment.*Lab\(env\) or SparkJob\(env\) makes a run of it"):
        Stepper(letters())
    with pytest.raises(ValueError, match="does not say what the job looks like"):
        Stepper(Trace(story()))


def test_who_looks_at_the_present_goes_on_with_the_lab() -> None:
    lab = lab_of()
    stepper = Stepper(lab)
    before = last(stepper)
    lab.run_until(checkpoint=1)
    assert last(stepper.refresh()) > before
    assert stepper.value == last(stepper)
    assert 1 in stepper.moment.checkpoints
    lab.goto(20)
    assert stepper.refresh().value == last(stepper) < before + 40
    assert stepper.moment.n == len(lab.trace)


def test_who_went_back_stays_there() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    stepper = Stepper(lab)
    stepper.value = 12
    there = stepper.moment.n
    lab.run()
    assert stepper.refresh().moment.n == there
    assert stepper.value < last(stepper)
    lab.goto(2)
    assert stepper.refresh().moment.n == len(lab.trace) < there


def test_the_frame_is_one_of_those_shown_even_when_the_lab_is_elsewhere() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    stepper = Stepper(lab)
    shown = stepper.frame.words
    lab.goto(2)
    assert stepper.frame.words == shown


def test_the_page_asks_and_is_answered_when_there_is_news() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    stepper = Stepper(lab)
    film = stepper.film
    ask(stepper, "news", stepper.value)
    assert stepper.film is film
    lab.run_until(checkpoint=2)
    ask(stepper, "news", 3)
    assert stepper.value == 3 < last(stepper)
    assert 2 in frames(lab)[-1].moment.checkpoints
    ask(stepper, "present", 3)
    assert stepper.value == last(stepper)


def test_the_page_may_ask_again_before_it_has_the_answer() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    stepper = Stepper(lab)
    before, edition = stepper.value, stepper.film["edition"]
    lab.run()
    for _ in range(2):
        ask(stepper, "news", before, edition)
        assert stepper.value == last(stepper) > before


def ask(stepper: Stepper, wanted: str, value: int, edition: int | None = None) -> None:
    """Send what the page sends when it shows this frame of the newest film, or of an older one."""
    shown = stepper.film["edition"] if edition is None else edition
    stepper._handle_custom_msg({"wanted": wanted, "value": value, "edition": shown}, [])


def test_after_each_cell_it_looks_until_it_is_closed() -> None:
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        lab = lab_of()
        stepper = Stepper(lab)
        shell.run_cell("1")
        assert stepper.news == 0
        shell.user_ns["lab"] = lab
        shell.run_cell("lab.run_until(checkpoint=1);")
        assert stepper.news == 1
        stepper.close()
        shell.run_cell("lab.run();")
        assert stepper.news == 1
        stepper.close()
    finally:
        InteractiveShell.clear_instance()


def test_where_no_widget_can_be_shown_there_is_a_picture() -> None:
    stepper = Stepper(story(), value=30)
    bundle = stepper._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/svg+xml"].startswith("<svg")
    assert data["text/plain"] == repr(stepper)
    assert "application/vnd.jupyter.widget-view+json" in data
