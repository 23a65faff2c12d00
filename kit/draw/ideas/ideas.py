"""The figures of the course's central ideas: `cuts`, `alignment`, `overtaking`, `key_groups`, `lifetime`.

Each is 700 px wide, has at most four kinds of elements, and says on the picture what they mean. They are drawn by hand,
not from a run: the pictures of runs (`kit.draw.space_time` and others) show the same in measured form.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot

from kit.core.markup import Markup, element
from kit.core.protocol.transitions import label
from kit.core.state.key_groups import key_group_partitions, operator_index_for_key_group
from kit.draw import shapes
from kit.draw.picture import Svg, light_svg
from kit.machines.coordinator import checkpoint_state
from kit.machines.coordinator.checkpoint_state import CheckpointEvent, CheckpointState

STYLE = "ideas.css"
WIDTH = 700.0
BLOCK = 26.0
"""The side of a record or a barrier in a queue."""


def _figure(height: float, title: str, parts: Iterable[Markup]) -> Svg:
    return light_svg(WIDTH, height, element("g", *parts, class_="kit-idea"), title, STYLE)


def arrow(x1: float, y1: float, x2: float, y2: float, bad: bool = False) -> Markup:
    """Return an arrow between two points."""
    look = "-bad" if bad else ""
    length = hypot(x2 - x1, y2 - y1)
    along, across = (x2 - x1) / length, (y2 - y1) / length
    corners = [(x2 - 11 * along + side * 5 * across, y2 - 11 * across - side * 5 * along) for side in (1, -1)]
    tip = f"M{x2:.1f} {y2:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in corners) + "z"
    return shapes.path(f"sent{look}", f"M{x1:g} {y1:g}L{x2:g} {y2:g}") + shapes.path(f"tip{look}", tip)


# --- the cut ----------------------------------------------------------------------------------------------------------


def cuts() -> Svg:
    """Return a consistent and an inconsistent cut, each with two tasks and one record."""
    title = (
        "Two cuts with one record each. Consistent: the record is sent after the source's copy and consumed after the "
        "receiver's copy. Inconsistent: it is sent after the source's copy and consumed before the receiver's copy, so "
        "a restore counts it twice"
    )
    return _figure(262, title, [*_cut(0, consistent=True), *_cut(WIDTH / 2, consistent=False)])


def _cut(x: float, *, consistent: bool) -> list[Markup]:
    top, low, copy, later = 84.0, 164.0, x + 104, x + 252
    taken = later + 38 if consistent else x + 205
    parts = [
        shapes.text(
            x + 16, 30, "head good" if consistent else "head bad", "Consistent" if consistent else "Inconsistent"
        ),
        shapes.text(x + 16, top - 12, "quiet", "source"),
        shapes.text(x + 16, low + 24, "quiet", "account"),
        shapes.path("task", f"M{x + 16:g} {top:g}H{x + 336:g}M{x + 16:g} {low:g}H{x + 336:g}"),
        shapes.path("cut", f"M{copy:g} {top:g}L{later:g} {low:g}"),
        shapes.text(copy - 6, top - 12, "cut-name", "copies its position"),
        shapes.text(later, low + 24, "cut-name", "copies its balance", "middle"),
    ]
    sent = copy + 34
    arrives = sent + 44 if consistent else taken
    parts.append(arrow(sent, top, arrives, low, bad=not consistent))
    if consistent:
        parts.append(shapes.path("waits", f"M{arrives:g} {low - 5:g}H{taken:g}"))
        parts.append(shapes.circle("tip", taken, low, 5))
        words = [
            "The record arrives early and waits.",
            "It is consumed after the copy:",
            "it belongs to the next checkpoint.",
        ]
    else:
        words = ["The record is in the balance,", "but not in the position:", "a restore counts it twice."]
    parts += [shapes.text(x + 16, 212 + 17 * n, "good" if consistent else "bad", line) for n, line in enumerate(words)]
    return parts


# --- barriers in channels ---------------------------------------------------------------------------------------------


def _block(look: str, x: float, y: float, words: str = "") -> Markup:
    drawn = shapes.rect(look, x, y, BLOCK, BLOCK, rx=4)
    return drawn + (shapes.text(x + BLOCK / 2, y + 18, "on", words, "middle") if words else Markup(""))


def alignment() -> Svg:
    """Return a task that aligns: one channel is blocked behind its barrier, the other is read on."""
    title = (
        "A task with two channels. The barrier of the upper channel has been taken, so the records behind it wait. The "
        "task reads the lower channel until its barrier comes, and then copies its state"
    )
    parts = [
        shapes.rect("box", 520, 40, 164, 130, rx=8),
        shapes.text(602, 84, "head", "account", "middle"),
        shapes.text(602, 108, "quiet", "has barrier 1 of east,", "middle"),
        shapes.text(602, 126, "quiet", "waits for that of west", "middle"),
        shapes.path("task", "M60 68H520M60 142H520"),
        shapes.text(16, 72, "quiet", "east"),
        shapes.text(16, 146, "quiet", "west"),
        *(_block("held", 420 - n * 40, 68 - BLOCK / 2) for n in range(3)),
        _block("barrier", 484, 68 - BLOCK / 2, "1"),
        *(_block("record", 484 - n * 40, 142 - BLOCK / 2) for n in range(2)),
        _block("barrier", 380, 142 - BLOCK / 2, "1"),
        shapes.text(60, 34, "bad", "blocked: these records are behind the barrier, they belong to checkpoint 2"),
        shapes.text(60, 190, "good", "read on: these records are before the barrier, they belong to checkpoint 1"),
    ]
    return _figure(206, title, parts)


def overtaking() -> Svg:
    """Return the same queue with a barrier that waits and with one that overtakes."""
    title = (
        "The same queue twice. Aligned: the barrier waits behind four records. Unaligned: the barrier is in front, "
        "and the four records that it overtook are stored with the checkpoint"
    )
    parts: list[Markup] = []
    for y, look, place, name, says, tone in (
        (58.0, "record", 4, "Aligned", "The barrier waits until all four records are processed.", "quiet"),
        (
            150.0,
            "stored",
            0,
            "Unaligned",
            "The barrier overtakes. These four records are stored as in flight.",
            "flying",
        ),
    ):
        parts += [
            shapes.text(16, y + 5, "head", name),
            shapes.path("task", f"M130 {y:g}H560"),
            shapes.rect("box", 560, y - 24, 124, 48, rx=8),
            shapes.text(622, y + 5, "quiet", "account (slow)", "middle"),
            _block("barrier", 512 - place * 44, y - BLOCK / 2, "1"),
            *(_block(look, 512 - n * 44, y - BLOCK / 2) for n in range(5) if n != place),
            shapes.text(130, y + 42, tone, says),
        ]
    return _figure(214, title, parts)


# --- key groups -------------------------------------------------------------------------------------------------------


def key_groups(before: int = 2, after: int = 3, max_parallelism: int = 8) -> Svg:
    """Return the ranges of key groups of two parallelisms, with the groups that change their subtask marked.

    Raises ValueError for an invalid parallelism.
    """
    rows = {where: key_group_partitions(max_parallelism, where) for where in (before, after)}
    moved = [
        group
        for group in range(max_parallelism)
        if len({operator_index_for_key_group(max_parallelism, where, group) for where in rows}) > 1
    ]
    title = (
        f"{max_parallelism} key groups, owned by {before} subtasks before the rescale and by {after} after it. "
        f"{len(moved)} of them change their owner"
    )
    width = (WIDTH - 150) / max_parallelism
    parts: list[Markup] = []
    for y, where, when in ((46.0, before, "before"), (126.0, after, "after")):
        parts.append(shapes.text(16, y + 20, "head", f"{when}: {where}"))
        for subtask, owned in enumerate(rows[where]):
            left = 130 + width * owned.start
            parts.append(shapes.text(left + 4, y - 6, "quiet", f"subtask {subtask}"))
            for group in range(owned.start, owned.end + 1):
                x = 130 + width * group + (3 if group == owned.start else 0)
                look = "moved" if group in moved else "box"
                parts.append(shapes.rect(look, x, y, width - (3 if group == owned.start else 0), 30))
                parts.append(shapes.text(130 + width * (group + 0.5), y + 20, "", str(group), "middle"))
    parts.append(
        shapes.text(130, 186, "", "A key never changes its group. A group changes its subtask, with all its keys.")
    )
    return _figure(204, title, parts)


# --- the life of a checkpoint -----------------------------------------------------------------------------------------

PHASES = (
    ("number, directory", CheckpointState.LOCATING),
    ("coordinators, hooks", CheckpointState.COORDINATORS),
    ("tasks copy and acknowledge", CheckpointState.COLLECTING),
    ("metadata", CheckpointState.WRITING),
    ("store", CheckpointState.STORING),
    ("complete", CheckpointState.COMPLETED),
)
"""The phases of a checkpoint's life on the figure, with a state of each."""


def lifetime() -> Svg:
    """Return the life of a pending checkpoint: its phases, until when it can be aborted, and from when it counts."""
    table = checkpoint_state.TRANSITIONS
    safe = [CheckpointEvent.ABORT not in table.events(state) for _, state in PHASES]
    title = (
        f"The phases of a checkpoint: {', '.join(name for name, _ in PHASES)}. It can be aborted until "
        f"{label(PHASES[safe.index(True)][1])}, and counts for a restore when it is complete"
    )
    widths = (118.0, 132.0, 180.0, 80.0, 66.0, 92.0)
    x = 16.0
    parts: list[Markup] = []
    starts: list[float] = []
    for (name, _), width, is_safe in zip(PHASES, widths, safe):
        starts.append(x)
        parts.append(shapes.rect("safe" if is_safe else "box", x, 60, width - 4, 40, rx=4))
        parts.append(shapes.text(x + width / 2 - 2, 84, "small", name, "middle"))
        x += width
    storing = starts[safe.index(True)]
    parts += [
        shapes.path("sent-bad", f"M16 46H{storing - 6:g}"),
        shapes.text(16, 34, "bad", "the timeout, a decline or a failure can abort it"),
        shapes.text(storing, 34, "good", "only the store can"),
        shapes.path("cut", f"M{starts[-1] - 2:g} 56V124"),
        shapes.text(starts[-1] - 2, 144, "cut-name", "from here on a restore uses it, and sinks publish", "end"),
    ]
    return _figure(162, title, parts)


__all__ = ["alignment", "cuts", "key_groups", "lifetime", "overtaking"]
