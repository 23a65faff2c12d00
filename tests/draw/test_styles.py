"""The style sheets, which share one page: no two of them style the same class by accident."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.house.files import ROOT

SHARED = {"kit-picture", "kit-view", "kit-graph", "kit-stage"}
"""Frames of several pictures: their rules add to each other."""


def test_a_class_of_the_page_has_its_rules_in_one_style_sheet() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in [*ROOT.glob("kit/draw/**/*.css"), *ROOT.glob("widgets/**/*.css")]:
        for selector in re.findall(r"(?:^|[,}])\s*\.(kit-[\w-]+)[^{},]*(?=[,{])", path.read_text(), re.MULTILINE):
            found[selector].add(path.name)
    assert {name: files for name, files in found.items() if len(files) > 1 and name not in SHARED} == {}
    assert len(found) > 60
