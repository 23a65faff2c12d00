"""What the explorer shows of runs with several of everything: `python -m tests.widgets.several` writes `several.txt`
again.

At some moments of two runs it has the details of items with the actions that are offered on them, all possible actions
and faults, and the words of the controls and panels. While two checkpoints are pending, it also has the conditions to
run until, and the cost of a worker's death. After a change, read the output of `git diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any

import ipywidgets

from kit.hosts.lab import Lab
from tests.several_run import moments
from tests.stored_parts import Part, store
from tests.timed_run import timed_moments
from widgets import Explorer
from widgets.runs.details import details_html, offers, what_if
from widgets.runs.next_actions import fault_items, next_items
from widgets.runs.targets import NEXT_CHECKPOINT, targets

STORED = Path(__file__).with_suffix(".txt")
SHOWN = {
    "6 and 7 are pending": ("task:totals/0", "vertex:left", "channel:0", "channel:3", "checkpoint:6", "checkpoint:7"),
    "readers are paused": ("task:fast/0", "task:counts/0", "vertex:fast", "channel:6", "channel:12", "checkpoint:1"),
    "a region stops": ("task:copies/3", "task:sums/0", "checkpoint:2", "job"),
    "rescaled": ("task:counts/2", "channel:5", "checkpoint:3", "checkpoint:4"),
}
"""The items that are picked at a moment, besides the first and the last message."""
PANELS = ("Next", "Faults", "Missions", "Compare", "Rescale", "Find a key", "Another run", "Look closer", "Save")
TARGETS = (NEXT_CHECKPOINT, "an acknowledgement is in flight", "out/1 has its barrier")
"""The conditions that are run to, while checkpoints are pending."""
_HIDDEN = re.compile(r"<(style|script|title|svg)\b.*?</\1>", re.DOTALL)


def parts() -> Iterator[Part]:
    """Each part with its lines."""
    for moment, lab, _ in chain(moments(), timed_moments()):
        if moment in SHOWN:
            explorer = Explorer(lab.fork())
            yield from ((f"{moment}: {title}", lines) for title, lines in _shown(explorer, SHOWN[moment]))
            explorer.close()


def _shown(explorer: Explorer, items: tuple[str, ...]) -> Iterator[Part]:
    lab = explorer.lab
    assert lab is not None
    messages = [f"message:{each}" for each in lab.moment().messages]
    for item in (*items, *messages[:1], *messages[-1:]):
        yield f"details of {item}", _words(details_html(explorer.explored, item))
        told = (
            " | ".join(offer[name] for name in ("label", "key", "hint", "why_not"))
            for offer in offers(explorer.explored, item)
        )
        yield f"offers on {item}", list(told)
    yield "next", [" | ".join(each) for each in next_items(lab)]
    yield "faults", [" | ".join(each) for each in fault_items(lab)][::7]
    if len(lab.moment().pending) > 1:
        yield "targets", list(_targets(lab))
        for worker in (0, 1):
            yield f"the death of worker {worker}", list(what_if(lab, worker))
    yield "controls", _of_widget(explorer.controls.widget) + _of_widget(explorer.controls.why_not)
    for title in PANELS:
        panel = explorer.turn_to(title)
        yield f"panel {title}", _of_widget(panel.widget)


def _targets(lab: Lab) -> Iterator[str]:
    """Each condition with its code; for some the step and the time at which it holds."""
    for name, (run, code) in targets(lab).items():
        fork = lab.fork()
        if name in TARGETS:
            run(fork)
        yield f"{name} | {code} | {fork.position} {fork.look.at_ms}"


def _words(html: str) -> list[str]:
    """The words of some HTML, a line for each of its parts."""
    rows = re.sub(r"</t[dh]>", " | ", _HIDDEN.sub("", html))
    parts = re.sub(r"<(?!/?(b|i|code|span|tr|t[dh])\b)[^>]+>", "\n", rows).splitlines()
    cells = (unescape(re.sub(r"<[^>]+>", "", each)).strip(" |") for each in parts)
    return [each for each in cells if each]


def _of_widget(widget: Any) -> list[str]:
    """The words on a widget and on those inside: what each shows, and whether it can be used."""
    if getattr(widget.layout, "display", None) == "none":
        return []
    lines: list[str] = []
    said = [
        str(getattr(widget, name))
        for name in ("description", "tooltip", "placeholder", "label")
        if getattr(widget, name, "")
    ]
    options = getattr(widget, "options", ())
    value = getattr(widget, "value", "")
    if isinstance(widget, ipywidgets.HTML):
        lines += _words(str(value))
    elif said or options or value != "":
        off = " (off)" if getattr(widget, "disabled", False) else ""
        lines.append(" | ".join([*dict.fromkeys(said), *map(str, options), f"= {value}"]) + off)
    for child in getattr(widget, "children", ()):
        lines += _of_widget(child)
    return lines


if __name__ == "__main__":
    store(STORED, parts())
