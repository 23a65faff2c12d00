"""A table of transitions: what it lets through, how it refuses, and the figures made of it."""

from __future__ import annotations

from enum import Enum

import pytest

from kit.core.protocol.transitions import Transitions
from kit.core.protocol.words import ProtocolError


class Light(Enum):
    """The states of a traffic light."""

    RED = "RED"
    GREEN = "GREEN"
    BROKEN = "BROKEN"


class Timer:
    """An event that is a class."""


class Fault(Enum):
    """An event that is an enum's member."""

    BLOWN = "a lamp is blown"


TABLE = Transitions(
    "light",
    Light.RED,
    {
        Light.RED: {Timer: Light.GREEN, Fault.BLOWN: (Light.RED, Light.BROKEN)},
        Light.GREEN: {Timer: Light.RED, Fault.BLOWN: Light.BROKEN},
        Light.BROKEN: {},
    },
)


def test_an_event_leads_to_the_state_that_the_table_says() -> None:
    assert TABLE.follow("light 3", Light.RED, Timer) is Light.GREEN
    assert list(TABLE) == list(Light)
    assert TABLE.targets(Light.RED) == (Light.GREEN, Light.RED, Light.BROKEN)
    assert TABLE.events(Light.RED) == (Timer, Fault.BLOWN)
    assert [light for light in TABLE if TABLE.is_end(light)] == [Light.BROKEN]


def test_a_step_is_held_against_the_table_with_and_without_its_event() -> None:
    TABLE.check("light 3", Light.RED, Light.BROKEN)
    TABLE.check("light 3", Light.RED, Light.BROKEN, Fault.BLOWN)
    assert not TABLE.allows(Light.RED, Light.BROKEN, Timer)
    with pytest.raises(ProtocolError, match=r"light 3 is RED and cannot become BROKEN at 'Timer'; Timer -> GREEN; a"):
        TABLE.check("light 3", Light.RED, Light.BROKEN, Timer)


def test_a_refusal_quotes_the_table() -> None:
    with pytest.raises(ProtocolError, match=r"light 3 is BROKEN and cannot take 'Timer'; nothing follows"):
        TABLE.follow("light 3", Light.BROKEN, Timer)
    with pytest.raises(
        ProtocolError,
        match=r"^light 3 is GREEN and cannot become GREEN; Timer -> RED; a lamp is blown -> BROKEN$",
    ):
        TABLE.check("light 3", Light.GREEN, Light.GREEN)


def test_where_the_table_leaves_a_choice_nothing_is_chosen_silently() -> None:
    with pytest.raises(ValueError, match="too many values"):
        TABLE.follow("light 3", Light.RED, Fault.BLOWN)


def test_a_table_that_leads_nowhere_or_misses_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Transitions\(light, 1 states\): unknown state b: add a row for it"):
        Transitions("light", "a", {"a": {"go": "b"}})
    with pytest.raises(ValueError, match="no path leads to c"):
        Transitions("light", ("a", "b"), {"a": {"go": "b"}, "b": {}, "c": {}})


def test_the_figures_and_the_table_have_every_step() -> None:
    assert TABLE.to_pandas().to_numpy().tolist() == [
        ["RED", "Timer", "GREEN"],
        ["RED", "a lamp is blown", "RED"],
        ["RED", "a lamp is blown", "BROKEN"],
        ["GREEN", "Timer", "RED"],
        ["GREEN", "a lamp is blown", "BROKEN"],
    ]
    assert TABLE.steps().to_dict("index") == {
        "RED": {"Timer": "GREEN", "a lamp is blown": "BROKEN"},
        "GREEN": {"Timer": "RED", "a lamp is blown": "BROKEN"},
    }
    assert TABLE.dot().splitlines() == [
        'digraph "light" {',
        "  node [shape=box, style=rounded]",
        '  "BROKEN" [peripheries=2]',
        '  "RED" -> "GREEN" [label="Timer"]',
        '  "RED" -> "RED" [label="a lamp is blown"]',
        '  "RED" -> "BROKEN" [label="a lamp is blown"]',
        '  "GREEN" -> "RED" [label="Timer"]',
        '  "GREEN" -> "BROKEN" [label="a lamp is blown"]',
        "}",
    ]
    assert TABLE.mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> RED",
        "    RED --> GREEN: Timer",
        "    RED --> RED: a lamp is blown",
        "    RED --> BROKEN: a lamp is blown",
        "    GREEN --> RED: Timer",
        "    GREEN --> BROKEN: a lamp is blown",
        "    BROKEN --> [*]",
    ]
    assert "<th>event</th>" in TABLE._repr_html_()


def test_events_between_the_same_states_share_an_arrow() -> None:
    table = Transitions("a", "x", {"x": {"go": "y", "jump": "y"}, "y": {}})
    assert '"x" -> "y" [label="go\\njump"]' in table.dot()
    assert "x --> y: go, jump" in table.mermaid()
