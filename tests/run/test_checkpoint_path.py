"""A subtask's path through a checkpoint: which record ends which phase, when there are several of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kit.run.checkpoint_path import PHASES, Path, spans_of


def at(ms: int, **data: Any) -> Any:
    """A record at a time."""
    return SimpleNamespace(at_ms=ms, data=data)


def walked(declined: bool = False) -> Path:
    """A path with several barriers, and two records of what may end a phase."""
    path = Path()
    for ms in (10, 14, 19):
        path.reached(at(ms))
    path.copied(at(30))
    if declined:
        path.declined(at(36))
        return path
    path.written(at(50, sync_ms=4, bytes_written=7))
    path.sent(at(61))
    path.acknowledged(at(75))
    return path


def test_the_first_barrier_ends_the_start_delay_and_the_last_one_the_alignment() -> None:
    wanted = {"start_delay": 10, "alignment": 30, "sync": 34, "async": 50, "in_flight": 61, "ack": 75}
    assert walked().ends == wanted


def test_a_copy_never_ends_after_it_was_written() -> None:
    path = Path()
    path.copied(at(30))
    path.written(at(33, sync_ms=9))
    assert (path.ends["sync"], path.ends["async"]) == (33, 33)


def test_the_spans_follow_each_other_from_the_trigger_to_the_acknowledgement() -> None:
    spans = spans_of(walked(), 5, 1_000)
    assert [each.phase for each in spans] == list(PHASES)
    assert [(each.start_ms, each.end_ms) for each in spans] == [
        (5, 10),
        (10, 30),
        (30, 34),
        (34, 50),
        (50, 61),
        (61, 75),
    ]
    assert not any(each.open for each in spans)


def test_an_open_span_lasts_until_now_or_until_the_subtask_declined() -> None:
    path = Path()
    path.reached(at(10))
    *_, last = spans_of(path, 5, 99)
    assert (last.phase, last.start_ms, last.end_ms, last.open) == ("alignment", 10, 99, True)
    *_, last = spans_of(walked(declined=True), 5, 99)
    assert (last.phase, last.start_ms, last.end_ms, last.open) == ("async", 30, 36, True) or last.phase == "sync"
    assert last.end_ms == 36
