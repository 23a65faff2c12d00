"""The slots of a job: shared by all tasks, or by those of a region."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import CollectionSource, CollectSink, RescaleConfig, StreamEnvironment, sum_
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.regions import Regions
from kit.stream.graph.slot_sharing import TaskSlots, as_a_whole, in_gangs
from kit.stream.settings.job_settings import FailoverStrategy
from kit.stream.settings.setting_rules import SlotSharing

ROWS = [{"word": "a", "n": 1}]


def job_of(parallelism: int = 2, **options: Any) -> JobGraph:
    """Orders by key in one region, and a copy of clicks in a region for each subtask."""
    env = StreamEnvironment("both", parallelism=parallelism, **options)
    orders = env.from_source(CollectionSource(ROWS), uid="orders").key_by("word").aggregate(n=sum_("n")).uid("totals")
    orders.sink_to(CollectSink("orders"), uid="orders-out")
    clicks = env.from_source(CollectionSource(ROWS), uid="clicks").disable_chaining()
    clicks.sink_to(CollectSink("clicks"), uid="clicks-out")
    return env.job_graph()


def test_tasks_share_the_slots_unless_the_host_starts_gangs() -> None:
    job = job_of()
    slots = TaskSlots(job, job.parallelism)
    assert len(slots) == 2
    assert slots.tasks_in(1) == tuple(f"{vertex.name}/1" for vertex in job.vertices)
    assert slots.gangs() == [(0, 1)]
    assert slots.tasks_in(2) == ()


def test_each_region_has_slots_of_its_own() -> None:
    job = in_gangs(job_of())
    slots = TaskSlots(job, job.parallelism)
    assert slots.gangs() == [(0, 1), (2,), (3,)]
    assert [slots.of(task) for task in ("orders/0", "totals/0", "orders/1", "clicks/0", "clicks-out/1")] == [
        0,
        0,
        1,
        2,
        3,
    ]
    assert slots.tasks_in(3) == ("clicks/1", "clicks-out/1")
    assert slots.subtask_of(3) == 1
    assert slots.tasks_in(4) == ()
    assert slots.of_all(["clicks-out/1", "clicks/1", "totals/0"]) == {0, 3}
    assert repr(slots) == "TaskSlots(4, 3 gangs)"


def test_the_slots_of_a_region_are_numbered_by_subtask_whichever_operator_comes_first() -> None:
    env = StreamEnvironment("rescaled", parallelism=4)
    wide = env.from_source(CollectionSource(ROWS), uid="wide").rescale()
    wide.map(dict).uid("narrow").set_parallelism(2).sink_to(CollectSink("out"), uid="out").set_parallelism(2)
    slots = TaskSlots(job := in_gangs(env.job_graph()), job.parallelism)
    assert slots.gangs() == [(0, 1), (2, 3, 4)]
    assert [slots.tasks_in(slot) for slot in range(5)] == [
        ("wide/0", "narrow/0"),
        ("wide/1",),
        ("narrow/1",),
        ("wide/2",),
        ("wide/3",),
    ]


@pytest.mark.parametrize(
    ("options", "sharing"),
    [
        ({}, SlotSharing.REGION),
        ({"failover": "full"}, SlotSharing.JOB),
        ({"rescaling": RescaleConfig(reactive=True)}, SlotSharing.JOB),
    ],
)
def test_a_job_that_restarts_as_a_whole_shares_its_slots(options: dict[str, Any], sharing: SlotSharing) -> None:
    assert in_gangs(job_of(**options)).settings.slot_sharing is sharing


def test_a_host_with_too_few_slots_shares_them() -> None:
    job = as_a_whole(in_gangs(job_of()))
    assert (job.settings.slot_sharing, job.settings.failover) == (SlotSharing.JOB, FailoverStrategy.FULL)
    assert not job.settings.restarts_regions


@given(st.lists(st.integers(1, 4), min_size=5, max_size=5), st.booleans())
def test_every_task_has_one_slot_and_no_slot_has_tasks_of_two_regions(numbers: list[int], by_region: bool) -> None:
    job = job_of(parallelism=4)
    sharing = SlotSharing.REGION if by_region else SlotSharing.JOB
    job = replace(job, settings=replace(job.settings, slot_sharing=sharing))
    parallelism = dict(zip(job.parallelism, numbers, strict=False))
    graph = ExecutionGraph(job, parallelism)
    slots = graph.slots
    found = {task: slot for slot in range(len(slots)) for task in slots.tasks_in(slot)}
    assert found == {task.task: slots.of(task.task) for task in graph.tasks}
    for slot in range(len(slots)):
        assert {task.subtask_index for task in graph.tasks_in_slot(slot)} == {slots.subtask_of(slot)}
    assert sorted(slot for gang in slots.gangs() for slot in gang) == list(range(len(slots)))
    regions = Regions(job, graph.parallelism)
    touched = [
        {region.number for region in regions if slot in slots.of_all(region.tasks)} for slot in range(len(slots))
    ]
    assert all(len(each) == 1 for each in touched) or not by_region
