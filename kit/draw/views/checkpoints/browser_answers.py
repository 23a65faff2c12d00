"""The forms of a checkpoint's browser, and the answers to them: values, a check, a comparison, an account of bytes.

An answer is HTML. A request is what a form sends: its fields as text, with the name of the question in `ask`. Every
error is one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.core.html_tables import rows_html
from kit.core.markup import Markup, element
from kit.core.state.errors import StateError
from kit.draw.view_html import words
from kit.snapshots.checkpoints.checkpoint import Checkpoint
from kit.snapshots.checkpoints.pages import START, Place, StatePage

LONGEST = 400
"""Letters of a value that are shown."""
HELP = {
    "check": "Does it restore? The job is the one that took this checkpoint, or that of a newer checkpoint.",
    "diff": "What changed from this checkpoint to another? All values of both are read.",
    "storage": "Whose bytes are they? All keyed state is read.",
}
FIELDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "values": (("query", "Search", "search"), ("key", "Key", "search"), ("key_groups", "Key groups", "text")),
    "check": (
        ("parallelism", "Parallelism", "number"),
        ("max_parallelism", "Max parallelism", "number"),
        ("against", "Newer checkpoint (path)", "text"),
        ("allow", "Allow state without an operator", "checkbox"),
    ),
    "diff": (("path", "Other checkpoint (path)", "text"),),
    "storage": (),
}
"""The fields of each form: name, label, type."""
BUTTONS = {"check": "Check", "diff": "Compare", "storage": "Count the bytes of every state"}
HINTS = {"key_groups": "all, or 0-15, 40", "key": "any; as text or JSON"}


def form(ask: str, *, is_live: bool = True, **fixed: str) -> str:
    """Return a form with the place for its answer, but for `values`, which has an answer already.

    `fixed` are sent with each request. Without a kernel only the search remains; the page's script shows the form.
    """
    inputs = []
    for name, label, kind in FIELDS[ask] if is_live else FIELDS[ask][:1]:
        least = "1" if kind == "number" else None
        field = element("input", type=kind, name=name, placeholder=HINTS.get(name), min=least)
        inputs.append(element("label", label, " ", Markup(field.removesuffix("</input>"))))
    if ask in BUTTONS:
        inputs.append(element("button", BUTTONS[ask], type="submit"))
    sent = {f"data_{name}": value for name, value in fixed.items()}
    form = element("form", *inputs, class_="b-ask", data_ask=ask, hidden="hidden", **sent)
    help_words = words(HELP[ask]) if ask in HELP else ""
    return help_words + form + ("" if ask == "values" else _placed(""))


def _placed(html: str) -> str:
    return element("div", Markup(html), class_="b-answer", aria_live="polite")


def problem(error: Exception) -> Markup:
    """Return an error as a sentence."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return element("p", str(text), class_="b-problem", role="alert")


def answered(checkpoint: Checkpoint, request: Mapping[str, str]) -> str:
    """Return the answer to a request. An unknown or wrong one is answered with a sentence."""
    asked = str(request.get("ask", ""))
    if asked not in _ANSWERS:
        return problem(ValueError(f"{asked!r} cannot be asked; known are {', '.join(_ANSWERS)}"))
    try:
        return _ANSWERS[asked](checkpoint, request)
    except (StateError, KeyError, ValueError, TypeError, OSError) as error:
        return problem(error)


# --- values -----------------------------------------------------------------------------------------------------------


def page_answer(checkpoint: Checkpoint, operator: str, name: str, *, is_live: bool, **asked: Any) -> str:
    """Return the first page of a state, in its place."""
    try:
        return _placed(_page_html(checkpoint.page(operator, name, **asked), [START], is_live=is_live))
    except (StateError, KeyError, ValueError) as error:
        return _placed(problem(error))


def _values(checkpoint: Checkpoint, request: Mapping[str, str]) -> str:
    """Return the page at the last of the places in `at`, which are those of all pages up to it."""
    trail = [_place(each) for each in request.get("at", "").split(",") if each] or [START]
    groups = parsed_key_groups(request.get("key_groups", ""))
    operator, state, text = request["operator"], request["state"], request.get("key", "").strip()
    key = checkpoint.key_from_text(operator, state, text) if text else None
    query = request.get("query", "")
    page = checkpoint.page(operator, state, at=trail[-1], query=query, key=key, key_groups=groups)
    return _page_html(page, trail, is_live=True)


def _page_html(page: StatePage, trail: list[Place], *, is_live: bool) -> str:
    names, rows = page.rows.column_names, page.texts()
    cut = [[each if len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in row] for row in rows]
    shown = rows_html(names, cut) or words("No row here.")
    return shown + _where(page, trail) + (_turns(page, trail) if is_live else "")


def _where(page: StatePage, trail: list[Place]) -> str:
    """Say which rows these are, and how much of the state was read."""
    whats = "subtasks" if page.units and page.units[0].key_group is None else "key groups"
    end = len(page.units) if page.next is None else page.next.unit + (page.next.row > 0)
    first = min(trail[-1].unit, max(0, len(page.units) - 1))
    if page.next is None and trail[-1] == START:
        return words(f"All {page.rows.num_rows:,} rows.")
    return words(f"{page.rows.num_rows:,} rows, from {whats} {first + 1:,} to {end:,} of {len(page.units):,}.")


def _turns(page: StatePage, trail: list[Place]) -> str:
    turns = [("Back", trail[:-1])] if len(trail) > 1 else []
    turns += [("More", [*trail, page.next])] if page.next is not None else []
    buttons = []
    for name, places in turns:
        written = ",".join(f"{place.unit}.{place.row}" for place in places)
        buttons.append(element("button", name, type="button", data_at=written))
    return element("p", *buttons, class_="b-turns") if turns else ""


def _place(text: str) -> Place:
    unit, _, row = text.partition(".")
    if not (unit.isdecimal() and row.isdecimal()):
        raise ValueError(f"{text!r} is no place in a state: expected two numbers, such as 12.0")
    return Place(int(unit), int(row))


def parsed_key_groups(text: str) -> frozenset[int] | range | None:
    """Return the key groups of a text like `0-15, 40`; None, for all, if it is empty. Raises ValueError."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r} is no key group: give numbers and ranges, such as 0-15, 40")
        found.update(range(int(first), min(int(last or first), 1 << 15) + 1))
    return frozenset(found) if text.strip() else None


# --- check, diff, storage ---------------------------------------------------------------------------------------------


def _check(checkpoint: Checkpoint, request: Mapping[str, str]) -> str:
    newer = request.get("against", "").strip()
    check = checkpoint.check(
        checkpoint.open_other(newer) if newer else checkpoint,
        _whole(request, "parallelism"),
        max_parallelism=_whole(request, "max_parallelism"),
        allow_non_restored_state=bool(request.get("allow")),
    )
    return check._repr_html_()


def _whole(request: Mapping[str, str], name: str) -> int | None:
    text = request.get(name, "").strip()
    return int(text) if text else None


def _diff(checkpoint: Checkpoint, request: Mapping[str, str]) -> str:
    path = request.get("path", "").strip()
    if not path:
        raise ValueError("the path of the other checkpoint is missing: give its directory or a URI")
    return checkpoint.diff(checkpoint.open_other(path))._repr_html_()


_ANSWERS: dict[str, Callable[[Checkpoint, Mapping[str, str]], str]] = {
    "values": _values,
    "check": _check,
    "diff": _diff,
    "storage": lambda checkpoint, _: checkpoint.storage._repr_html_(),
}
