"""The guide's examples run twice in a row: each page's, one after another, in a directory that is empty at first.

Those on Spark are the README's.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kit.hosts.spark import DriverSettings, WireSettings
from tests.house.files import ROOT

GUIDE = ROOT / "docs" / "site" / "guide"
PAGES = {
    path.stem: blocks
    for path in sorted(GUIDE.glob("*.md"))
    if (blocks := re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
}
SAID = {
    "install": "True",
    "concepts": "CheckpointCompleted chk-1",
    "jobs": "True",
    "operators": "10",
    "lab": "chk-1",
    "five-questions": "Explorer(transfers: ",
    "open-a-checkpoint": "totals",
    "edit-a-checkpoint": "['sums', ",
    "incremental-checkpoints": "2                8182       75110",
    "state-on-disk": "5000 199990000",
    "evolution": "column note (string) was added",
    "spark": "True",
    "endless-sources": "['started', 'one', 'two']",
    "slow-checkpoints": "292607",
    "classroom": "labpath=notebooks/00-tour.ipynb",
}
"""What each page's examples print among other things."""


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_pages_examples_run_twice(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {"__name__": "guide"}
        for block in PAGES[page]:
            exec(compile(block, page, "exec"), names)
        said = capsys.readouterr().out
        assert SAID[page] in said
        assert "False" not in said


def test_the_settings_of_a_cluster_are_those_there_are() -> None:
    page = (GUIDE / "cluster.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(DriverSettings|WireSettings)\.(\w+)` \| (?:`([^`]*)`|([\w ,`]+)) \|", page, re.MULTILINE)
    assert {name for kind, name, *_ in named if kind == "WireSettings"} == {each.name for each in fields(WireSettings)}
    defaults = {kind.__name__: kind() for kind in (DriverSettings, WireSettings)}
    for kind, name, default, number in named:
        value = getattr(defaults[kind], name)
        if default.strip('"') or number.replace(",", "").isdecimal():
            assert str(value) == default or f"{value:,}" == number
