"""The places in the kit of the names that Flink uses: `kit.where("takeSnapshotSync")`.

The glossary is not written by hand: it is read from the docstrings. If a sentence mentions Flink, or begins with
"Follows" or "Source:", the names in backticks in it become entries. Each points to the object that the docstring is
about: a module, a class, a function, or the constant above it. Names in camelCase become entries anywhere, because
nothing in the kit is spelled so. A method is named with or without its class. `python -m scripts.glossary` writes
`docs/GLOSSARY.md`.

A class or function of the kit that has the same name as Flink's needs no such sentence: `where` finds it in the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from kit.core.html_tables import notebook_html, rows_html
from kit.core.markup import Markup, markup

HOME = Path(__file__).parent
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z`(\"])")
_NAME = re.compile(r"`([A-Za-z_][\w.#]*)`")
_ABOUT_FLINK = re.compile(r"\bFlink\b|^Follows\b|^Source:")
_ONLY_NAMES = re.compile(
    r"(?:Flink(?: [\d.x]+)?:|Follows Flink's|Follows|Source:)(?:(?:,| and|, and| or)? `[^`]*`)+[.;]?"
)
_JOINT = re.compile(r"(?<=[/_#])|(?<=\.)(?!py)")
_LIKE_A_METHOD = re.compile(r"[a-z]+\d*[A-Z]\w*")
_LIKE_JAVA = re.compile(r"[A-Z]\w*|[a-z]+\d*[A-Z]\w*")

ALIKE, MISSPELLED = 0.7, 0.85
"""How similar, from 0 to 1, a name is that is worth suggesting, and one that was probably meant."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of Flink's names and its place in the kit. `owner` is Flink's class if a docstring names it.

    `symbol` is the kit's name from the module down, "" for a module; `says` is the text of its docstring about it.
    """

    name: str
    owner: str
    module: str
    symbol: str
    file: str
    line: int
    says: str

    @property
    def flink(self) -> str:
        """Flink's name, as `Class.method` if the class is known."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def kit(self) -> str:
        """The kit's full name."""
        return f"{self.module}.{self.symbol}" if self.symbol else self.module

    def __repr__(self) -> str:
        return f"{self.flink}: {self.kit} ({self.file}:{self.line})\n    {self.says}"


@dataclass(frozen=True, slots=True)
class Documented:
    """A module, class, function or constant with its docstring."""

    module: str
    symbol: str
    file: str
    line: int
    text: str

    def entry(self, owner: str, name: str, says: str) -> Entry:
        """Return the entry of a name of Flink's that this stands for."""
        return Entry(name, owner, self.module, self.symbol, self.file, self.line, says)


class Found(Sequence[Entry]):
    """The places that `where` found, best first; or suggestions."""

    def __init__(self, name: str, entries: Sequence[Entry], nearest: Sequence[str]) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._entries)) or self._unknown

    def _repr_html_(self) -> str:
        if not self._entries:
            return f"<p>{escape(self._unknown)}</p>"
        cells = ((each.flink, each.kit, f"{each.file}:{each.line}", each.says) for each in self._entries)
        return _table(("Flink", "the kit", "file", "what it says"), cells)

    @property
    def _unknown(self) -> str:
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else "docs/GLOSSARY.md lists all names"
        return f"the kit has nothing that it calls Flink's {self.name!r}: {hint}"


class Places(Sequence[tuple[str, Entry | None]]):
    """The best place of each of several names, in their order; None if the kit has no such name."""

    def __init__(self, places: Sequence[tuple[str, Entry | None]]) -> None:
        self._places = tuple(places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._places[index]

    def __repr__(self) -> str:
        width = max((len(name) for name, *_ in self._rows), default=0)
        return "\n".join(f"{name:{width}}  {symbol}  {file}".rstrip() for name, symbol, file in self._rows)

    def _repr_html_(self) -> str:
        return _table(("Flink", "the kit", "file"), self._rows)

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (name, entry.symbol or entry.module, entry.file) if entry else (name, "nothing of that name", "")
            for name, entry in self._places
        ]


def places(names: str) -> Places:
    """Return the best place of each of Flink's names in a text, separated by blanks or line ends.

    Use it to read an article beside the kit: the result is displayed as a table. `where` returns all places of one
    name, with lines.
    """
    return Places([(name, next(iter(where(name)), None)) for name in names.split()])


def where(name: str) -> Found:
    """Return the places in the kit of Flink's `name`: a method, class, constant, or `Class.method` (`Class#method`).

    The kit's own names are found as well. If only the class of a method is known, its places are returned. For an
    unknown name it suggests similar ones.
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}, but must be a text, such as 'CheckpointCoordinator'")
    owner, _, last = name.replace("#", ".").rpartition(".")
    owner = owner.rpartition(".")[2]
    known = glossary()
    found = [entry for entry in known if entry.name == last and owner in ("", entry.owner)]
    found = found or [entry for entry in known if entry.name == last]
    found = found or [entry for entry in known if entry.kit.endswith(f".{last}")]
    found = found or _spelled_alike(owner, last)
    if not found and owner and not _nearest(last, MISSPELLED):
        found = [entry for entry in known if entry.name == owner] or _spelled_alike("", owner)
    return Found(name, sorted(found, key=_rank), [] if found else _nearest(last, ALIKE))


def _nearest(name: str, cutoff: float) -> list[str]:
    """Return the names in Flink with the most similar spelling, ignoring capitals."""
    spelled = {key.lower(): key for entry in glossary() for key in (entry.name, entry.flink)}
    return [spelled[key] for key in get_close_matches(name.lower(), spelled, n=3, cutoff=cutoff)]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return HTML that fits into its page: sentences wrap, and long names at their joints."""

    def wrapping(cell: str) -> Markup:
        return Markup("<wbr>".join(map(markup, [cell] if " " in cell else _JOINT.split(cell))))

    return notebook_html("", rows_html([*heads], ([*map(wrapping, row)] for row in rows)))


@cache
def glossary() -> tuple[Entry, ...]:
    """Return every entry, by Flink's name."""
    entries = [entry for documented in _all_documented() for entry in _entries_of(documented)]
    return tuple(sorted(entries, key=lambda entry: (entry.name.lower(), _rank(entry))))


@cache
def _definitions() -> tuple[Entry, ...]:
    """Return an entry for each documented class and function under its own name, with its class as the owner."""
    found = []
    for documented in _all_documented():
        owner, _, name = documented.symbol.rpartition(".")
        if name and not name.startswith("_"):
            found.append(documented.entry(owner, name, _sentences(documented.text)[0]))
    return tuple(found)


def _spelled_alike(owner: str, name: str) -> list[Entry]:
    """Return the definitions whose name is this one but for capitals and underscores, in `owner` if there is one."""
    alike = [entry for entry in _definitions() if name and _plain(entry.name) == _plain(name)]
    return [entry for entry in alike if _plain(owner) in ("", _plain(entry.owner))]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _rank(entry: Entry) -> tuple[bool, bool, bool, str, int]:
    """Return the sort key: objects of the same name first, then those that it describes alone; whole modules last."""
    same = _plain(entry.symbol.rpartition(".")[2]) == _plain(entry.name)
    return (not same, entry.symbol == "", entry.owner == "", entry.file, entry.line)


def _entries_of(documented: Documented) -> Iterator[Entry]:
    said: dict[tuple[str, str], Entry] = {}
    sentences = _sentences(documented.text)
    for sentence in sentences:
        more = "" if sentence == sentences[0] or _ONLY_NAMES.fullmatch(sentence) else f" {sentence}"
        for owner, name in _names(sentence):
            said.setdefault((owner, name), documented.entry(owner, name, sentences[0] + more))
    yield from said.values()


@cache
def _all_documented() -> tuple[Documented, ...]:
    """Return everything in the kit that has a docstring."""
    found = []
    for path in sorted(HOME.rglob("*.py")):
        file = path.relative_to(HOME.parent).as_posix()
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for symbol, line, text in _documented(ast.parse(path.read_text(encoding="utf-8")), "", 1):
            found.append(Documented(module, symbol, file, line, text))
    return tuple(found)


def _documented(node: ast.AST, symbol: str, line: int) -> Iterator[tuple[str, int, str]]:
    """Yield every docstring in a module or class: the symbol that it documents, its line, the text."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
        yield symbol, line, text
    if not isinstance(node, ast.Module | ast.ClassDef):
        return
    inside = f"{symbol}." if symbol else ""
    for one, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.ClassDef | ast.FunctionDef):
            yield from _documented(one, f"{inside}{one.name}", one.lineno)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            target = one.targets[0] if isinstance(one, ast.Assign) else one.target
            text = _text(following)
            if isinstance(target, ast.Name) and text:
                yield f"{inside}{target.id}", one.lineno, text


def _text(node: ast.stmt | None) -> str:
    """Return the docstring of the constant above it, "" for any other statement."""
    value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _sentences(text: str) -> list[str]:
    return [" ".join(sentence.split()) for block in text.split("\n\n") for sentence in _SENTENCE.split(block.strip())]


def _names(sentence: str) -> Iterator[tuple[str, str]]:
    spelled = _LIKE_JAVA if _ABOUT_FLINK.search(sentence) else _LIKE_A_METHOD
    for name in _NAME.findall(sentence):
        owner, _, last = name.replace("#", ".").rpartition(".")
        owner = owner.rpartition(".")[2]
        if spelled.fullmatch(last) or (spelled is _LIKE_JAVA and _LIKE_JAVA.fullmatch(owner)):
            yield owner, last
