"""The checkpoint protocol on one sheet of A4, like Figure 2 of the Raft paper.

Everything on it comes from tables: the messages and their fields, the states of a checkpoint and of the barrier
handler, the reasons, and the rules of `kit.draw.protocol.rules`. `docs/protocol.svg` and `docs/protocol.pdf` are this
picture; `python -m tests.house.protocol_sheet` writes both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from kit.core.markup import Markup, element
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.transitions import label
from kit.draw import shapes
from kit.draw.graphs import text_width, wrapped
from kit.draw.picture import Svg, light_svg
from kit.draw.protocol.rules import AFTER_A_FAILURE, ASKED, GIVEN_BY, NOBODY, RULES
from kit.machines.coordinator import checkpoint_state
from kit.machines.coordinator.checkpoint_state import CheckpointEvent, CheckpointState
from kit.machines.coordinator.failure_manager import COUNTED
from kit.machines.task import barrier_states

STYLE = "protocol_sheet.css"
WIDTH, HEIGHT = 794.0, 1123.0
"""A sheet of A4 at 96 dots per inch."""
MARGIN, GAP, PAD = 26.0, 14.0, 7.0
SIZE, LEADING, BAR = 9.0, 11.3, 15.0
COLUMN = (WIDTH - 2 * MARGIN - GAP) / 2
HIDDEN = {"task", "attempt", "job_id", "timestamp_ms", "options", "detail"}
"""Fields that a reader of the protocol does not need."""
TITLE = "The checkpoint protocol on one page"
UNDER = (
    "Invariant: source positions + state + in-flight records account for every record exactly once, "
    "in every completed checkpoint."
)


def protocol_sheet() -> Svg:
    """Return the protocol on one sheet: messages with the rules of their recipients, states, and reasons to abort."""
    left = _Column(MARGIN)
    left.box("What the recipient of a message does", _rules)
    left.box("After a failure", _after_a_failure)
    right = _Column(MARGIN + COLUMN + GAP)
    right.box("A checkpoint, in the JobMaster", _checkpoint)
    right.box("The barrier handler of a task", _handler)
    right.box("Who may end a checkpoint, and what counts as a failure", _reasons)
    head = shapes.text(MARGIN, MARGIN + 12, "head", TITLE) + shapes.text(MARGIN, MARGIN + 27, "under", UNDER)
    lowest = max(left.y, right.y)
    if lowest > HEIGHT - MARGIN / 2:
        raise ValueError(f"the sheet is {lowest:.0f} px high, but A4 has {HEIGHT:.0f}: shorten its rules")
    drawn = element("g", head, *left.drawn, *right.drawn, class_="kit-sheet")
    return light_svg(WIDTH, HEIGHT, drawn, TITLE, STYLE)


class _Column:
    """A column of the sheet, filled from top to bottom."""

    def __init__(self, x: float) -> None:
        self.x = x
        self.y = MARGIN + 40
        self.drawn: list[Markup] = []

    def box(self, title: str, fill: Callable[[_Column], None]) -> None:
        """Add a box with a title; `fill` adds its lines."""
        top = self.y
        self.drawn.append(shapes.rect("bar", self.x, top, COLUMN, BAR))
        self.drawn.append(shapes.text(self.x + PAD, top + 11, "title", title))
        self.y = top + BAR + 4
        fill(self)
        self.y += 3
        self.drawn.append(shapes.rect("box", self.x, top, COLUMN, self.y - top))
        self.y += GAP - 4

    def line(self, *parts: tuple[float, str, str]) -> None:
        """Add one line of texts, each with its place and its look."""
        for x, look, words in parts:
            self.drawn.append(shapes.text(self.x + PAD + x, self.y + SIZE, look, words))
        self.y += LEADING

    def bullet(self, words: str) -> None:
        """Add a sentence, wrapped."""
        self.drawn.append(shapes.circle("dot", self.x + PAD + 2, self.y + SIZE - 2.6, 1.4))
        for line in wrapped(words, COLUMN - 2 * PAD - 8, SIZE):
            self.line((8, "plain", line))

    def gap(self) -> None:
        """Add a thin line between two entries."""
        self.drawn.append(shapes.path("rule", f"M{self.x + PAD:g} {self.y + 1.5:g}h{COLUMN - 2 * PAD:g}"))
        self.y += 4


def _rules(column: _Column) -> None:
    for place, rule in enumerate(RULES):
        if place:
            column.gap()
        name = rule.message.__name__
        carried = [each.name for each in fields(rule.message) if each.name not in HIDDEN]
        of_it = f"({', '.join(carried)})" if carried else ""
        column.line((0, "name", name), (text_width(name, SIZE, bold=True) + 3, "way", of_it))
        column.line((0, "way", rule.way))
        for sentence in rule.does:
            column.bullet(sentence)


def _checkpoint(column: _Column) -> None:
    table = checkpoint_state.TRANSITIONS
    for state in table:
        asked = ", ".join(each.__name__ for each in ASKED[state]) or "nothing: it waits"
        column.line((0, "name", label(state)), (100, "plain", f"asks for {asked}"))
        for event in table.events(state):
            if event is not CheckpointEvent.ABORT:
                (target,) = table.targets_at(state, event)
                column.line((100, "way", f"{label(event)} → {label(target)}"))
    column.gap()
    safe = [
        label(state) for state in table if CheckpointEvent.ABORT not in table.events(state) and not table.is_end(state)
    ]
    column.bullet(
        f"Any state but {', '.join(safe)} may be aborted: the timeout (from the id on), a decline, a failed step, a "
        "newer completed checkpoint, a failure of the job, or its end."
    )
    column.bullet(
        f"In {CheckpointState.STORING.value} nothing aborts it: the store may have it already. Only its rejection "
        "or silence ends it; after silence the files stay."
    )
    column.bullet("Order at the end: store, subsume older ones, notify. A savepoint subsumes nothing.")
    column.bullet("A restore takes the newest checkpoint of the store, for all tasks at once.")


def _handler(column: _Column) -> None:
    steps = barrier_states.TRANSITIONS.to_pandas()
    steps = steps[steps["state"] != steps["target"]]
    for state in dict.fromkeys(steps["state"]):
        column.line((0, "name", state))
        moves = steps[steps["state"] == state].groupby("target", sort=False)["event"].agg(", ".join)
        for target, events in moves.items():
            for line in wrapped(f"{events} → {target}", COLUMN - 2 * PAD - 10, SIZE):
                column.line((10, "way", line))
    column.gap()
    column.bullet("The names with “Alternating” belong to jobs that allow unaligned checkpoints.")


def _reasons(column: _Column) -> None:
    for early, heading in ((True, "Before any task is reached:"), (False, "While it is pending:")):
        column.line((0, "under", heading))
        for reason in reasons_on_the_sheet():
            if reason.pre_flight is early:
                counts = (COLUMN - 50, "bad", "counts" if reason in COUNTED else "")
                column.line((8, "way", reason.name), (COLUMN - 112, "plain", GIVEN_BY[reason]), counts)


def _after_a_failure(column: _Column) -> None:
    for sentence in AFTER_A_FAILURE:
        column.bullet(sentence)


def reasons_on_the_sheet() -> list[CheckpointFailureReason]:
    """Return the reasons that the sheet lists: those that some machine of the kit gives."""
    return [reason for reason, who in GIVEN_BY.items() if who != NOBODY]


__all__ = ["protocol_sheet", "reasons_on_the_sheet"]
