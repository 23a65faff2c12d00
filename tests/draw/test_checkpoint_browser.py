"""The browser of a checkpoint as a page without a kernel: it has what the tables have, and trusts nothing in them."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

import kit
from benchmarks.opening import with_subtasks
from kit.draw.page.checkpoint_page import export_checkpoint
from kit.draw.views.checkpoints.browser import browser_html
from kit.draw.views.checkpoints.browser_answers import answered
from kit.snapshots.checkpoints import Checkpoint
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import value_cases, values
from tests.snapshots.written import BASE, LONG, header, lists, longs, savepoint, snapshot

REAL = pytest.mark.parametrize(
    ("version", "case"), [each for each in value_cases() if each[1] in ("savepoint-canonical", "rocksdb-incremental")]
)
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'>\" onfocus=\"alert(3)"


def seen(html: str) -> str:
    """Return the text of a page, without its script and styles."""
    html = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)))


def rows(html: str) -> list[list[str]]:
    """Return the cells of all tables of a page, row by row."""
    return [
        [seen(cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    ]


@REAL
def test_the_page_has_what_the_tables_have(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    html = browser_html(checkpoint)
    operators = re.findall(r"<summary><b>([^<]*)</b><span>parallelism (\d+)</span> <span>.*?</i>([^<]*)<", html)
    table = checkpoint.operators
    assert [name for name, _, _ in operators] == list(table["operator"])
    assert [int(number) for _, number, _ in operators] == list(table["parallelism"])
    text = seen(html)
    assert checkpoint.title in text
    assert set(checkpoint.states["name"]) <= set(re.findall(r"<summary><b>([^<]*)</b>", unescape(html)))
    shown = rows(html)
    for operator, name in (("scalars", "long"), ("collections", "list-long")):
        first = checkpoint.page(operator, name, most_read=64).texts()
        assert any(shown[at : at + len(first)] == first for at in range(len(shown)))
    for file in checkpoint.files.head(5).itertuples():
        assert [file.file, f"{file.bytes:,}", file.operators, ""] in shown


def test_it_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = export_checkpoint(kit.open_checkpoint(longs(tmp_path / "sp", np.arange(50))), tmp_path / "page.html")
    html = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert not re.findall(r"(?:src|href)=\"|url\(|@import", html)


def test_names_are_text(tmp_path: Path) -> None:
    head = header(snapshot(BASE + LONG), name=HOSTILE)
    opened = [
        kit.open_checkpoint(savepoint(tmp_path / "keyed", head + b"\0\0\xff\xff", (len(head),), uid=HOSTILE)),
        kit.open_checkpoint(lists(tmp_path / "lists", {(HOSTILE, HOSTILE): [HOSTILE.encode()]})),
    ]
    for checkpoint in opened:
        for html in (browser_html(checkpoint), browser_html(checkpoint, is_live=True)):
            assert "<script>alert" not in html
            assert "<img" not in html
            assert 'onfocus="' not in html
            assert HOSTILE in seen(html)


def _damaged(folder: Path, version: str, case: str) -> Checkpoint:
    shutil.copytree(values(version) / case, folder)
    files = kit.open_checkpoint(folder).files
    for row in files.itertuples():
        path = Path(row.found)
        path.write_bytes(b"\xff" * path.stat().st_size)
    return kit.open_checkpoint(folder)


@REAL
def test_damaged_files_are_one_sentence_each(tmp_path: Path, version: str, case: str) -> None:
    html = browser_html(_damaged(tmp_path / "damaged", version, case))
    assert "Traceback" not in html
    problems = re.findall(r'class="b-problem"[^>]*>([^<]*)<', html)
    assert any("damaged" in each for each in problems)
    at_scalars = html.index(f"<dd>{operator_id_of_uid('scalars')}</dd>")
    pane = html[at_scalars : html.index("Handles and files", at_scalars)]
    assert len(re.findall('class="b-problem"', pane)) == 1


@REAL
def test_missing_files_are_counted_and_listed(tmp_path: Path, version: str, case: str) -> None:
    shutil.copy(values(version) / case / "_metadata", tmp_path)
    checkpoint = kit.open_checkpoint(tmp_path)
    text = seen(browser_html(checkpoint))
    assert f"{len(checkpoint.files)} of {len(checkpoint.files)} files cannot be read" in text
    assert "is missing: copy it back" in text


def test_the_page_of_many_subtasks_is_small(tmp_path: Path) -> None:
    few, many = (
        browser_html(kit.open_checkpoint(with_subtasks(tmp_path / str(count), count))) for count in (400, 4_000)
    )
    assert "the 8 largest of 400 subtasks" in seen(many)
    assert len(many) < 1.2 * len(few)


def test_the_strips_are_the_bytes_and_entries_of_key_groups(tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(longs(tmp_path, np.arange(1_000), 32))
    html = browser_html(checkpoint)
    entries = checkpoint.key_group_entries("sums", 0)
    assert sum(entries.values()) == 1_000
    drawn = re.findall(r'title="([\d,]+) entries in key group (\d+)"', html)
    assert {int(group): int(many) for many, group in drawn} == entries
    sizes = re.findall(r'title="[\d.,]+ k?B in key group (\d+)"', html)
    assert list(map(int, sizes)) == list(checkpoint.key_groups["key_group"])


@pytest.mark.parametrize(("version", "case"), [each for each in value_cases() if each[1] == "savepoint-canonical"])
def test_a_finding_about_many_operators_is_one_row_of_the_check(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    names = list(checkpoint.operators.query("max_parallelism != 64")["operator"])
    found = rows(answered(checkpoint, {"ask": "check", "parallelism": "4", "max_parallelism": "64"}))
    (row,) = [each for each in found if each and each[0] == "fails"]
    assert row[1].startswith(f"{len(names)} operators: ")
    assert sorted(row[1].partition(": ")[2].split(", ")) == sorted(names)


@pytest.mark.parametrize(("ask", "field"), [("check", "against"), ("diff", "path")])
def test_another_checkpoint_is_opened_with_the_same_file_system(tmp_path: Path, ask: str, field: str) -> None:
    longs(tmp_path / "sums", np.arange(100))
    longs(tmp_path / "other", np.arange(1, 101))
    inside = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    checkpoint = kit.open_checkpoint("/sums", file_system=inside)
    text = seen(answered(checkpoint, {"ask": ask, field: "/other"}))
    assert ("restores to this job" if ask == "check" else "1 added, 1 removed, 0 changed") in text
