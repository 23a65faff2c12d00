"""Pictures say what the machines do, at many moments of random runs and of scenarios; legends match the pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from kit.draw import gantt, phases, space_time, space_time_data
from kit.draw.assets import light_colours
from kit.draw.space_time.space_time_data import Mark
from kit.draw.space_time.space_time_looks import NAMES, STYLES
from kit.draw.views.phase_rows import LOOK_INKS, PHASE_INKS, PhaseRow, row_html
from kit.hosts.lab import Lab, open_scenario
from kit.hosts.lab.scenarios.scenario import all_scenarios
from kit.run.checkpoint_path import Span
from kit.verify.swarm.swarm import drawn
from tests.draw.labs import lab_of
from tests.draw.truth import untruths

SCENARIOS = (
    "alignment-timeout-at-the-output",
    "at-least-once",
    "barrier-and-end-of-one-channel",
    "cancel-marker-after-a-barrier",
    "decline-after-ack",
    "duplicate-ack",
    "end-of-partition-for-an-unaligned-barrier",
    "in-flight-after-the-copy",
    "kill-between-acks",
    "late-ack",
    "lost-ack",
    "newer-barrier-during-alignment",
    "overtaking",
)


def moments_of(seed: int, most: int) -> Iterator[Lab]:
    """The labs of a random trial, at some of the steps after which a checkpoint is pending."""
    chance = Random(seed)
    for lab in drawn(seed).run().labs:
        there, end = [], lab.position
        for position in range(1, end + 1):
            if lab.goto(position).look.master.checkpoints.pending and not lab._world.driver_is_dead:
                there.append(position)
        for position in sorted(chance.sample(there, min(most, len(there)))):
            yield lab.goto(position)


def moments_of_scenario(name: str) -> Iterator[Lab]:
    """The lab of a scenario, after each of its parts."""
    scenario = open_scenario(name)
    while not scenario.done:
        scenario.next()
        if not scenario.lab._world.driver_is_dead:
            yield scenario.lab


def found_in(labs: Iterator[Lab]) -> tuple[int, list[str]]:
    """Return the number of moments with a pending checkpoint, and the false statements."""
    count, found = 0, []
    for lab in labs:
        count += bool(lab.look.master.checkpoints.pending)
        found += [f"step {lab.position}: {each}" for each in untruths(lab)]
    return count, found


@pytest.mark.parametrize("seeds", [range(4), range(6, 9), (10, 13, 16), (24, 30, 31), range(34, 38)])
def test_pictures_say_what_the_machines_do(seeds: Sequence[int]) -> None:
    counts = []
    for seed in seeds:
        count, found = found_in(moments_of(seed, 12))
        assert found == [], f"seed {seed}"
        counts.append(count)
    assert sum(counts) >= 30


@pytest.mark.parametrize("name", SCENARIOS)
def test_pictures_say_what_the_machines_do_in_hard_cases(name: str) -> None:
    count, found = found_in(moments_of_scenario(name))
    assert found == []
    assert count > 0


@pytest.mark.soak
def test_pictures_say_what_the_machines_do_in_all_scenarios_and_many_runs() -> None:
    for name in all_scenarios():
        assert found_in(moments_of_scenario(name))[1] == [], name
    for seed in range(100, 200):
        assert found_in(moments_of(seed, 60))[1] == [], f"seed {seed}"


# --- the phases -------------------------------------------------------------------------------------------------------


def unaligned() -> Lab:
    """Return a run with a checkpoint that has in-flight data."""
    return open_scenario("in-flight-after-the-copy").run().lab


def test_in_flight_data_that_is_captured_is_no_acknowledgement_under_way() -> None:
    lab = unaligned()
    table = phases(lab, 1).set_index("task")
    sent = {
        each.machine: each.at_ms
        for each in lab.trace.story(checkpoint=1, kind="AcknowledgeCheckpoint")
        if each.machine != "job"
    }
    written = {each.machine: each.at_ms for each in lab.trace.story(checkpoint=1, kind="SnapshotWritten")}
    assert table["in_flight_ms"].to_dict() == {task: sent[task] - written[task] for task in table.index}
    assert table["in_flight_ms"].max() > 10
    assert table["ack_ms"].max() < 5
    aligned = lab_of(1)
    aligned.run_until(checkpoint=2)
    assert set(phases(aligned)["in_flight_ms"].dropna()) == {0}


def test_what_is_not_written_is_told_by_its_phase_and_by_what_it_waits_for() -> None:
    scenario = open_scenario("in-flight-after-the-copy")
    for _ in range(3):
        scenario.next()
    table = phases(scenario.lab, 1).set_index("task")
    assert table["open_phase"].to_dict() == {"left/0": "in_flight", "right/0": "start_delay", "sums/0": "in_flight"}
    assert table["waits_for"].to_dict() == {
        "left/0": "its in-flight data to be written",
        "right/0": "the trigger, on its way",
        "sums/0": "barrier 1 from right/0 (not sent yet)",
    }
    moment = scenario.lab.moment()
    assert {name: task.phases.get(1) for name, task in moment.tasks.items()} == {
        "left/0": "capturing",
        "right/0": None,
        "sums/0": "capturing",
    }


@pytest.mark.parametrize("settings", [{}, {"unaligned": True}, {"mode": "at_least_once"}])
def test_sources_wait_for_the_trigger_and_for_no_barrier(settings: dict[str, object]) -> None:
    lab = lab_of(2, **settings)
    lab.run_until(checkpoint=2)
    data = space_time_data(lab)
    for each in data["checkpoints"]:
        for name, mark in phase_marks(each):
            is_source = data["lanes"][mark.lane].startswith("letters/")
            assert (name == "trigger") <= is_source
            assert (name == "start_delay") <= (not is_source)
            if is_source and name == "alignment":
                assert mark.since == mark.until, "in the order of records, too"


def test_a_task_with_one_input_waits_for_no_other_barriers() -> None:
    lab = lab_of(3, parallelism=1)
    lab.run_until(checkpoint=1)
    marks = [each for known in space_time_data(lab)["checkpoints"] for each in phase_marks(known)]
    alignments = [mark for name, mark in marks if name == "alignment"]
    assert alignments
    assert all(mark.since == mark.until for mark in alignments)


def test_the_cut_is_where_the_phases_before_it_end() -> None:
    lab = lab_of(2)
    lab.run_until(checkpoint=1)
    (each,) = space_time_data(lab)["checkpoints"]
    assert {mark.lane: mark.until for name, mark in phase_marks(each) if name == "alignment"} == dict(each["cut"])


def phase_marks(known: dict[str, Any]) -> list[tuple[str, Mark]]:
    """Return the marks of a checkpoint's phases, each with the look of its span."""
    named = [(NAMES[mark.look], mark) for mark in known["marks"]]
    return [(name.split()[1], mark) for name, mark in named if name.startswith("phase ")]


# --- legends ----------------------------------------------------------------------------------------------------------


def charts() -> Iterator[object]:
    for settings in ({}, {"unaligned": True}, {"mode": "at_least_once"}):
        lab = lab_of(4, **settings)
        lab.run_until(record="CheckpointPending")
        yield lab.fork()
        lab.run_until(record="WriteSnapshot")
        yield lab.fork()
        lab.run_until(checkpoint=1)
        yield lab.fork()
        lab.run_until(record="AcknowledgeCheckpoint")
        lab.faults.kill(0)
        yield lab


def test_the_legend_of_the_chart_has_the_phases_that_are_drawn() -> None:
    inks = {light_colours()[ink].lower(): phase for phase, ink in PHASE_INKS.items()}
    kinds = set()
    for lab in charts():
        figure = gantt(lab).figure
        (axes,) = figure.axes
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle) and bar.get_width() > 0]
        drawn_phases = {inks[to_hex(bar.get_edgecolor() if bar.get_hatch() else bar.get_facecolor())] for bar in bars}
        labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        expected = drawn_phases | ({"hatched"} if any(bar.get_hatch() for bar in bars) else set())
        assert {label.partition(":")[0] for label in labels} == expected
        kinds.add(frozenset(expected))
    assert len(kinds) > 3
    assert any("hatched" in kind for kind in kinds)
    assert any("hatched" not in kind for kind in kinds)


def test_the_legend_of_the_diagram_has_what_is_drawn_in_its_time() -> None:
    lab = lab_of(2)
    lab.run_until(checkpoint=2)
    whole = space_time(lab, 2).svg()
    assert "cut: each task copies its state" in whole
    assert "writes the copy" in whole
    before = space_time(lab, 2, since_ms=0, until_ms=lab.moment().checkpoints[1].triggered_ms - 1).svg()
    assert "cut: each task copies its state" not in before
    assert "writes the copy" not in before


def test_a_phase_has_one_colour_in_all_pictures() -> None:
    assert {f"phase {look}": ink for look, ink in LOOK_INKS.items()}.items() <= {
        name: style.fill for name, style in STYLES.items()
    }.items()
    row = PhaseRow("a/0", [Span(phase, n, n + 1, open=False) for n, phase in enumerate(PHASE_INKS)])
    assert re.findall(r"background-color:var\(--kit-([\w-]+)\)", row_html(row, 0, 6)) == [*PHASE_INKS.values()]


def test_what_a_checkpoint_that_is_over_waited_for_is_told_in_the_past_tense() -> None:
    lab = lab_of(1)
    lab.run_until(record="BarrierAligned")
    (axes,) = gantt(lab).figure.axes
    assert {text.get_text().partition(" ")[0] for text in axes.texts} == {"waits"}
    lab.faults.kill(0)
    (axes,) = gantt(lab, 1).figure.axes
    assert {text.get_text().partition(" ")[0] for text in axes.texts} == {"waited"}
    assert "waited for" in space_time(lab, 1).svg()
    assert "waits for " not in space_time(lab, 1).svg().replace("waits for the", "")
