"""The two ends of event time are shown in words wherever a watermark or a time is shown to people."""

from __future__ import annotations

import pandas as pd
import pytest

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.core.html_tables import frame_html
from kit.core.protocol.elements import Watermark
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.run.captions import caption_of_moment

RAW = (str(MAX_WATERMARK_MS), str(MIN_WATERMARK_MS))


def test_a_watermark_is_told_as_people_read_it() -> None:
    assert repr(Watermark(5)) == "Watermark(timestamp_ms=5)"
    assert repr(Watermark(MAX_WATERMARK_MS)) == "Watermark(end of event time)"
    assert repr(Watermark(MIN_WATERMARK_MS)) == "Watermark(no event time yet)"


@pytest.mark.parametrize("job", ["sessions", "two-gates", "every-kind"])
def test_the_end_of_event_time_is_no_number(job: str) -> None:
    lab = Lab(ready_job(job))
    met = 0
    while not lab.ended:
        lab.step()
        news = lab.trace[-6:]
        is_there = any(record.data.get("element", {}).get("timestamp_ms") == MAX_WATERMARK_MS for record in news)
        if not is_there:
            continue
        met += 1
        moment = caption_of_moment(lab.moment())
        shown = [lab.state()._repr_html_(), news._repr_html_(), moment, lab.look.svg()]
        shown += [each.text for each in lab.enabled()]
        shown += [frame_html(lab.queue(each.number)) for each in lab.look.stages[-1].channels]
        assert not [text for text in shown for raw in RAW if raw in text]
    assert met > 2


def test_only_times_are_told_so() -> None:
    for name, value, shown in (
        ("n", MAX_WATERMARK_MS, RAW[0]),
        ("end_ms", MAX_WATERMARK_MS, "end of event time"),
        ("time_ms", MIN_WATERMARK_MS, "no event time yet"),
        ("time_ms", 7, ">7</td>"),
    ):
        assert shown in frame_html(pd.DataFrame({name: [value]}))
