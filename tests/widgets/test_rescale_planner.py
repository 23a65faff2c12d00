"""The rescale planner as Python sees it."""

from __future__ import annotations

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, StreamEnvironment, count
from kit.draw import rescale_plan
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.snapshots.state_tables import KEYED
from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator, assign_to_key_group
from widgets import RescalePlanner

WORDS = [f"carrier-{number}" for number in range(200)]


def test_another_parallelism_deals_the_keys_out_again() -> None:
    planner = RescalePlanner(WORDS, 4)
    assert planner.max_parallelism.value == 128
    planner.parallelism.value = 9
    assert planner.plan.caption == rescale_plan(WORDS, 9, 128).caption
    planner.max_parallelism.value = 16
    assert planner.plan.caption == rescale_plan(WORDS, 9, 16).caption
    assert "9 of at most 16 subtasks" in planner.picture.value
    assert repr(planner) == f"RescalePlanner({planner.plan.caption})"


def test_the_parallelism_gives_way_to_the_maximum() -> None:
    planner = RescalePlanner(WORDS, 100)
    planner.max_parallelism.value = 16
    assert planner.parallelism.value == planner.parallelism.max == planner.plan.parallelism == 16
    planner.max_parallelism.value = 1024
    assert planner.plan.max_parallelism == 1024
    assert planner.parallelism.max == 1024


def test_what_moves_is_shown_while_the_parallelism_before_is_known() -> None:
    planner = RescalePlanner(WORDS, 4)
    planner.before.value = 3
    assert planner.plan.moved == rescale_plan(WORDS, 4, 128, before=3).moved > 0
    planner.before.value = 0
    assert planner.plan.before is None


def test_a_key_that_is_typed_in_is_followed() -> None:
    planner = RescalePlanner(WORDS, 4, before=2)
    planner.key.value = "UA"
    group, subtask = assign_to_key_group("UA", 128), assign_key_to_parallel_operator("UA", 128, 4)
    assert f"is in key group {group}, which subtask {subtask} owns" in planner.key_place.value
    numbers = RescalePlanner(list(range(100)), 4)
    numbers.key.value = "17"
    assert f"key group {assign_to_key_group(17, 128)}" in numbers.key_place.value
    numbers.key.value = "seventeen"
    assert "is no key here: keys are int64" in numbers.key_place.value
    numbers.key.value = ""
    assert numbers.key_place.value == ""


def test_the_keys_of_a_lab_with_the_parallelism_that_it_has() -> None:
    lab = Lab(ready_job("keyed-sum", rows=60, interval_ms=20), seed=1)
    with pytest.raises(ValueError, match="holds no keyed state"):
        RescalePlanner(lab)
    lab.run_until(checkpoint=2)
    planner = RescalePlanner(lab, 3)
    assert (planner.plan.keys, planner.plan.before, planner.plan.max_parallelism) == (4, 2, 8)
    with pytest.raises(ValueError, match="no keyed state of 'letters'"):
        RescalePlanner(lab, operator="letters")


def test_a_saved_notebook_keeps_what_it_shows() -> None:
    planner = RescalePlanner(WORDS, 4)
    bundle = planner._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/html"] == planner.plan._repr_html_()
    assert all(
        control.description for control in (planner.parallelism, planner.max_parallelism, planner.before, planner.key)
    )


def test_of_several_keyed_operators_the_one_with_most_keys_is_planned_for() -> None:
    env = StreamEnvironment("several", parallelism=1, checkpoint=CheckpointConfig(interval_ms=None))
    for name, keys, parallelism in (("few", 2, 1), ("many", 9, 3), ("some", 4, 2)):
        rows = [{"key": f"{name} {n % keys}"} for n in range(40)]
        stream = env.from_source(CollectionSource(rows, batch_rows=5), uid=name)
        counted = stream.key_by("key").aggregate(rows=count()).uid(f"{name} counts").set_parallelism(parallelism)
        counted.sink_to(CollectSink(name), uid=f"{name} out")
    lab = Lab(env, seed=1)
    lab.run_until(lambda lab: sum(table.rows.num_rows for table in lab.state().of(KEYED)) == 2 + 9 + 4)
    for operator, keys, parallelism in ((None, 9, 3), ("some counts", 4, 2), ("few counts", 2, 1)):
        planner = RescalePlanner(lab, 5, operator=operator)
        assert (planner.plan.before, int(planner.plan.counts.sum())) == (parallelism, keys)
        planner.close()
