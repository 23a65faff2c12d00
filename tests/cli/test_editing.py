"""`kit edit`, run as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from tests.cli.test_commands import SAVEPOINTS, ran, rows
from tests.flink_data import values


@SAVEPOINTS
def test_changes_are_written_into_a_new_savepoint(version: str, case: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    longs = kit.open_checkpoint(values(version) / case).state("scalars", "long")
    key = longs["key"][0].as_py()
    options = ["--rename", "scalars=numbers", "--drop", "session", "--drop-state", "timers=seen"]
    options += ["--delete-key", f"scalars={key}", "--max-parallelism", "256", "--drop", "by-pojo"]
    options = options if case == "savepoint-canonical" else options[:-2]
    code, out, _ = ran("edit", values(version) / case, "--to", new, *options)
    assert code == 0, out
    assert f"Written to {new}:" in out
    written = kit.open_checkpoint(new)
    assert set(written.operators["max_parallelism"]) == {256}
    assert written.state("numbers", "long").num_rows == longs.num_rows - 1
    with pytest.raises(KeyError):
        written.state("session", "window-contents")


@SAVEPOINTS
def test_a_rehearsal_writes_nothing(version: str, case: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    code, out, _ = ran("edit", values(version) / case, "--to", new, "--canonical", "--dry-run", "--json")
    assert (code, rows(out)) == (0, [{"operation": "to canonical", "operator": "all operators", "detail": ""}])
    assert not new.exists()
    code, out, _ = ran("edit", values(version) / case, "--to", new, "--rename", "scalars=numbers", "--dry-run")
    assert code == 0
    assert "Nothing was written" in out


@SAVEPOINTS
def test_what_cannot_be_is_one_line(version: str, case: str, tmp_path: Path) -> None:
    folder = values(version) / case
    for options, said in (
        (["--rename", "scalars"], "expected two texts with = between them"),
        (["--drop", "nobody"], "kit: there is no operator 'nobody'"),
        (["--set-offset", "source=topic:0=5"], "has no split ('topic', 0)"),
        (["--max-parallelism", "1"], "which is more than the maximum parallelism 1"),
    ):
        code, _, err = ran("edit", folder, "--to", tmp_path / "new", *options)
        assert code == 2
        assert said in err
    code, _, err = ran("edit", folder, "--to", folder)
    assert code == 2
    assert err.count("\n") == 1
    assert "the old checkpoint is never changed" in err
