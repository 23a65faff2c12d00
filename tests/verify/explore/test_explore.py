"""Every schedule of small jobs: exactly once holds in all of them, and planted errors are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kit.hosts.lab import open_scenario, ready_job
from kit.hosts.lab.errors import Interrupted, LabError
from kit.hosts.lab.jobs.random_jobs import NO_MEMORY_MB
from kit.hosts.lab.lab import Lab
from kit.machines.task.stream_task import StreamTask
from kit.stream.api.environment import StreamEnvironment
from kit.stream.settings.parts import Parts
from kit.verify.explore import (
    Property,
    always,
    complete_checkpoints,
    consistent_checkpoints,
    eventually,
    exactly_once,
    expected_output,
    explore,
    sometimes,
)
from kit.verify.explore.properties import LabSituation, Situation, ids_grow
from kit.verify.explore.steps import FAULTS
from tests.hosts.lab import own_parts as own
from tests.verify.explore.jobs import collects, counts, overtakes, timed


def _seen(visible: set[object]) -> list[Property]:
    """Properties that hold everywhere, and record the situations that they see."""

    def note(now: Situation) -> bool:
        visible.add((now.status, now.completed, tuple(now.output()), bool(now.master.checkpoints.pending)))
        return True

    def note_end(now: Situation) -> bool:
        visible.add(("end", now.status, now.completed, tuple(now.output()), tuple(now.files())))
        return True

    return [always("noted", note), eventually("noted at the end", note_end)]


def test_two_sources_one_checkpoint_whatever_the_order() -> None:
    env = counts(rows=2, sources=2)
    wanted = [*exactly_once(expected_output(env)), sometimes("it completes", lambda now: now.completed == (1, 2))]
    found = explore(env, wanted, faults=0, checkpoints=1)
    assert found.holds, found
    assert found.states > 500
    assert len(found.witnesses["it completes"]) > 30
    assert found.witnesses["it completes"].text.endswith("-> seen: it completes (see .lab())")
    assert set(found.to_pandas().columns) >= {"states", "transitions", "depth", "seconds"}
    assert next(iter(found.machines["machine"])) == "job"
    assert "complete" in repr(found)
    assert "<table" in found._repr_html_()


def test_what_barriers_overtake_is_neither_lost_nor_repeated() -> None:
    """The in-flight data of each checkpoint is processed again, once."""
    rows = expected_output(overtakes())
    holds_data = sometimes("in-flight data is stored", lambda now: any("channel-state" in each for each in now.files()))
    wanted = [consistent_checkpoints(rows), complete_checkpoints(rows), holds_data]
    found = explore(overtakes(), [*exactly_once(rows), *wanted], faults=0, checkpoints=1)
    assert found.holds, found
    witness = found.witnesses["in-flight data is stored"]
    assert any(each.step.kind == "overtake" for each in witness.moves)
    assert any("channel-state" in each for each in LabSituation(witness.lab()).files())


@pytest.mark.soak
def test_exactly_once_where_barriers_time_out() -> None:
    rows = expected_output(timed())
    overtaken = sometimes("in-flight data is stored", lambda now: any("channel-state" in each for each in now.files()))
    wanted = [consistent_checkpoints(rows), complete_checkpoints(rows), overtaken]
    assert explore(timed(), [*exactly_once(rows), *wanted], faults=0, checkpoints=1).holds


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["kill", "expire", "fail", "lose", "repeat"])
def test_exactly_once_where_barriers_overtake_whatever_fails(kind: str) -> None:
    rows = expected_output(overtakes())
    assert explore(overtakes(), exactly_once(rows), checkpoints=1, kinds=[kind]).holds


def test_a_worker_dies_at_every_moment() -> None:
    env = counts(rows=2, sources=2)
    found = explore(env, exactly_once(expected_output(env)), faults=1, checkpoints=0)
    assert found.holds, found


INCREMENTAL = [
    (0, "kill", 1_000),
    pytest.param(1, "kill", 30_000, marks=pytest.mark.soak),
    pytest.param(1, "fail", 30_000, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("faults", "kind", "states"), INCREMENTAL)
def test_incremental_checkpoints_hold_in_every_schedule(faults: int, kind: str, states: int) -> None:
    """Of two checkpoints under way together, the later one builds on the earlier, or does not know of it."""
    env = ready_job("keyed-sum", rows=2, parallelism=1, restart=3, incremental=True)
    wanted = exactly_once(expected_output(env))
    found = explore(env, wanted, faults=faults, checkpoints=2, kinds=[kind])
    assert found.holds, found
    assert found.states > states


def test_two_checkpoints_may_be_under_way_and_the_newer_one_complete_first() -> None:
    wanted = [
        sometimes("two are under way", lambda now: len(now.master.checkpoints.pending) == 2),
        sometimes("the older one is subsumed", lambda now: 2 in now.completed and 1 not in now.completed),
    ]
    assert explore(collects(), wanted, faults=0, checkpoints=2).holds


@pytest.mark.parametrize("job", [collects, counts, overtakes, pytest.param(timed, marks=pytest.mark.soak)])
def test_steps_that_are_left_out_lead_to_nothing_new(job: Callable[[], StreamEnvironment]) -> None:
    all_of_them: set[object] = set()
    reduced: set[object] = set()
    exact = explore(job(), _seen(all_of_them), faults=0, checkpoints=1, exact=True)
    fewer = explore(job(), _seen(reduced), faults=0, checkpoints=1)
    assert exact.complete
    assert fewer.complete
    assert fewer.states * 3 < exact.states
    assert {each for each in all_of_them if each[0] == "end"} == {each for each in reduced if each[0] == "end"}
    assert all_of_them == reduced


@pytest.mark.parametrize(
    ("job", "kind", "checkpoints"),
    [
        (collects, "lose", 1),
        (collects, "fail", 0),
        *((overtakes, kind, 0) for kind in ("kill", "expire")),
        *(
            pytest.param(overtakes, kind, 0, marks=pytest.mark.soak)
            for kind in FAULTS
            if kind not in ("kill", "expire")
        ),
        (overtakes, "repeat", 1),
        (partial(overtakes, rows=2, sources=2), "repeat", 0),
        pytest.param(collects, "fail", 1, marks=pytest.mark.soak),
        pytest.param(timed, "lose", 1, marks=pytest.mark.soak),
        pytest.param(overtakes, "lose", 1, marks=pytest.mark.soak),
        pytest.param(overtakes, "fail", 1, marks=pytest.mark.soak),
        pytest.param(overtakes, "expire", 1, marks=pytest.mark.soak),
        pytest.param(partial(overtakes, rows=2, sources=2), "lose", 0, marks=pytest.mark.soak),
        pytest.param(partial(overtakes, sources=2), "expire", 0, marks=pytest.mark.soak),
        pytest.param(partial(timed, sources=2), "lose", 0, marks=pytest.mark.soak),
    ],
)
def test_nothing_is_missed_where_checkpoints_are_aborted(
    job: Callable[[], StreamEnvironment], kind: str, checkpoints: int
) -> None:
    """The job starts again, and ends in each way in which it ends when every order is tried; on the way there only
    publishing later, which is as good as not having come so far, may be left out.
    """
    all_of_them: set[object] = set()
    reduced: set[object] = set()
    explore(job(), _seen(all_of_them), checkpoints=checkpoints, kinds=[kind], exact=True)
    explore(job(), _seen(reduced), checkpoints=checkpoints, kinds=[kind])
    assert {each for each in all_of_them if each[0] == "end"} == {each for each in reduced if each[0] == "end"}
    assert reduced <= all_of_them
    assert all(each[0] == "RUNNING" and not each[2] for each in all_of_them - reduced)


@pytest.mark.parametrize(
    "kind", [each if each == "expire" else pytest.param(each, marks=pytest.mark.soak) for each in FAULTS]
)
def test_nothing_at_all_is_missed_where_barriers_time_out(kind: str) -> None:
    """The states on the way are the same too: no step of work is taken alone before the last checkpoint is complete."""
    all_of_them: set[object] = set()
    reduced: set[object] = set()
    exact = explore(timed(), _seen(all_of_them), checkpoints=0, kinds=[kind], exact=True)
    fewer = explore(timed(), _seen(reduced), checkpoints=0, kinds=[kind])
    assert fewer.states * 2 < exact.states
    assert all_of_them == reduced


@pytest.mark.soak
def test_abort_news_commute_with_data_but_not_with_the_snapshot() -> None:
    """A task is notified of an abort before or after a snapshot: both orders are tried."""

    def heard(now: Situation) -> bool:
        task = now.machine("out/0")
        assert task is None or isinstance(task, StreamTask)
        return task is not None and 1 in task.checkpoints._aborted

    goes_on = counts(tolerable_failures=1)
    wanted = [
        sometimes("it is told first", heard),
        sometimes("the next one completes", lambda now: now.completed == (2,) and now.status == "FINISHED"),
    ]
    found = explore(goes_on, wanted, checkpoints=1, kinds=["expire"])
    assert found.holds, found


def test_a_counterexample_is_shown_in_a_lab(tmp_path: Path) -> None:
    nothing_completes = always("nothing completes", lambda now: not now.completed)
    found = explore(counts(), [nothing_completes], faults=0, checkpoints=1)
    example = found.counterexample
    assert example is not None
    assert not found.holds
    assert example.actions[-1] == "carry out StoreCheckpoint of chk-1 for job"
    lab = example.lab()
    assert not example.holds_in(lab)
    assert LabSituation(lab).completed == (1,)
    saved = example.save_scenario(tmp_path / "completes.scenario")
    again = open_scenario(saved, counts())
    again.run()
    assert LabSituation(again.lab).completed == (1,)
    assert len(example.to_pandas()) == len(example)
    assert example.text.endswith("-> broken: nothing completes (see .lab())")
    assert "Broken: nothing completes" in example._repr_html_()


def test_it_stops_where_there_is_no_more_room() -> None:
    found = explore(counts(rows=2, sources=2), [], faults=0, checkpoints=1, most_states=100)
    assert not found.complete
    assert "most_states=100" in repr(found)


def test_what_was_lost_is_waited_for_until_nothing_else_can_happen() -> None:
    """An acknowledgement of the last checkpoint is lost: it expires, and the job ends with another one."""
    never = always("none expires", lambda now: "CHECKPOINT_EXPIRED" not in now.master.checkpoints.ledger.ended.values())
    found = explore(collects(), [never], faults=1, checkpoints=0, kinds=["lose"])
    assert found.counterexample is not None
    assert found.counterexample.moves[-1].step.kind == "overdue"
    assert not found.counterexample.holds_in(found.counterexample.lab())
    assert explore(collects(), exactly_once(expected_output(collects())), checkpoints=0, kinds=["lose"]).holds


def test_an_end_that_should_not_be_is_found() -> None:
    found = explore(collects(), [eventually("it goes on", lambda now: now.status != "FINISHED")], faults=0)
    assert found.counterexample is not None
    assert not found.counterexample.holds_in(found.counterexample.lab())


@pytest.mark.parametrize(("kind", "reason"), [("fail", "EXCEPTION"), ("expire", "CHECKPOINT_EXPIRED")])
def test_an_aborted_checkpoint_is_shown_in_a_lab(kind: str, reason: str) -> None:
    """The shortest way to one that ended so."""

    def none_ended_so(now: Situation) -> bool:
        return not any(reason in each for each in now.master.checkpoints.ledger.ended.values())

    found = explore(counts(), [always("none ended so", none_ended_so)], faults=1, checkpoints=1, kinds=[kind])
    assert found.counterexample is not None
    assert [each.step.kind for each in found.counterexample.moves].count(kind) == 1
    assert not found.counterexample.holds_in(found.counterexample.lab())


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (lambda: counts(interval_ms=1_000), "every 1000 ms"),
        (lambda: counts(local_recovery=True), "local_recovery"),
    ],
)
def test_what_cannot_be_explored_is_refused(job: object, said: str) -> None:
    assert callable(job)
    with pytest.raises(LabError, match=said):
        explore(job())


def test_kinds_of_faults_have_names() -> None:
    with pytest.raises(LabError, match="no kind of fault is 'storm'"):
        explore(counts(), kinds=["storm"])


def test_what_is_expected_is_what_a_lab_publishes() -> None:
    lab = Lab(counts(rows=2))
    lab.run()
    assert len(expected_output(counts(rows=2))) == len(lab.output()) == 2


def test_at_least_once_a_checkpoint_holds_what_is_read_again() -> None:
    """Found where the checkpoint completes, without a failure; exactly once no order of all leads there."""
    of_two = {"rows": 2, "sources": 2}
    wanted = [consistent_checkpoints(expected_output(counts(**of_two)))]
    example = explore(counts(**of_two, mode="at_least_once"), wanted, faults=0, checkpoints=1).counterexample
    assert example is not None
    assert len(example) <= 45
    assert example.actions[-1] == "carry out StoreCheckpoint of chk-1 for job"
    assert not example.holds_in(example.lab())
    assert explore(counts(**of_two), wanted, faults=0, checkpoints=1).holds


def test_a_handler_that_is_written_in_a_notebook_has_no_more_states() -> None:
    """A class in `__main__` is understood like a class in a module."""
    theirs = type("Theirs", (own.Aligner,), {"__module__": "__main__"})
    found = [
        explore(counts(), faults=0, checkpoints=1, parts=Parts(barrier_handler=each), most_states=20_000)
        for each in (own.Aligner, theirs)
    ]
    assert found[0].complete
    assert found[0].states == found[1].states


def test_a_handler_that_lets_a_channel_go_on_is_found_in_some_order() -> None:
    of_two = {"rows": 2, "sources": 2}
    wanted = [consistent_checkpoints(expected_output(counts(**of_two)))]
    found = explore(counts(**of_two), wanted, faults=0, checkpoints=1, parts=Parts(barrier_handler=own.LetsGoOn))
    assert found.counterexample is not None
    assert len(found.counterexample) <= 60


def test_an_exploration_is_complete_only_if_every_search_is() -> None:
    found = explore(collects(), [], faults=0, checkpoints=0)
    stopped = explore(collects(), [], faults=0, checkpoints=0, most_states=10)
    assert found.complete
    assert not stopped.complete
    for searches in ([*found.searches, *stopped.searches], [*stopped.searches, *found.searches], []):
        found.searches = searches
        assert not found.complete


def test_the_figures_of_several_searches() -> None:
    """Each search has its own kind, ends and machines; sums, the deepest and every reason to stop are of all."""
    found = explore(collects(), [], checkpoints=0, kinds=("lose", "kill", "repeat"), most_states=200)
    table = found.to_pandas()
    assert list(table["fault"]) == ["lose", "kill", "repeat"]
    assert [*table["depth"]] == [each.depth for each in found.searches]
    deep, shallow = replace(found.searches[0], depth=90, seconds=4.0), replace(found.searches[1], depth=7, seconds=2.0)
    complete = replace(found.searches[2], stopped_by="", complete=True, ends=3, states=5, transitions=8, depth=50)
    for searches in ([deep, shallow, complete], [shallow, complete, deep]):
        found.searches = searches
        table = found.to_pandas()
        assert (found.states, found.transitions) == (table["states"].sum(), table["transitions"].sum())
        assert (found.depth, found.seconds) == (90, sum(each.seconds for each in searches))
        assert table["ends"].tolist() == [each.ends for each in searches]
        machines = found.machines.groupby("fault", sort=False)["machine"].agg(list).to_dict()
        assert machines == {each.kind: list(each.machines) for each in searches}
        for each in searches:
            own = found.machines.query("fault == @each.kind").set_index("machine")
            assert dict(zip(own.index, zip(own["states"], own["steps"], strict=True), strict=True)) == each.machines
        assert repr(found).endswith("stopped by most_states=200)")


def test_each_of_several_properties_has_its_own_verdict() -> None:
    seen = [
        sometimes(f"{number} rows", lambda found, number=number: len(found.output()) == number) for number in (0, 1)
    ]
    never = sometimes("never", lambda found: False)
    found = explore(collects(), [*seen, never], faults=0, checkpoints=0)
    assert list(found.witnesses) == ["0 rows", "1 rows"]
    assert [each.is_broken for each in found.witnesses.values()] == [False, False]
    for each in seen:
        witness = found.witnesses[each.name]
        assert witness.judged is each
        assert witness.holds_in(witness.lab())
    assert found.complete
    assert not found.holds, "one of three was never seen"
    assert explore(collects(), seen, faults=0, checkpoints=0).holds


@pytest.mark.parametrize(("looks", "searches"), [(0, 1), (30, 1), (57, 2), (70, 2)])
def test_an_interrupted_exploration_says_so_wherever_it_was(looks: int, searches: int) -> None:
    seen = 0

    def interrupts(situation: Situation) -> bool:
        nonlocal seen
        situation.output()  # what is read decides how often it is asked: 57 times in the first search
        if seen == looks:
            raise KeyboardInterrupt
        seen += 1
        return True

    with pytest.raises(Interrupted) as interrupt:
        explore(collects(), [always("it goes on", interrupts)], checkpoints=1, kinds=("lose", "repeat"))
    found = interrupt.value.found
    assert len(found.searches) == searches
    assert not found.complete
    assert repr(found).endswith("stopped by an interrupt)")
    for search in found.searches:  # an interrupt between two searches leaves only complete ones
        search.complete = True
    assert not found.complete


def test_of_several_completed_checkpoints_the_newest_is_compared_with_those_that_are_pending() -> None:
    def holds(completed: tuple[int, ...], **pending: bool) -> bool:
        known = {int(number[1:]): SimpleNamespace(is_disposed=each) for number, each in pending.items()}
        master = SimpleNamespace(checkpoints=SimpleNamespace(pending=known))
        return ids_grow().holds(cast(Situation, SimpleNamespace(completed=completed, master=master)))

    assert holds((1, 3), _4=False)
    assert holds((1, 3), _2=True, _4=False)
    assert not holds((1, 3), _2=False, _4=False)
    assert holds(())


def test_state_on_disk_has_no_states_of_its_own() -> None:
    on_disk = counts(rows=2)
    on_disk.settings = replace(on_disk.settings, state_backend="disk", state_memory_mb=NO_MEMORY_MB)
    found, in_memory = (explore(job, checkpoints=1, faults=0, progress=False) for job in (on_disk, counts(rows=2)))
    assert found.holds
    assert found.states == in_memory.states
