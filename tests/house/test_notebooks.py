"""What the notebooks claim to check is checked.

nbval compares nothing in a cell without an execution count, not even when told to be strict; a cell that is to be
compared (tag `nbval-check-output`) and was never run, or was stripped, would pass forever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.house.files import ROOT

CHECKED, KEPT = "nbval-check-output", "keep_output"


def faults(path: str, notebook: dict[str, Any]) -> Iterator[str]:
    """Say which cells would pass unchecked, or carry what should not be committed."""
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        tags = cell["metadata"].get("tags", [])
        where = f"{path}, cell {number}"
        if CHECKED in tags:
            if cell["execution_count"] is None:
                yield f"{where}: is to be compared and has no execution count: run it, and strip with --keep-count"
            if not cell["outputs"]:
                yield f"{where}: is to be compared and has no output"
            if KEPT not in tags:
                yield f"{where}: is to be compared and is not tagged {KEPT}: stripping would empty it"
        if cell["outputs"] and KEPT not in tags:
            yield f"{where}: has an output that nothing compares: strip it (nbstripout --keep-count)"
        if any(output["output_type"] == "error" for output in cell["outputs"]) and "raises-exception" not in tags:
            yield f"{where}: ends in an error"


def cell(*tags: str, count: int | None = 1, outputs: tuple[str, ...] = ("stream",)) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {"tags": list(tags)},
        "outputs": [{"output_type": kind} for kind in outputs],
        "source": "",
    }


def faults_of(*cells: dict[str, Any]) -> list[str]:
    return list(faults("n.ipynb", {"cells": list(cells)}))


def test_notebooks_check_what_they_say_they_check() -> None:
    found: list[str] = []
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            found += faults(path.relative_to(ROOT).as_posix(), json.loads(path.read_text(encoding="utf-8")))
    assert found == []


def test_a_cell_that_would_pass_unchecked_is_found() -> None:
    (fault,) = faults_of(cell(CHECKED, KEPT, count=None))
    assert "no execution count" in fault
    (fault,) = faults_of(cell(CHECKED, KEPT, outputs=()))
    assert "no output" in fault


def test_a_cell_that_stripping_would_empty_is_found() -> None:
    assert any(KEPT in fault for fault in faults_of(cell(CHECKED)))


def test_an_output_nobody_compares_and_an_error_are_found() -> None:
    (fault,) = faults_of(cell())
    assert "nothing compares" in fault
    (fault,) = faults_of(cell(KEPT, outputs=("error",)))
    assert "error" in fault


def test_a_good_notebook_passes() -> None:
    prose = {"cell_type": "markdown", "metadata": {}, "source": ""}
    raising = cell(CHECKED, KEPT, "raises-exception", outputs=("error",))
    assert faults_of(prose, cell(CHECKED, KEPT), cell(count=2, outputs=()), raising) == []
