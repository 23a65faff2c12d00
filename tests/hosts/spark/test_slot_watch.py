"""What a driver reports of the number of slots, over several outages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.core.protocol.events import SlotsChanged
from kit.hosts.spark.driver import slot_watch
from kit.hosts.spark.driver.slot_watch import SlotWatch


def reported(watch: SlotWatch, counts: list[int | None], *, least: int = 3, deployed: bool = False) -> Iterator[int]:
    """Yield the numbers that are reported while the slots are counted."""
    for slots in counts:
        watch.count = lambda slots=slots: slots
        news = watch.news(least, deployed=deployed)
        if news is not None:
            assert news == SlotsChanged(slots=slots)
            yield news.slots


def test_a_job_hears_of_its_slots_from_the_first_lack_of_them_until_it_is_deployed() -> None:
    watch = SlotWatch(reactive=False)
    for lacking in (2, 1):
        assert list(reported(watch, [3, 5, None, 4])) == [], "there are enough"
        assert list(reported(watch, [4, lacking, lacking, None, 0, 4, 4, 5])) == [lacking, 0, 4, 5]
        watch.deployed()
        assert list(reported(watch, [5, 0, 3], deployed=True)) == []


def test_a_reactive_job_hears_of_every_change_even_while_it_runs() -> None:
    watch = SlotWatch(reactive=True)
    assert list(reported(watch, [5, 5, 4])) == [5, 4]
    watch.deployed()
    assert list(reported(watch, [4, None, 2, 2, 4], deployed=True)) == [2, 4]


@pytest.mark.parametrize("reactive", [False, True])
def test_slots_are_counted_more_often_between_two_epochs(reactive: bool) -> None:
    watch = SlotWatch(reactive=reactive)
    assert watch.again_ms(deployed=False) == slot_watch.WAITING_EVERY_MS
    assert watch.again_ms(deployed=True) == (slot_watch.EVERY_MS if reactive else None)
    watch.always = True
    assert watch.again_ms(deployed=True) == slot_watch.EVERY_MS
