"""The displays of an unfinished job: short text in a terminal, a picture or a table in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.formatters import DisplayFormatter

from kit import (
    CollectionSource,
    CollectSink,
    CsvSource,
    GeneratorSource,
    MapStateDescriptor,
    ParquetSink,
    StreamEnvironment,
    TextSource,
    TumblingEventTimeWindows,
    count,
)
from kit.stream.api import environment

ROWS = [{"letter": "a<b", "n": 1, "at": 1_000}]


def shown(thing: Any) -> dict[str, str]:
    """Return what a front end receives, by MIME type."""
    data: dict[str, str] = DisplayFormatter().format(thing)[0]
    return data


class Text(HTMLParser):
    """The text of a document whose tags are closed in order."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self._open: list[str] = []
        self.feed(document)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.said.append(data)


def text_of(document: str) -> str:
    return " | ".join(Text(document).said)


def letters() -> Any:
    env = StreamEnvironment("letters", parallelism=2)
    stream = env.from_source(CollectionSource(ROWS), uid="letters").assign_timestamps("at").uid("times")
    return env, stream


def test_an_environment_is_drawn() -> None:
    env, stream = letters()
    totals = stream.key_by("letter").aggregate(n=count()).uid("totals")
    totals.sink_to(CollectSink("out"), uid="out")
    data = shown(env)
    assert set(data) == {"text/plain", "text/html", "image/svg+xml"}
    assert data["text/plain"] == "StreamEnvironment('letters', 4 operators)"
    for name in ("letters", "times", "totals", "out"):
        assert f">{name}<" in data["image/svg+xml"]
    assert shown(env) == data


def test_where_nothing_can_be_drawn_there_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, env: StreamEnvironment) -> str:
        raise ImportError("no graphviz")

    monkeypatch.setattr(environment, "display", missing)
    env, stream = letters()
    stream.key_by("letter").aggregate(n=count()).uid("totals")
    data = shown(env)
    assert set(data) == {"text/plain", "text/html"}
    assert "totals | KeyedAggregate | totals | 2 | times by hash(letter) | letter: string, n: int64" in text_of(
        data["text/html"]
    )
    assert text_of(shown(StreamEnvironment("new"))["text/html"]).startswith("StreamEnvironment('new', 0 operators)")


def test_what_keeps_a_job_from_being_one_is_shown() -> None:
    env, stream = letters()
    stream.sink_to(CollectSink("out"))
    stream.sink_to(CollectSink("out"))
    assert "both write to memory://out" in text_of(shown(env)["text/html"])


def test_the_operators_are_a_table() -> None:
    env, _ = letters()
    frame = env.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["operator"].tolist() == ["letters", "times"]
    assert frame["kind"].tolist() == ["CollectionSource", "TimestampsAndWatermarks"]
    assert frame["inputs"].tolist() == ["", "letters"]


def test_streams_say_their_operator_their_columns_and_what_they_hang_on() -> None:
    env, stream = letters()
    keyed = stream.key_by("letter")
    rules = env.from_source(CollectionSource(ROWS), uid="rules")
    other = rules.rename(n="m", at="then").assign_timestamps("then").key_by("letter")
    expected = {
        stream: "operator: times (TimestampsAndWatermarks) | uid: times | parallelism: 2 | depends on: letters",
        keyed: (
            "KeyedStream | key: letter | depends on: times by hash(letter) | event time: at | column | type | letter"
        ),
        stream.rebalance(): "DataStream | depends on: times by rebalance",
        stream.union(rules): "DataStream | depends on: times; rules",
        keyed.window(TumblingEventTimeWindows(10)): "WindowedStream | windows: ",
        stream.connect(rules): "ConnectedStreams | TimestampedStream",
        stream.join(stream): "JoinedStreams | ",
        keyed.interval_join(other): "IntervalJoined | ",
        rules.broadcast(
            MapStateDescriptor("rules", pa.string(), pa.int64())
        ): "BroadcastStream | depends on: rules by br",
        rules.sink_to(ParquetSink("rules")): "StreamSink | operator: ParquetSink (ParquetSink) | uid: none",
    }
    for thing, said in expected.items():
        data = shown(thing)
        assert set(data) == {"text/plain", "text/html"}
        assert said in text_of(data["text/html"])
        assert len(data["text/plain"]) < 200
        assert " at 0x" not in data["text/plain"]
        assert shown(thing) == data


def test_sources_and_sinks_show_their_columns_and_stay_short(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.csv").write_text("n,word\n1,x\n")
    csv = CsvSource(tmp_path)
    assert repr(csv) == f"CsvSource(path=('{tmp_path}/00.csv', ...: 30 files), delimiter=',')"
    assert "column | type | n | int64 | word | string" in text_of(shown(csv)["text/html"])
    text = TextSource(tmp_path / "00.csv")
    assert repr(text) == f"TextSource(path='{tmp_path}/00.csv', columns=('line',), splits=None)"
    for source in (csv, text, GeneratorSource(9, 3), CollectionSource(ROWS)):
        assert repr(source) in text_of(shown(source)["text/html"]).replace("&#x27;", "'")
        assert len(repr(source)) < 250
    assert repr(CollectSink("out")) == "CollectSink(path='memory://out')"
    assert "path: memory://out" in text_of(shown(CollectSink("out"))["text/html"])
    assert repr(ParquetSink("/out")) == "ParquetSink(path='/out', mode='error')"
