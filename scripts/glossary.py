"""Write docs/GLOSSARY.md from the docstrings: every name of Flink that they mention, and its places in the kit.

`kit.where(name)` reads the same docstrings; tests/house/test_glossary.py compares the two.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from kit.glossary import Entry, glossary

PAGE = Path(__file__).resolve().parent.parent / "docs" / "GLOSSARY.md"
INTRODUCTION = """# Glossary

Flink's names and their places in the kit. `kit.where("takeSnapshotSync")` finds the same in Python, with the line and
the docstring. `python -m scripts.glossary` writes this page from the docstrings.

| Flink | the kit |
|---|---|
"""


def page() -> str:
    """Return the page for the present docstrings: a row for each name, the best place first."""
    return INTRODUCTION + "".join(_row(list(entries)) for _, entries in groupby(glossary(), lambda entry: entry.name))


def _row(entries: list[Entry]) -> str:
    owners = sorted({entry.owner for entry in entries} - {""})
    name = f"`{entries[0].name}`" + (f" ({', '.join(owners)})" if owners else "")
    places = list(dict.fromkeys(f"[`{entry.symbol or entry.module}`](../{entry.file})" for entry in entries))
    return f"| {name} | {'<br>'.join(places)} |\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
