"""Every public function of `kit.draw` takes a lab, a job and a trace, and its result displays itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import kit.draw
from kit.core.trace.trace import Trace
from kit.draw import (
    at_risk,
    barriers,
    chains,
    chains_svg,
    checkpoint_life,
    compare,
    execution_graph,
    export_html,
    film,
    frames,
    gantt,
    journeys,
    last_frame,
    moment_at,
    moment_svg,
    moments,
    over_time,
    phases,
    redistribution,
    rescaling,
    restores_of,
    shared_state,
    snapshot_contents,
    space_time,
    space_time_data,
    state_machines,
)
from kit.draw.picture import CARD
from kit.draw.views.views import VIEWS
from kit.hosts.lab import Lab
from kit.hosts.spark import SparkJob
from tests.draw.elsewhere import shown, shown_elsewhere
from tests.draw.labs import lab_of, letters

DOORS: dict[str, Callable[[Any], Any]] = {
    "at_risk": lambda run: at_risk(run).to_pandas(),
    "barriers": lambda run: barriers(run).to_pandas(),
    "chains": lambda run: chains(run).to_pandas(),
    "chains_svg": chains_svg,
    "checkpoint_life": lambda run: checkpoint_life(run).to_pandas(),
    "compare": lambda run: compare({"a run": run}),
    "execution_graph": lambda run: execution_graph(run).to_pandas(),
    "film": film,
    "frames": frames,
    "gantt": gantt,
    "journeys": lambda run: journeys(run).to_pandas(1),
    "last_frame": last_frame,
    "moment_at": moment_at,
    "moment_svg": moment_svg,
    "moments": lambda run: list(moments(run)),
    "over_time": over_time,
    "phases": phases,
    "redistribution": redistribution,
    "rescaling": lambda run: rescaling(run).to_pandas(),
    "restores_of": restores_of,
    "shared_state": lambda run: shared_state(run).to_pandas(),
    "snapshot_contents": lambda run: snapshot_contents(run).to_pandas(),
    "space_time": space_time,
    "space_time_data": space_time_data,
    "state_machines": lambda run: state_machines(run).to_pandas(),
}
PICTURES = ("chains_svg", "last_frame", "moment_svg", "gantt", "over_time", "space_time")


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A lab whose worker 1 died after checkpoint 1."""
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run()
    return lab


@pytest.fixture(scope="module")
def saved(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Its trace, written and read."""
    return Trace.load(lab.trace.save(tmp_path_factory.mktemp("saved") / "run.jsonl"))


def test_no_door_is_left_out() -> None:
    values = {name for name in kit.draw.__all__ if isinstance(getattr(kit.draw, name), type)}
    no_run = {*values, "advance", "export_html", "protocol_sheet", "rescale_plan"}
    assert set(DOORS) == set(kit.draw.__all__) - no_run


@pytest.mark.parametrize("door", DOORS)
def test_a_lab_its_trace_and_a_saved_trace_are_the_same_to_a_door(door: str, lab: Lab, saved: Trace) -> None:
    shown = [as_data(DOORS[door](run)) for run in (lab, lab.trace, saved)]
    assert shown[0] == shown[1] == shown[2]


def as_data(made: Any) -> Any:
    if isinstance(made, pd.DataFrame):
        return made.to_json()
    for form in ("_repr_svg_", "_repr_html_"):
        if hasattr(made, form):
            return getattr(made, form)()
    return made


def test_in_another_process_a_saved_trace_is_all_that_is_needed(lab: Lab, tmp_path: Path) -> None:
    """The page of a lab counts the lab's steps; that of its trace counts records."""
    assert shown_elsewhere(lab.trace.save(tmp_path / "run.jsonl")) == shown(lab.trace)


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("", "{}", "[1]", "not JSON", '{"detailed": true, "stages": []}\n{"id": 1}')):
        path = tmp_path / str(number)
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"{number} is not a trace: expected a file that Trace\.save wrote"):
            Trace.load(path)


@pytest.mark.parametrize("door", DOORS)
def test_a_cut_trace_will_do(door: str, lab: Lab) -> None:
    ran_again = max(n for n, record in enumerate(lab.trace) if record.kind == "AllTasksRunning")
    for cut in (lab.trace[:ran_again], lab.trace.story(machine="job")):
        assert DOORS[door](cut) is not None


@pytest.mark.parametrize("door", sorted(set(DOORS) - {"gantt"}))
def test_what_has_not_begun_can_be_drawn(door: str) -> None:
    for run in (lab_of(), SparkJob(letters())):
        assert DOORS[door](run) is not None


@pytest.mark.parametrize("door", DOORS)
def test_anything_else_is_named(door: str) -> None:
    with pytest.raises(TypeError, match="is a dict, not a run: expected a Lab, a SparkJob or a Trace"):
        DOORS[door]({"a": 1})


def test_a_job_that_nobody_runs_is_told_how_to_run(lab: Lab) -> None:
    with pytest.raises(TypeError, match=r"StreamEnvironment.*Lab\(env\) or SparkJob\(env\) makes a run of it"):
        gantt(letters())
    assert chains(letters()).to_pandas().equals(chains(lab).to_pandas())


def test_records_without_the_shape_say_what_is_missing(lab: Lab) -> None:
    assert len(phases(list(lab.trace))) > 0
    with pytest.raises(ValueError, match=r"does not say what the job looks like.*stages=lab.look.stages"):
        frames(Trace(lab.trace))
    assert len(frames(Trace(lab.trace, stages=lab.look.stages))) > 100


@pytest.mark.parametrize("door", PICTURES)
def test_a_picture_shows_itself_once_and_saves_itself(door: str, lab: Lab, tmp_path: Path) -> None:
    made = DOORS[door](lab)
    data, _ = DisplayFormatter().format(made)
    assert set(data) == {"text/html", "image/svg+xml", "text/plain"}
    assert "var(--kit-" in data["text/html"]
    assert CARD not in data["text/html"]
    assert ElementTree.fromstring(data["image/svg+xml"]).tag.endswith("svg")
    assert len(data["text/plain"]) < 140
    assert "0x" not in data["text/plain"]
    assert plt.get_fignums() == []
    picture = made.svg() if hasattr(made, "svg") else made
    saved = picture.save(tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(saved).tag.endswith("svg")
    assert "--kit-" not in saved, "a viewer that knows no variables would draw it black"


def test_a_chart_is_the_same_text_each_time_and_saves_as_its_name_says(lab: Lab, tmp_path: Path) -> None:
    chart = gantt(lab, 1)
    assert chart._repr_svg_() == gantt(lab, 1)._repr_svg_()
    assert chart.save(tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert repr(chart) == f"Chart({chart.figure.axes[0].get_title(loc='left')!r})"


def test_a_drawing_is_its_text_and_is_saved_as_such(lab: Lab, tmp_path: Path) -> None:
    drawing = chains_svg(lab)
    assert drawing.startswith("<svg")
    assert pickle.loads(pickle.dumps(drawing)).caption == drawing.caption == "letters: 3 operators in 2 chains"
    with pytest.raises(ValueError, match=r"must end in \.svg"):
        drawing.save(tmp_path / "chains.png")


def test_a_restore_is_chosen_by_its_epoch(lab: Lab) -> None:
    (restore,) = restores_of(lab)
    assert rescaling(lab).svg() == rescaling(lab, epoch=2).svg()
    assert repr(restore).startswith("RestoreMoment(epoch 2 from checkpoint 1, ")
    with pytest.raises(ValueError, match="epoch 1 began with no restore; epochs that did: 2"):
        rescaling(lab, epoch=1)
    assert rescaling(lab_of()).title == "Nothing has been restored yet"


def test_the_page_is_made_of_a_lab_and_of_a_saved_trace(lab: Lab, saved: Trace, tmp_path: Path) -> None:
    """Only a lab knows the contents of deleted files, and the work that a failure would undo."""
    views = [view for view in VIEWS if view.name not in ("life", "snapshot", "at-risk", "shared-state")]
    pages = [export_html(run, tmp_path / "page.html", views=views).read_text(encoding="utf-8") for run in (lab, saved)]
    parts = ([part for part in page.split("<template") if 'aria-label="Checkpoi' not in part] for page in pages)
    of_lab, of_trace = parts
    assert of_lab == of_trace
    assert len(of_lab) > 10


def test_what_a_user_holds_of_a_run_is_a_table(lab: Lab) -> None:
    running = lab.fork()
    while running.look.master.checkpoints.store.latest is None:  # a job that has ended holds none
        running.back(5)
    checkpoint = running.look.master.checkpoints.store.latest
    assert checkpoint is not None
    for held in (running.moment(), checkpoint):
        assert "<table" in held._repr_html_()
        assert len(held.to_pandas()) > 0
    assert checkpoint.to_pandas().bytes.sum() == checkpoint.state_size
