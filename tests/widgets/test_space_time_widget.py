"""The space-time widget: the data that it sends for a growing run, and what a saved notebook keeps."""

from __future__ import annotations

import pytest

from tests.draw.labs import lab_of
from widgets import SpaceTimeWidget


def test_it_sends_what_is_new_and_nothing_twice() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    diagram = SpaceTimeWidget(lab)
    assert diagram.n == diagram.data["n"] == len(lab.trace)
    before = dict(diagram.data)
    assert diagram.refresh().more == {}, "nothing has happened"
    lab.run_until(checkpoint=2)
    diagram.refresh()
    assert diagram.data == before, "the whole run is sent once"
    assert diagram.more["part"] == 1
    assert diagram.more["clock"]["from"] == before["n"]
    assert diagram.n == diagram.more["n"] == len(lab.trace), "a cursor at the end goes on with the run"
    diagram.n = 10
    lab.run()
    assert diagram.refresh().n == 10, "one in the past stays"


def test_a_page_that_missed_a_piece_is_sent_the_whole() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    diagram = SpaceTimeWidget(lab)
    lab.run_until(checkpoint=2)
    diagram.refresh()
    diagram._handle_custom_msg({"wanted": "all"}, [])
    assert (diagram.data["n"], diagram.more) == (len(lab.trace), {})
    assert diagram.data["clock"]["from"] == 0


def test_it_stays_a_picture_where_no_widget_is_shown() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    diagram = SpaceTimeWidget(lab, checkpoint=1)
    bundle = diagram._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/svg+xml"] == diagram.svg()
    assert data["text/plain"] == repr(diagram) == f"SpaceTimeWidget({len(lab.trace)} records, at {len(lab.trace)})"


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(TypeError, match="not a run"):
        SpaceTimeWidget(7)
