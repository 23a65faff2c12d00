"""Stop-with-savepoint, suspend and drain with failures at every step, in the lab: output equals the batch result, or
the job reports FAILED and resuming from its savepoint leads to that result.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from tests.hosts.lab.jobs import CHECKPOINTS, Shape
from tests.properties import examples
from tests.stories.story import DRIVER_DIES, FAULTS, STOP, Fault, Life, Story, tell

DURABLE = {"store": "filesystem", "directory": CHECKPOINTS}
"""A store that another driver can go on with."""

SHAPES = st.builds(
    Shape,
    way=st.sampled_from(["totals", "union", "aside", "waits", "idle"]),
    rows=st.one_of(st.integers(1, 12), st.integers(20, 60)),
    splits=st.integers(1, 4),
    batch_rows=st.integers(1, 4),
    chaining=st.booleans(),
)
FAULTS_AT = st.builds(
    Fault,
    what=st.sampled_from([*sorted(FAULTS), DRIVER_DIES, STOP]),
    steps=st.one_of(st.integers(0, 12), st.integers(0, 120)),
    stands=st.booleans(),
)
LIVES = st.builds(
    Life,
    steps=st.integers(0, 140),
    ending=st.sampled_from(["suspend", "drain", "suspend", "drain", ""]),
    faults=st.lists(FAULTS_AT, max_size=3).map(tuple),
    parallelism=st.integers(1, 3),
)
SETTINGS = st.builds(
    lambda interval_ms, mode, store: {"interval_ms": interval_ms} | mode | store,
    st.sampled_from([None, 40, 150]),
    st.sampled_from([{}, {"max_concurrent": 2}, {"unaligned": True}]),
    st.sampled_from([{}, DURABLE, DURABLE]),
)
STORIES = st.builds(
    Story,
    SHAPES,
    st.lists(LIVES, min_size=1, max_size=3).map(tuple),
    st.integers(0, 2**32),
    SETTINGS,
    st.sampled_from([0, 0, 2]),
)


FAILS_AND_GOES_ON = Story(
    Shape("totals", rows=40, splits=2, batch_rows=2),
    (Life(60, "suspend", (Fault("publication fails", 0, stands=True),)),),
    settings={"interval_ms": 40},
)


def tell_random(stories: int, **how: bool | None) -> Counter[str]:
    """Tell this many random stories; returns what happened in all of them."""
    happened: Counter[str] = Counter()

    @given(STORIES)
    @example(FAILS_AND_GOES_ON)
    @example_settings(max_examples=stories, **how)
    def each(story: Story) -> None:
        happened.update(tell(story))

    each()
    return happened


def test_random_stories_end_in_the_batch_result() -> None:
    # So few that it may be chance what happens in them.
    happened = tell_random(examples(60), derandomize=True, database=None)
    assert happened["stopped with a savepoint"] > 5
    assert happened["failed, goes on from its savepoint"] > 0


@pytest.mark.soak
def test_thousands_of_random_stories_end_in_the_batch_result() -> None:
    happened = tell_random(3_000)
    for fault in ("kill 0", "publication fails", DRIVER_DIES):
        assert happened[f"{fault}, savepoint stands"] > 10, happened
    assert happened["failed, goes on from its savepoint"] > 100


# --- at every step ----------------------------------------------------------------------------------------------------

SMALL = Shape("totals", rows=40, splits=2, batch_rows=2)
STEPS = 110
"""More than there are between the request and the end; after about sixty the savepoint stands."""
EVERY_STEP = [
    pytest.param(7, id="some"),
    pytest.param(1, id="all", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("every", [pytest.param(30, id="some"), pytest.param(5, id="all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("way", ["windows", "sessions", "aside", "waits", "idle"])
def test_event_time_timers_and_side_outputs_outlive_a_stop_a_kill_and_two_rescales(
    way: str, unaligned: bool, every: int
) -> None:
    happened: Counter[str] = Counter()
    for step in range(10, 100, every):
        shape = Shape(way, rows=40, splits=3, batch_rows=2)
        settings = {"interval_ms": 40, "unaligned": unaligned}
        lives = (Life(40 + step, "suspend"), Life(40, "", (Fault("kill 1", step), Fault("rescale twice", step))))
        happened.update(tell(Story(shape, lives, seed=step, settings=settings, hooks=2)))
    assert happened["rescale twice"] > 0
    assert happened["stopped with a savepoint"] > 0


@pytest.mark.flink("SavepointITCase.testStopWithSavepointFailsOverToSavepoint")
@pytest.mark.parametrize("every", EVERY_STEP)
@pytest.mark.parametrize("ending", ["suspend", "drain"])
@pytest.mark.parametrize("what", ["kill 0", "kill 1", "publication fails", DRIVER_DIES])
def test_a_fault_at_every_step_of_a_stop(what: str, ending: str, every: int) -> None:
    happened: Counter[str] = Counter()
    for step in range(0, STEPS, every):
        faults = (Fault(what, step),)
        config = {"interval_ms": 40} | (DURABLE if what == DRIVER_DIES or step % 2 else {})
        happened.update(tell(Story(SMALL, (Life(60, ending, faults),), seed=step, settings=config)))
    assert happened[what] > 0, "some came before the savepoint stood"
    assert happened[f"{what}, savepoint stands"] > 0, "and some after that"
    if what.startswith("kill"):
        assert happened["failed, goes on from its savepoint"] > 0
