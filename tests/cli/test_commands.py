"""The command `kit`, run as a user runs it: what it prints, writes, and exits with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import kit
from kit.cli.commands import Table
from kit.cli.editing import app
from tests.flink_data import value_cases, values
from tests.snapshots.flink_types import savepoints
from tests.snapshots.written import longs

SAVEPOINTS = pytest.mark.parametrize(
    ("version", "case"), [each for each in value_cases() if each[1] in ("savepoint-canonical", "rocksdb-incremental")]
)


def ran(*arguments: object) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a command."""
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    return found.exit_code, found.stdout, found.stderr


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@SAVEPOINTS
def test_state_prints_every_row(version: str, case: str, tmp_path: Path) -> None:
    folder = values(version) / case
    for name, state in (("rich", "pojo"), ("collections", "list-long"), ("session", "window-contents")):
        operator = kit.open_checkpoint(folder).state(name, state)
        code, out, _ = ran("state", folder, name, state, "--json")
        assert code == 0
        assert [row["key_group"] for row in rows(out)] == operator["key_group"].to_pylist()
        assert all({"key", "value"} <= set(row) for row in rows(out))
        code, _, _ = ran("state", folder, name, state, "--parquet", tmp_path / "out.parquet")
        assert code == 0
        assert pq.read_table(tmp_path / "out.parquet").num_rows == operator.num_rows
        code, out, _ = ran("state", folder, name, state, "--limit", 2)
        assert code == 0
        assert f"{name}, {state}: the first 2 rows" in out
        assert "... and more; --limit 0 prints all" in out
        for limit in (operator.num_rows, operator.num_rows + 1, 0):
            code, out, _ = ran("state", folder, name, state, "--limit", limit)
            assert code == 0
            assert f"{name}, {state}: {operator.num_rows:,} rows" in out
            assert "more" not in out


def test_show_writes_a_page_to_browse(tmp_path: Path) -> None:
    folder = longs(tmp_path / "sums", np.arange(5))
    code, out, _ = ran("show", folder, "--html", tmp_path / "page.html")
    assert (code, out.strip()) == (0, str(tmp_path / "page.html"))
    assert "kit-browser" in (tmp_path / "page.html").read_text(encoding="utf-8")
    code, _, err = ran("show", folder, "--html", tmp_path / "nowhere" / "page.html")
    assert code == 2
    assert err.count("\n") == 1


def test_in_flight_prints_records() -> None:
    folder = savepoints() / "in-flight"
    code, out, _ = ran("in-flight", folder, "slow", "--record", "Tuple2<Long, String>", "--json")
    assert code == 0
    assert {row["element"] for row in rows(out)} == {"record"}
    assert all(row["record"]["f0"] == row["time_ms"] for row in rows(out))
    code, out, _ = ran("in-flight", folder, "numbers", "--limit", 1)
    assert code == 0
    assert "more; --limit 0 prints all" in out
    code, _, error = ran("in-flight", folder, "slow", "--record", "Money")
    assert code == 2
    assert "the type 'Money' has 'Money' with 0 parts; known are" in error


@SAVEPOINTS
def test_show_prints_each_table(version: str, case: str) -> None:
    folder = values(version) / case
    code, out, _ = ran("show", folder)
    assert code == 0
    assert "scalars" in out or "timers" in out
    for table in Table:
        code, out, _ = ran("show", folder, "--table", table.value, "--json")
        assert code == 0, table
        assert table is Table.CHANNEL_STATE or table is Table.MASTER_STATE or table is Table.KEY_GROUPS or rows(out)


def test_exit_codes_say_what_a_deployment_must_know(tmp_path: Path) -> None:
    for number in (1, 2):
        longs(tmp_path / "job" / f"chk-{number}", np.arange(5), 8)
    code, out, _ = ran("ls", tmp_path / "job", "--json")
    assert code == 0
    assert [(row["directory"], row["restorable"]) for row in rows(out)] == [("chk-1", True), ("chk-2", True)]
    (tmp_path / "job" / "chk-1" / "keyed").unlink()
    code, out, _ = ran("ls", tmp_path / "job", "--json")
    assert code == 1
    assert [row["restorable"] for row in rows(out)] == [False, True]
    code, out, error = ran("show", tmp_path / "job" / "chk-1")
    assert code == 1
    assert "keyed' of the checkpoint is missing" in error
    shutil.rmtree(tmp_path / "job" / "chk-2")
    code, out, error = ran("state", tmp_path / "job" / "chk-1", "sums", "total")
    assert (code, out) == (2, "")
    assert error.startswith("kit: sums, subtask 0: ")
    assert error.count("\n") == 1
    assert ran("show", tmp_path / "none")[0] == 2
    assert "has no state" in ran("state", tmp_path / "job" / "chk-1", "sums", "nothing")[2] or code == 2


def test_the_headline_counts_what_can_be_restored(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        longs(tmp_path / "job" / f"chk-{number}", np.arange(5), 8)
    (tmp_path / "job" / "chk-1" / "keyed").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job" / "chk-3" / "keyed").rename(tmp_path / "elsewhere" / "keyed")
    (tmp_path / "job" / "chk-3" / "keyed").symlink_to(tmp_path / "elsewhere" / "keyed")
    code, out, _ = ran("ls", tmp_path / "job")
    assert out.startswith("1 of 3 checkpoints can be restored, 1 not looked at; ")
    assert "chk-3: not looked at: the checkpoint refers to" in out
    found = {row["directory"]: row["restorable"] for row in rows(ran("ls", tmp_path / "job", "--json")[1])}
    assert (code, found) == (1, {"chk-1": False, "chk-2": True, "chk-3": None})
    shutil.rmtree(tmp_path / "job" / "chk-1")
    assert ran("ls", tmp_path / "job")[0] == 0, "what was not looked at may be whole"
    code, out, _ = ran("ls", tmp_path / "job", "--follow")
    assert (code, out[:37]) == (0, "2 of 2 checkpoints can be restored; 4"[:37])


def test_orphans_warns_about_a_checkpoint_in_progress(tmp_path: Path) -> None:
    for number in (1, 2):
        longs(tmp_path / "job" / f"chk-{number}", np.arange(5), 8)
    assert ran("orphans", tmp_path / "job")[::2] == (0, "")
    (tmp_path / "job" / "chk-2" / "_metadata").unlink()
    code, out, error = ran("orphans", tmp_path / "job")
    assert code == 1
    assert "chk-2/keyed" in out
    assert "chk-2 has no _metadata: a job may still be writing this checkpoint" in error
    assert "chk-2 has no _metadata" in ran("ls", tmp_path / "job")[2]


def test_orphans_lists_no_file_of_a_damaged_checkpoint(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        longs(tmp_path / "job" / f"chk-{number}", np.arange(5), 8)
    for number in (2, 3):
        (tmp_path / "job" / f"chk-{number}" / "_metadata").write_bytes(b"no")
    (tmp_path / "job" / "left-over").write_bytes(b"123")
    assert not len(kit.open_checkpoints(tmp_path / "job").orphans), "what it refers to is not known"
    code, out, error = ran("orphans", tmp_path / "job", "--json")
    assert (code, out) == (2, "")
    assert error.startswith(f"kit: {tmp_path}/job/chk-2: "), "the first that cannot be read"
    assert error.count("\n") == 1


def test_orphans_are_listed_from_an_age_in_seconds_minutes_hours_and_days_on(tmp_path: Path) -> None:
    longs(tmp_path / "job" / "chk-1", np.arange(5), 8)
    now, ages = time.time(), {"new": 100, "old": 2 * 3_600, "older": 3 * 86_400}
    for name, age_s in ages.items():
        (tmp_path / "job" / name).write_bytes(bytes(age_s // 100))
        os.utime(tmp_path / "job" / name, (now - age_s, now - age_s))
    for age, wanted in {
        "3s": ["new", "old", "older"],
        "300s": ["old", "older"],
        "3m": ["old", "older"],
        "100m": ["old", "older"],
        "140m": ["older"],
        "3h": ["older"],
        "2d": ["older"],
        "4d": [],
    }.items():
        code, out, _ = ran("orphans", tmp_path / "job", "--older-than", age, "--json")
        assert (code, [row["file"] for row in rows(out)]) == (1 if wanted else 0, wanted), age
    assert (
        "2 files, 2,664 B, that no checkpoint here refers to"
        in ran("orphans", tmp_path / "job", "--older-than", "1h")[1]
    )


def test_every_problem_is_listed_and_the_first_three_of_a_checkpoint_are_told(tmp_path: Path) -> None:
    for number in range(1, 6):
        longs(tmp_path / "job" / f"chk-{number}", np.arange(5), 8)
    for number in (2, 4):
        (tmp_path / "job" / f"chk-{number}" / "keyed").unlink()
    code, out, _ = ran("ls", tmp_path / "job")
    assert code == 1
    assert [line.partition(":")[0] for line in out.splitlines() if "is missing" in line] == ["chk-2", "chk-4"]
    assert ran("show", tmp_path / "job" / "chk-2")[2].count("\n") == 1


def test_show_tells_the_first_three_of_many_problems(tmp_path: Path) -> None:
    version = value_cases()[-1][0]
    folder = shutil.copytree(values(version) / "rocksdb-full", tmp_path / "chk-7")
    files = sorted(each for each in folder.iterdir() if each.name != "_metadata" and each.suffix != ".json")
    for file in files[:5]:
        file.unlink()
    problems = [each for each in kit.open_checkpoint(folder).files["problem"] if each]
    assert len(problems) > 3
    code, _, error = ran("show", folder)
    assert (code, error.splitlines()) == (1, [f"kit: {each}" for each in problems[:3]])


def test_show_explains_that_names_are_missing_until_one_uid_is_given() -> None:
    unnamed = next(values(version) / case for version, case in value_cases() if case == "rocksdb-full")
    assert not kit.open_checkpoint(unnamed).operators["name"].any(), "Flink stored no names then"
    told = "You can name an operator by its uid"
    assert told in ran("show", unnamed)[1]
    code, out, _ = ran("show", unnamed, "--uids", "rich")
    assert (code, told in out, "rich" in out) == (0, False, True)


def test_several_key_groups_and_uids_are_taken_together(tmp_path: Path) -> None:
    folder = longs(tmp_path, np.arange(50), 8)
    groups = sorted(set(kit.open_checkpoint(folder).state("sums", "total")["key_group"].to_pylist()))
    chosen = [text for group in (groups[0], groups[-1]) for text in ("--key-group", group)]
    code, out, _ = ran("state", folder, "sums", "total", *chosen, "--json")
    assert (code, {row["key_group"] for row in rows(out)}) == (0, {groups[0], groups[-1]})
    assert len(groups) > 2


def test_a_file_that_was_cut_off_is_named_before_it_is_read(tmp_path: Path) -> None:
    keyed = longs(tmp_path / "chk-1", np.arange(5), 8) / "keyed"
    many = keyed.stat().st_size
    keyed.write_bytes(keyed.read_bytes()[:-1])
    told = f"keyed' has {many - 1:,} bytes, but the checkpoint recorded {many:,}: it was cut off"
    code, out, _ = ran("ls", tmp_path)
    assert code == 1
    assert told in out
    code, _, error = ran("show", tmp_path / "chk-1")
    assert code == 1
    assert told in error


def test_states_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    keyed = longs(tmp_path / "chk-1", np.arange(5), 8) / "keyed"
    keyed.write_bytes(b"\xff" + keyed.read_bytes()[1:])
    code, _, error = ran("show", tmp_path / "chk-1")
    assert code == 1
    assert "kit: sums: " in error
    assert "of keyed state" in error
    assert ran("show", tmp_path / "chk-1", "--table", "operators")[0] == 0


def test_no_more_key_groups_are_read_than_rows_are_shown(tmp_path: Path) -> None:
    keyed = longs(tmp_path, np.arange(50), 8) / "keyed"
    last = max(kit.open_checkpoint(tmp_path).key_group_bytes("sums", 0).items())
    keyed.write_bytes(keyed.read_bytes()[: -last[1]] + b"\xff" * last[1])
    for limit, code in ((3, 0), (20, 0), (50, 2), (0, 2)):
        found, out, error = ran("state", tmp_path, "sums", "total", "--limit", limit)
        assert (found, "byte " in error) == (code, code == 2), f"{limit}: {error}"
        assert ("the first " in out) == (code == 0)
    code, out, error = ran("state", tmp_path, "sums", "total", "--json")
    assert (code, "byte " in error) == (2, True)
    assert 0 < len(out.splitlines()) < 50


def test_one_key_group_can_be_read_alone(tmp_path: Path) -> None:
    folder = longs(tmp_path, np.arange(50), 8)
    table = kit.open_checkpoint(folder).state("sums", "total")
    group = table["key_group"][0].as_py()
    code, out, _ = ran("state", folder, "sums", "total", "--key-group", group, "--json")
    assert code == 0
    assert {row["key_group"] for row in rows(out)} == {group}


def test_one_key_is_printed_and_a_text_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = longs(tmp_path, np.arange(50), 8)
    code, out, _ = ran("state", folder, "sums", "total", "--key", "42", "--json")
    assert (code, [(row["key"], row["value"]) for row in rows(out)]) == (0, [(42, -42)])
    code, out, _ = ran("state", folder, "sums", "total", "--key", "50", "--json")
    assert (code, rows(out)) == (0, [])
    code, _, error = ran("state", folder, "sums", "total", "--key", "x")
    assert code == 2
    assert "'x' is no key of type Long" in error


@pytest.mark.parametrize("options", [("--json",), ("--limit", 100), ("--limit", 0)], ids=lambda each: each[0])
def test_only_rows_that_meet_all_conditions_are_printed(tmp_path: Path, options: tuple[Any, ...]) -> None:
    folder = longs(tmp_path, np.arange(50), 8)
    conditions = ("--where", "key >= 40", "--where", "value != -42")
    code, out, _ = ran("state", folder, "sums", "total", *conditions, *options)
    assert code == 0
    wanted = {40, 41, *range(43, 50)}
    if options == ("--json",):
        assert {row["key"] for row in rows(out)} == wanted
    else:
        assert "9 rows" in out
        assert all(f"-{key}" in out for key in wanted)
    code, out, _ = ran("state", folder, "sums", "total", "--key", "42", *conditions, "--json")
    assert (code, rows(out)) == (0, [])
    code, out, error = ran("state", folder, "sums", "total", "--where", "total > 3", *options)
    assert (code, out) == (2, "")
    assert "there is no 'total', only key_group, key, value" in error


def test_it_runs_as_a_module_and_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    folder = longs(tmp_path, np.arange(20_000))
    command = f"{sys.executable} -m kit state {folder} sums total --json | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert set(json.loads(ended.stdout)) == {"key_group", "key", "value"}
    assert ended.stderr == ""


@SAVEPOINTS
def test_size_orphans_and_plan(version: str, case: str, tmp_path: Path) -> None:
    folder = values(version) / case
    code, out, _ = ran("size", folder, "--json")
    assert code == 0
    sizes = [int(str(row["bytes"])) for row in rows(out)]
    assert sizes == sorted(sizes, reverse=True)
    assert ran("size", folder)[0] == 0
    code, out, _ = ran("plan", folder, "scalars", "-p", 2, "-p", 3, "--state", "long", "--json")
    assert code == 0
    assert {row["parallelism"] for row in rows(out)} == {2, 3}
    assert "busiest subtask" in ran("plan", folder, "scalars", "-p", 2)[1]
    shutil.copytree(folder, tmp_path / "job")
    assert ran("orphans", tmp_path / "job")[0] == 1, "the files with the truth belong to no checkpoint"
    for path in (tmp_path / "job").glob("truth*"):
        path.unlink()
    assert ran("orphans", tmp_path / "job")[0] == 0
    (tmp_path / "job" / "left-over").write_bytes(b"123")
    code, out, _ = ran("orphans", tmp_path / "job", "--json")
    assert (code, rows(out)) == (1, [{"file": "left-over", "bytes": 3}])
    assert ran("orphans", tmp_path / "job", "--older-than", "1h")[0] == 0
    os.utime(tmp_path / "job" / "left-over", (1_000_000_000, 1_000_000_000))
    assert rows(ran("orphans", tmp_path / "job", "--older-than", "1h", "--json")[1]) == rows(out)
    assert "expected a number and s, m, h or d" in ran("orphans", tmp_path / "job", "--older-than", "1")[2]
    (tmp_path / "job" / "chk-9").mkdir()
    (tmp_path / "job" / "chk-9" / "_metadata").write_bytes(b"no")
    assert ran("orphans", tmp_path / "job")[0] == 2, "what a damaged checkpoint refers to is not known"


def test_the_list_of_commands_cuts_no_summary_off() -> None:
    code, out, _ = ran("--help")
    assert code == 0
    _, _, listed = out.partition("Commands:")
    assert len(listed.splitlines()) > 10
    assert "..." not in listed
