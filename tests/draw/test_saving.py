"""Functions that write a file for the user create no directories; the error says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kit.draw import chains, export_html, gantt, moment_svg
from kit.draw.space_time.space_time_page import export_space_time
from kit.filesystems.memory import MemoryFiles
from kit.hosts.lab import Lab, save_scenario
from kit.hosts.lab.jobs.ready_jobs import ready_job
from tests.draw.labs import lab_of, letters


def lab() -> Lab:
    """A run with a checkpoint."""
    found = lab_of(1)
    found.run_until(checkpoint=1)
    return found


SAVES: dict[str, Callable[[Path], object]] = {
    "page": lambda path: export_html(lab(), path / "run.html"),
    "run.export": lambda path: lab().show().export(path / "run.html"),
    "space-time": lambda path: export_space_time(lab(), path / "run.html"),
    "svg": lambda path: moment_svg(lab()).save(path / "run.svg"),
    "chart": lambda path: gantt(lab()).save(path / "run.svg"),
    "dot": lambda path: chains(letters()).dot().save(directory=path),
    "render": lambda path: chains(letters()).dot().render(directory=path, format="svg"),
    "trace": lambda path: lab().trace.save(path / "run.jsonl"),
    "trace as a scenario": lambda path: lab().trace.save_recording(path / "run.recording"),
    "scenario": lambda path: save_scenario(Lab(ready_job("keyed-sum")), path / "run.scenario"),
    "files": lambda path: MemoryFiles({"/a/b": b"c"}).export(path / "files"),
}


@pytest.mark.parametrize("name", SAVES)
def test_what_saves_makes_no_directories(name: str, tmp_path: Path) -> None:
    nope = tmp_path / "nope"
    with pytest.raises(FileNotFoundError, match=f"there is no directory {nope}: create it first"):
        SAVES[name](nope)
    assert not any(tmp_path.iterdir())
    SAVES[name](tmp_path)
    assert any(tmp_path.iterdir())


def test_a_file_in_the_place_of_a_directory_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file, so nothing can be saved in it"):
        lab().trace.save(tmp_path / "file" / "run.jsonl")
    with pytest.raises(IsADirectoryError, match="is a directory: add a file's name"):
        lab().trace.save(tmp_path)
