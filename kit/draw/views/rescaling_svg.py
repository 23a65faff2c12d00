"""The drawing of a restore: for each state a row of its writers, a row of its readers, and the moves between them.

Keyed state is drawn along its key groups; list entries and buffers are strands; union state is a pool. Many subtasks
are drawn as bands of several.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kit.core.state.key_groups import key_group_range_for_operator_index
from kit.draw import shapes
from kit.draw.graphs import text_width, wrapped
from kit.run.sizes import counted, size_text
from kit.snapshots.key_moves import KeyMove, owners
from kit.snapshots.transfers import BY_GROUP, IN_FLIGHT, Deal, Transfer

WIDTH, LEFT, RIGHT = 840.0, 64.0, 824.0
BAR, BETWEEN, LINE = 24.0, 62.0, 14.0
MOST_BARS, BANDS = 24, 16
"""The most subtasks with a bar each for list state, and the most bands into which more subtasks are grouped."""
MOST_STRANDS = 90
SKEWED = 1.5
"""A subtask with more than this multiple of an even share is marked."""
_MODES = {
    "split list state": "each entry goes to one subtask",
    "union list state": "all entries go to every subtask",
    "broadcast state": "every subtask gets a copy of the map",
    "raw operator state": "each partition goes to one subtask",
    "in flight, arrived": "buffers that had arrived, for their present receivers",
    "in flight, not sent": "buffers that had not been sent",
}
_NAMES = {"SourceReaderState": "the source's splits", "committables": "staged output that was not published"}


def drawn(deals: Sequence[Deal], moves: Sequence[KeyMove], nothing: str) -> tuple[float, str]:
    """Return the height and the SVG of these deals. `moves` are the keys to follow; `nothing` is the text for an
    empty picture.
    """
    if not deals:
        return 44.0, shapes.text(16, 30, "rs-note", nothing)
    parts: list[str] = []
    y = 12.0
    for deal in deals:
        own = [each for each in moves if each.operator == deal.operator]
        high, part = _keyed(deal, y, own) if deal.kind in BY_GROUP else _listed(deal, y)
        parts.append(part)
        y += high + 18
    return y, "".join(parts)


def heading(deal: Deal) -> str:
    """Return the operator and the name of the state."""
    name = _NAMES.get(deal.name, deal.name)
    return f"{deal.operator}: {deal.kind}" + (f", {name}" if name else "")


def _summary(deal: Deal) -> str:
    sizes = {each.entry: each.size for each in deal.transfers}
    total = size_text(sum(sizes.values()))
    summary = f"{deal.before:,} → {counted(deal.after, 'subtask')}, {pieces(deal, len(sizes))}, {total}"
    if deal.kind in BY_GROUP:
        moved = [each.size for each in deal.transfers if each.old != each.new]
        summary += f"; {size_text(sum(moved))} changed hands" if moved else "; nothing changed hands"
    else:
        summary += f"; {_MODES.get(deal.kind, '')}"
    if nothing := deal.readers_of_nothing:
        shown = ", ".join(f"{deal.vertex}/{each}" for each in nothing[:4]) + (" …" if len(nothing) > 4 else "")
        summary += f"; {len(nothing)} got nothing: {shown}"
    return summary


# --- keyed state ------------------------------------------------------------------------------------------------------


def _keyed(deal: Deal, y: float, moves: Sequence[KeyMove]) -> tuple[float, str]:
    """Draw bars as wide as their key groups, on the same scale above and below."""
    scale = (RIGHT - LEFT) / deal.groups
    above = y + 36 + LINE * len(_said(deal))
    below = above + BAR + BETWEEN
    parts = [*_head(deal, y), _row("before", above), _row("now", below)]
    lit = {each.old for each in moves}, {each.new for each in moves}
    sizes: dict[int, int] = defaultdict(int)
    for each in deal.transfers:
        if each.key_group is not None:
            sizes[each.key_group] += each.size
    for (old, new), run in groupby(range(deal.groups), key=lambda group: owners(deal, group)):
        members = list(run)
        first, last = members[0], members[-1]
        x, width = LEFT + first * scale, (last - first + 1) * scale
        held = sum(sizes.get(group, 0) for group in range(first, last + 1))
        hint = f"key groups {first} to {last}: {deal.vertex}/{old} to {deal.vertex}/{new}, {size_text(held)}"
        shade = f"rs-ribbon rs-f{old % 4}" + ("" if old != new else " rs-tint")
        parts.append(_rect(shade, x + 0.5, above + BAR, max(width - 1, 0.6), BETWEEN, hint))
        label = size_text(held) + (" moved" if old != new else "")
        if held and text_width(label, 11) + 6 < width:
            parts.append(shapes.text(x + width / 2, above + BAR + 14, "rs-name", label, "middle"))
    most = max(sizes.values(), default=1)
    for group, size in sizes.items():
        high = max(2.0, 34 * size / most)
        hint = f"key group {group}: {size_text(size)}"
        parts.append(_rect("rs-bytes", LEFT + group * scale + scale * 0.15, below - high, scale * 0.7, high, hint))
    for old in range(deal.before):
        owned = key_group_range_for_operator_index(deal.groups, deal.before, old)
        parts += _owner(deal, old, owned.start, owned.end, above, scale, lit[0], f" rs-f{old % 4} rs-tint", "")
    given, total = deal.bytes_by_reader, max(sum(deal.bytes_by_reader), 1)
    for new in range(deal.after):
        owned = key_group_range_for_operator_index(deal.groups, deal.after, new)
        share = given[new] * deal.after / total
        full = share > SKEWED and deal.after > 1 and (deal.after <= MOST_BARS or given[new] == max(given))
        look = " full" if full else " none" if not given[new] and deal.after <= MOST_BARS else ""
        parts += _owner(deal, new, owned.start, owned.end, below, scale, lit[1], look, size_text(given[new]))
        if full and deal.after <= MOST_BARS:
            middle = LEFT + (owned.start + owned.end + 1) / 2 * scale
            parts.append(shapes.text(middle, below + BAR + 13, "rs-skew", f"▲ {share:.1f}×", "middle"))
    if deal.after > MOST_BARS and deal.skew > SKEWED:
        skew = f"▲ the fullest was given {deal.skew:.1f} times an even part: {deal.vertex}/{given.index(max(given))}"
        parts.append(shapes.text((LEFT + RIGHT) / 2, below + BAR + 13, "rs-skew", skew, "middle"))
    for move in moves:
        x = LEFT + (move.key_group + 0.5) * scale
        parts.append(shapes.path("rs-key", f"M{x:.1f} {above - 6:g}V{above:g}M{x:.1f} {above + BAR:g}V{below:g}"))
        parts.append(shapes.text(x, above - 8, "rs-title", repr(move.key), "middle"))
    ticks = [0, deal.groups - 1] if deal.groups > 1 else [0]
    for tick, anchor in zip(ticks, ("start", "end")):
        where = LEFT if anchor == "start" else RIGHT
        parts.append(shapes.text(where, below + BAR + 13, "rs-note", f"key group {tick}", anchor))
    return below + BAR + 18 - y, "".join(parts)


def _owner(
    deal: Deal, subtask: int, first: int, last: int, y: float, scale: float, lit: set[int], look: str, more: str
) -> Iterator[str]:
    if last < first:
        return
    x, width = LEFT + first * scale, (last - first + 1) * scale
    name = f"{deal.vertex}/{subtask}"
    span = f"{first} to {last}" if last > first else str(first)
    hint = f"{name}: key groups {span}" + (f", {more}" if more else "")
    yield _rect("rs-bar" + look + (" lit" if subtask in lit else ""), x + 0.5, y, max(width - 1, 0.8), BAR, hint)
    for label in (f"{name}: {span}" + (f", {more}" if more else ""), f"{name}: {span}", name, str(subtask)):
        if text_width(label, 11) + 6 < width:
            yield shapes.text(x + width / 2, y + 16, "rs-name", label, "middle")
            return


# --- lists and buffers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bands:
    """Subtasks side by side, `per_band` of them in each band."""

    many: int
    per_band: int

    @classmethod
    def at_most(cls, count: int, many: int) -> Bands:
        """Divide subtasks into at most `count` bands of equal size, at least one."""
        return cls(max(many, 1), -(-max(many, 1) // count))

    @property
    def count(self) -> int:
        """The number of bands."""
        return -(-self.many // self.per_band)

    def band_of(self, subtask: int) -> int:
        """Return the band of a subtask."""
        return min(subtask // self.per_band, self.count - 1)

    def members(self, band: int) -> range:
        """Return the subtasks of a band."""
        return range(band * self.per_band, min((band + 1) * self.per_band, self.many))

    def place(self, band: int) -> tuple[float, float]:
        """Return the left edge and the width of a band."""
        width = (RIGHT - LEFT) / self.count
        return LEFT + band * width + 2, max(width - 4, 1)

    def name(self, vertex: str, band: int) -> str:
        """Return the name of a band."""
        first, last = self.members(band)[0], self.members(band)[-1]
        return f"{vertex}/{first}" if first == last else f"{vertex}/{first}–{last}"


def _bands(many: int) -> Bands:
    return Bands.at_most(BANDS if many > MOST_BARS else max(many, 1), many)


def _listed(deal: Deal, y: float) -> tuple[float, str]:
    """Draw equal bars above and below, and a strand per entry, or a ribbon per pair of bands if there are many."""
    above = y + 22 + LINE * len(_said(deal))
    below = above + BAR + BETWEEN
    olds, news = _bands(deal.before), _bands(deal.after)
    parts = [*_head(deal, y), _row("before", above), _row("now", below)]
    if deal.kind == "union list state":
        parts += _pool(deal, olds, news, above + BAR)
    else:
        parts += _strands(deal, olds, news, above + BAR)
    written: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for each in deal.transfers:
        if each.old is not None:
            written[each.old // olds.per_band].add(each.entry)
    for band in range(olds.count):
        x, width = olds.place(band)
        count = len(written[band])
        look = f"rs-bar rs-f{band % 4} rs-tint" if count else "rs-bar none"
        parts += _labelled(look, x, above, width, olds.name(deal.vertex, band), pieces(deal, count))
    given, total = deal.bytes_by_reader, max(sum(deal.bytes_by_reader), 1)
    for band in range(news.count):
        x, width = news.place(band)
        members = news.members(band)
        count = sum(each.new in members for each in deal.transfers)
        held = sum(given[new] for new in members)
        share = held / len(members) * deal.after / total
        full = share > SKEWED and deal.after > 1 and count > 1
        look = "rs-bar" + (" full" if full else "" if count else " none")
        words = f"{pieces(deal, count)}, {size_text(held)}" if count else "nothing"
        parts += _labelled(look, x, below, width, news.name(deal.vertex, band), words)
        if full:
            parts.append(shapes.text(x + width / 2, below + BAR + 13, "rs-skew", f"▲ {share:.1f}×", "middle"))
    return below + BAR + 14 - y, "".join(parts)


def pieces(deal: Deal, count: int) -> str:
    """Return a number of pieces with the word for them: `2 key groups with state`."""
    one, many = _UNITS.get(deal.kind, ("entry", "entries"))
    return f"{count} {one if count == 1 else many}"


_UNITS = {
    **dict.fromkeys(BY_GROUP, ("key group with state", "key groups with state")),
    **dict.fromkeys(IN_FLIGHT, ("buffer", "buffers")),
    "broadcast state": ("copy", "copies"),
}


def _labelled(look: str, x: float, y: float, width: float, name: str, words: str) -> Iterator[str]:
    yield _rect(look, x, y, width, BAR, f"{name}: {words}")
    for label in (f"{name}: {words}", name, name.rpartition("/")[2]):
        if text_width(label, 11) + 1 < width:
            yield shapes.text(x + width / 2, y + 16, "rs-name", label, "middle")
            return


def _pool(deal: Deal, olds: Bands, news: Bands, y: float) -> Iterator[str]:
    """Draw strands from all writers to one pool, and from the pool to all readers."""
    entries = {each.entry: each.size for each in deal.transfers}
    middle = y + BETWEEN / 2
    for band in range(olds.count):
        x, width = olds.place(band)
        yield shapes.path(f"rs-strand rs-s{band % 4}", f"M{x + width / 2:.1f} {y:g}V{middle - 9:g}")
    for band in range(news.count):
        x, width = news.place(band)
        yield shapes.path("rs-strand rs-s0", f"M{x + width / 2:.1f} {middle + 9:g}V{y + BETWEEN:g}")
    label = f"all {len(entries)} entries, {size_text(sum(entries.values()))}, to each"
    yield _rect("rs-bar", LEFT + 2, middle - 9, RIGHT - LEFT - 4, 18, label)
    yield shapes.text((LEFT + RIGHT) / 2, middle + 4, "rs-name", label, "middle")


def _strands(deal: Deal, olds: Bands, news: Bands, y: float) -> Iterator[str]:
    pairs: dict[tuple[int, int], list[Transfer]] = defaultdict(list)
    for each in deal.transfers:
        if each.old is not None:
            pairs[each.old // olds.per_band, each.new // news.per_band].append(each)
    single = len(deal.transfers) <= MOST_STRANDS and olds.per_band == news.per_band == 1
    strands = [pair for pair, given in pairs.items() for _ in (given if single else given[:1])]
    leaving, coming = _Stops(olds, [old for old, _ in strands]), _Stops(news, [new for _, new in strands])
    for (old, new), given in sorted(pairs.items()):
        filtered = " filtered" if any(each.filtered for each in given) else ""
        if not single:
            size = size_text(sum(each.size for each in given))
            ends = f"{olds.name(deal.vertex, old)} to {news.name(deal.vertex, new)}"
            words = f"{ends}: {pieces(deal, len(given))}, {size}"
            thick = min(10.0, 1.2 + len(given) ** 0.5)
            yield _strand(f"rs-s{old % 4}{filtered}", leaving.next(old), coming.next(new), y, words, thick)
            continue
        for each in given:
            what = each.name or "buffer"
            kept = ", filtered: keeps the records that are its own" if each.filtered else ""
            words = f"{what} of {deal.vertex}/{old} to {deal.vertex}/{new}, {size_text(each.size)}{kept}"
            yield _strand(f"rs-s{old % 4}{filtered}", leaving.next(old), coming.next(new), y, words, 1.8)


class _Stops:
    """The points at which strands leave or reach a bar, side by side over its width. `ends` has a band per strand."""

    def __init__(self, bands: Bands, ends: Iterable[int]) -> None:
        self._bands = bands
        self._counts = Counter(ends)
        self._used: Counter[int] = Counter()

    def next(self, member: int) -> float:
        """Return the position of the next strand."""
        x, width = self._bands.place(member)
        self._used[member] += 1
        return x + width * self._used[member] / (self._counts[member] + 1)


def _strand(look: str, start: float, end: float, y: float, hint: str, thick: float) -> str:
    bottom, middle = y + BETWEEN, y + BETWEEN / 2
    way = f"M{start:.1f} {y:g}C{start:.1f} {middle:g} {end:.1f} {middle:g} {end:.1f} {bottom:g}"
    return shapes.path(f"rs-strand {look}", way, hint, style=f"stroke-width:{thick:.1f}")


# --- parts ------------------------------------------------------------------------------------------------------------


def _head(deal: Deal, y: float) -> Iterator[str]:
    yield shapes.text(16, y + 10, "rs-title", heading(deal))
    for number, line in enumerate(_said(deal)):
        yield shapes.text(16, y + 26 + LINE * number, "rs-note", line)


def _said(deal: Deal) -> list[str]:
    """Return the text about a state, broken into lines that fit."""
    words = _summary(deal)
    if any(each.filtered for each in deal.transfers):
        words += "; dashed: given to several, each keeps the records of its own keys"
    return wrapped(words, WIDTH - 32, 11)


def _row(text: str, y: float) -> str:
    return shapes.text(LEFT - 8, y + 16, "rs-row", text, "end")


def _rect(look: str, x: float, y: float, width: float, height: float, hint: str) -> str:
    return shapes.rect(look, x, y, width, height, hint, rx=2)
