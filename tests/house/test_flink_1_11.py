"""The page on 1.11 and the docstrings that mention 1.11 link to each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.files import ROOT

PAGE = ROOT / "docs" / "site" / "guide" / "flink-1.11.md"


def docstrings(path: Path) -> str:
    """All docstrings of a file, those of constants among them."""
    strings = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Expr))
    values = (node.value.value for node in strings if isinstance(node.value, ast.Constant))
    return "\n".join(value for value in values if isinstance(value, str))


def test_the_page_has_each_file_whose_docstrings_tell_of_1_11_and_no_other() -> None:
    named = set(re.findall(r"`(kit/[\w/]+\.py)`", PAGE.read_text(encoding="utf-8")))
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "kit").rglob("*.py"))
    tell = {file for file in files if re.search(r"\b1\.11\b", docstrings(ROOT / file))}
    assert named - tell == set(), "the docstrings of these do not mention 1.11"
    assert tell - named == set(), "add what these say of 1.11 to the page"


def test_the_page_has_each_name_that_docstrings_give_for_1_11() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = set()
    for path in (ROOT / "kit").rglob("*.py"):
        for sentence in re.split(r"(?<=[.;:])\s+|\n\n", docstrings(path)):
            if re.search(r"\b1\.11\b", sentence):
                names = re.findall(r"`([\w.]*[a-z][A-Z]\w*)`", sentence)
                missing |= {name for name in names if name.rpartition(".")[2] not in page}
    assert missing == set(), "add what 1.11 calls so to the page"


@pytest.mark.parametrize(
    "topic",
    ["minimum pause", "`CheckpointOptions`", "`CheckpointType`", "unaligned, savepoints", "unaligned, exchanges"],
)
def test_the_page_has_what_articles_on_1_11_tell_of(topic: str) -> None:
    assert topic in PAGE.read_text(encoding="utf-8")


def test_every_row_has_a_topic_both_versions_and_a_place() -> None:
    rows = re.findall(r"^\| (?!topic|---)(.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 30
    for row in rows:
        cells = row.split(" | ")
        assert len(cells) == 4, row
        assert "`kit/" in cells[3], row


def test_the_index_and_the_readme_lead_to_it() -> None:
    assert "guide/flink-1.11" in (ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8")
    assert "docs/site/guide/flink-1.11.md" in (ROOT / "README.md").read_text(encoding="utf-8")
