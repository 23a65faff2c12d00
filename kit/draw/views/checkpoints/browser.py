"""The browser of a checkpoint: its operators with their states, key groups, files and first values, on one page.

The page is complete without a script: every part is a fold. The script (`browser.js`) turns the folds into tabs and a
list of operators, and searches the values. With a kernel (`is_live`), the page's forms ask it for more.

What is read for the page is bounded. Names and values come from the checkpoint, so every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kit.core.html_tables import frame_html
from kit.core.markup import Markup, element, markup
from kit.core.state.errors import StateError
from kit.core.state.operator_state import OperatorState
from kit.draw.svg import asset
from kit.draw.view_html import answer, fold, view_html, words
from kit.draw.views.checkpoints.browser_answers import form, page_answer, problem
from kit.run.sizes import counted, size_text
from kit.snapshots.checkpoints.checkpoint import Checkpoint
from kit.snapshots.checkpoints.keyed_parts import StateInfo
from kit.snapshots.checkpoints.located import groups_of, keyed_handles

STYLE, SCRIPT = "browser.css", "browser.js"
MOST_OPERATORS, MOST_SUBTASKS, MOST_CELLS, MOST_FILES = 60, 8, 64, 40
BYTES, ENTRIES, LEAST_BAR = "bytes", "entries", 8
MOST_STATES = 40
"""The states of an operator whose first rows are read in advance."""
FIRST_READ = 64
"""The most key groups and subtasks that are read for the first rows of a state."""
MOST_GROUP_BYTES = 1 << 24
"""No values are read in advance if the keyed state has more bytes than this in a key group, on average."""
MOST_COUNTED_BYTES = 1 << 20
"""Entries are counted by key group if the keyed state of the subtasks that are shown is at most this large."""


def browser_html(checkpoint: Checkpoint, *, is_live: bool = False) -> str:
    """Return the browser as one fragment. Without `is_live` it needs no kernel. Files that cannot be read are named."""
    browser = _Browser(checkpoint, is_live)
    problems = int((checkpoint.files["problem"] != "").sum())
    missing = answer(f"{problems} of {len(checkpoint.files)} files cannot be read.", "bad") if problems else ""
    inside = element("div", Markup("".join(browser.parts())), class_="kit-browser")
    start = 'for (const each of document.querySelectorAll(".kit-browser:not(.b-on)")) browse(each);'
    script = "" if is_live else f"<script>(() => {{\n{asset(SCRIPT)}{start}\n}})();</script>"
    return view_html(checkpoint.title, words(checkpoint.directory), missing, inside, script, styles=(STYLE,))


@dataclass(frozen=True, eq=False)
class _Browser:
    """One page, part by part."""

    checkpoint: Checkpoint
    is_live: bool

    @cached_property
    def _declared(self) -> Mapping[str, Mapping[str, Mapping[str, StateInfo]]]:
        return self.checkpoint.declared()

    def parts(self) -> Iterator[str]:
        """Yield the parts: each is a tab."""
        operators, files = self.checkpoint.operators, self.checkpoint.files
        yield fold("Operators", f"{len(operators):,}", self._operators(), is_open=True)
        yield fold("Files", f"{len(files):,}", self._files())
        if self.is_live:
            yield fold("Check", "", form("check"))
            yield fold("Diff", "", form("diff"))
        yield fold("Checkpoint", "", self._whole())

    def _operators(self) -> str:
        listed = self.checkpoint.operators.head(MOST_OPERATORS)
        of_id = {each.operator_id: each for each in self.checkpoint.metadata.operator_states}
        most = max([1, *listed["bytes"]])
        folds = []
        for place, row in enumerate(listed.itertuples()):
            head = element("b", row.operator) + element("span", f"parallelism {row.parallelism}")
            share = f"--share:{100 * (row.bytes / most):.4g}%"
            about = element("i", class_="b-bar", style=share, aria_hidden="true") + size_text(row.bytes)
            folds.append(fold(head, about, self._operator(of_id[row.operator_id], row), is_open=place == 0))
        left = len(self.checkpoint.operators) - len(listed)
        rest = words(f"… and {left:,} operators with fewer bytes") if left else ""
        return element("div", Markup("".join(folds)), class_="b-operators") + Markup(rest)

    def _operator(self, operator: OperatorState, row: Any) -> str:
        """Return what is known of an operator, its key groups, its states with their first rows, and its handles."""
        properties = [
            ("uid", row.uid or "not stored"),
            ("name", row.name or "not stored"),
            ("id", row.operator_id),
            ("parallelism", f"{row.parallelism}, at most {row.max_parallelism}"),
            ("subtasks with state", f"{row.subtasks:,}"),
            ("bytes", f"{row.bytes:,}, of which this checkpoint wrote {row.written_bytes:,}"),
        ]
        facts = element("dl", *(element("dt", name) + element("dd", value) for name, value in properties))
        handles = self.checkpoint.handles
        own = handles[handles["operator"] == row.operator].drop(columns="operator")
        groups = "".join(self._key_groups(operator))
        errors = self.checkpoint.states.query("operator == @row.operator and error != ''")["error"]
        problems = (problem(StateError(each)) for each in errors if markup(each) not in groups)
        handles_html = fold("Handles and files", f"{len(own):,}", frame_html(own, MOST_FILES))
        return "".join([element("h3", row.operator), facts, *problems, groups, *self._states(operator), handles_html])

    # --- key groups ---------------------------------------------------------------------------------------------------

    def _key_groups(self, operator: OperatorState) -> Iterator[str]:
        """Yield strips of bytes and entries by key group for the largest subtasks."""
        subtasks = _keyed_bytes(operator)
        if not subtasks:
            return
        largest = sorted(sorted(subtasks, key=lambda each: -subtasks[each])[:MOST_SUBTASKS])
        of_all = counted(len(subtasks), "subtask")
        which = of_all if len(largest) == len(subtasks) else f"the {len(largest)} largest of {of_all}"
        yield element("h4", f"Key groups of {which}")
        is_counted = sum(subtasks[each] for each in largest) <= MOST_COUNTED_BYTES
        checkpoint, name = self.checkpoint, operator.operator_id
        sizes: dict[int, dict[int, int]] = {}
        entries: dict[int, dict[int, int]] = {}
        try:
            sizes = {each: checkpoint.key_group_bytes(name, each) for each in largest}
            entries = {each: checkpoint.key_group_entries(name, each) for each in largest if is_counted}
        except StateError as error:
            yield problem(error)
        else:
            if not is_counted:
                yield words(f"Entries are counted where these subtasks have at most {size_text(MOST_COUNTED_BYTES)}.")
            if not any(sizes.values()):
                yield words("The files hold the key groups together, so no group has bytes of its own.")
        drawn = [_strips(operator, *each) for each in ((BYTES, sizes), (ENTRIES, entries)) if any(each[1].values())]
        if drawn:
            lines = (element("div", element("b", str(each)), *(strips[each] for strips in drawn)) for each in largest)
            yield element("div", *lines, class_="b-subtasks")

    # --- states and values --------------------------------------------------------------------------------------------

    def _states(self, operator: OperatorState) -> Iterator[str]:
        """Yield a fold for each state, with its types and first rows."""
        infos = [info for found in self._declared[operator.operator_id].values() for info in found.values()]
        if infos:
            yield element("h4", counted(len(infos), "state"))
        sizes = _keyed_bytes(operator)
        groups = sum(len(groups_of(operator.subtask_states[each])) for each in sizes)
        is_light = sum(sizes.values()) <= MOST_GROUP_BYTES * max(1, groups)
        for place, info in enumerate(infos):
            key = ", ".join(each for each in (info.key, info.namespace) if each)
            types = f"{key} → {info.value}" if key and info.value else key or info.value
            values = self._values(operator, info.name, is_read=place < MOST_STATES and is_light)
            about = f"{info.kind.lower().replace('_', ' ')} {types}"
            yield fold(element("b", info.name), about, values, is_open=place == 0)

    def _values(self, operator: OperatorState, name: str, *, is_read: bool) -> str:
        """Return the form for a search, and below it the first rows."""
        owner, is_live = operator.operator_id, self.is_live
        asks = form("values", operator=owner, state=name, is_live=is_live)
        if is_read:
            return asks + page_answer(self.checkpoint, owner, name, most_read=FIRST_READ, is_live=is_live)
        why = "Values are not read in advance here, because a key group or the number of states is large."
        return asks + element("div", Markup(words(why)), class_="b-answer", aria_live="polite")

    # --- the whole checkpoint -----------------------------------------------------------------------------------------

    def _files(self) -> str:
        files = self.checkpoint.files.sort_values("problem", ascending=False, kind="stable")
        storage = self.checkpoint.storage
        savings = fold("Settings that would save files", f"{len(storage.savings)}", frame_html(storage.savings))
        every = frame_html(files[["file", "bytes", "operators", "problem"]], MOST_FILES)
        asks = form("storage") if self.is_live else ""
        return words(storage.title) + frame_html(storage.files) + savings + asks + element("h4", "Files") + every

    def _whole(self) -> str:
        checkpoint = self.checkpoint
        properties = checkpoint.properties.rename("value").rename_axis("property").reset_index().astype({"value": str})
        hooks, channels = checkpoint.master_state, checkpoint.channel_state
        parts = [frame_html(properties, len(properties))]
        if len(hooks):
            parts.append(
                fold("Coordinators, master hooks and lineage", f"{len(hooks)}", frame_html(hooks.drop(columns="data")))
            )
        if len(channels):
            summary = f"{len(channels)} channels, {size_text(int(channels['bytes'].sum()))}"
            parts.append(fold("Records in flight", summary, frame_html(channels, MOST_FILES)))
        return "".join(parts)


def _keyed_bytes(operator: OperatorState) -> dict[int, int]:
    """Return the bytes of keyed state of each subtask that has any."""
    sizes = {
        subtask: sum(each.state_size for each in keyed_handles(state))
        for subtask, state in operator.subtask_states.items()
    }
    return {subtask: size for subtask, size in sizes.items() if size}


def _strips(operator: OperatorState, what: str, held: Mapping[int, Mapping[int, int]]) -> dict[int, Markup]:
    """Return, for each subtask, a bar per key group or per some neighbours; the largest of all has the full height."""
    cells: dict[int, list[list[int]]] = {}
    for subtask in held:
        groups = groups_of(operator.subtask_states[subtask])
        step = -(-len(groups) // MOST_CELLS) or 1
        cells[subtask] = [groups[at : at + step] for at in range(0, len(groups), step)]
    amounts = {each: [sum(held[each].get(group, 0) for group in cell) for cell in cells[each]] for each in cells}
    most = max([1, *(amount for each in amounts.values() for amount in each)])
    return {each: _strip(each, what, cells[each], amounts[each], most) for each in cells}


def _strip(subtask: int, what: str, cells: list[list[int]], amounts: list[int], most: int) -> Markup:
    def amount_words(cell: list[int], amount: int) -> str:
        many = size_text(amount) if what == BYTES else f"{amount:,} {what}"
        return f"{many} in key group{f's {cell[0]} to {cell[-1]}' if len(cell) > 1 else f' {cell[0]}'}"

    bars = (
        element(
            "i", style=f"--share:{LEAST_BAR + (100 - LEAST_BAR) * amount / most:.3g}%", title=amount_words(cell, amount)
        )
        if amount
        else element("i")
        for cell, amount in zip(cells, amounts, strict=True)
    )
    whole = amount_words([group for cell in cells for group in cell] or [0], sum(amounts))
    strip = element("span", *bars, class_=f"b-strip b-{what}", role="img", aria_label=f"subtask {subtask}: {whole}")
    return element("div", strip, element("small", whole))
