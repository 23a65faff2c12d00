"""What travelled in a run: the side of a checkpoint's cut on which an element is."""

from __future__ import annotations

import pytest

from kit.run.journeys import Crossing, Cut, Instant, Journey

SENDER_COPIED, RECEIVER_COPIED = Instant(20, 0), Instant(30, 0)


@pytest.mark.parametrize(
    ("queued", "taken", "lost", "crossing"),
    [
        (10, 15, None, Crossing.BEFORE),
        (10, 29, None, Crossing.BEFORE),
        (19, 31, None, Crossing.IN_FLIGHT),
        (19, None, None, Crossing.IN_FLIGHT),
        (19, None, 31, Crossing.IN_FLIGHT),
        (19, None, 29, None),
        (21, 29, None, Crossing.AGAINST),
        (21, 31, None, Crossing.AFTER),
        (21, None, None, Crossing.AFTER),
        (21, None, 29, None),
        (31, None, 32, Crossing.AFTER),
    ],
)
def test_a_side_follows_from_when_both_tasks_copied_their_state(
    queued: int, taken: int | None, lost: int | None, crossing: Crossing | None
) -> None:
    each = Journey(1, 0, "buffer", 1, None, "a/0", "b/0", queued=Instant(queued, 0))
    each.taken, each.lost = (None if n is None else Instant(n, 0) for n in (taken, lost))
    both = {"a/0": SENDER_COPIED, "b/0": RECEIVER_COPIED}
    assert each.crossing(Cut(1, both)) is crossing
    assert each.crossing(Cut(2, both)) is None, "the cut of another epoch"
    assert each.crossing(Cut(1, {"a/0": SENDER_COPIED})) is None, "the receiver has not copied its state"
    assert each.crossing(None) is None
