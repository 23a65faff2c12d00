"""What `--json` prints is what its table says: these columns in this order, of these types, for every command."""

from __future__ import annotations

import json
import shutil
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kit.cli.commands import Table
from kit.cli.json_output import (
    BOOLEAN,
    BYTES,
    INTEGER,
    NUMBER,
    OR_NULL,
    OUTPUTS,
    TEXT,
    VERSION,
    json_columns,
)
from tests.cli.several import directory_of_several
from tests.cli.test_commands import ran
from tests.flink_data import checkpoint_cases, checkpoints, value_cases, values

ANSWERS = sorted((Path(__file__).parents[1] / "data" / "flink_rest").glob("*.json"))
HELD = (1, 958360487)
"""The version, and the sum of the columns and types of it: change both together, or add columns at the end."""
TYPES: dict[str, type | tuple[type, ...]] = {
    TEXT: str,
    INTEGER: int,
    NUMBER: (int, float),
    BOOLEAN: bool,
    BYTES: str,
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that each command prints, of checkpoints with every kind of state."""
    folder = tmp_path_factory.mktemp("printed")
    job, version = directory_of_several(folder), value_cases()[-1][0]
    savepoint, other = values(version) / "savepoint-canonical", values(version) / "checkpoint-hashmap"
    paths = [savepoint, values(version) / "rocksdb-incremental", values(version) / "rocksdb-heap-timers"]
    for case in ("unaligned", "coordinator-master", "unaligned-finished"):
        newest = [version for version, each in checkpoint_cases() if each == case][-1:]
        paths += [path.parent for each in newest for path in sorted((checkpoints(each) / case).rglob("_metadata"))[:1]]
    runs: list[tuple[str, tuple[object, ...]]] = [
        (f"kit show --table {table}", ("show", path, "--table", table.value)) for table in Table for path in paths
    ]
    runs += [("kit verify", ("verify", path)) for path in paths]
    runs += [("kit size", ("size", path)) for path in paths]
    runs += [("kit advise", ("advise", path)) for path in ANSWERS]
    runs += [
        ("kit ls", ("ls", job)),
        ("kit size DIRECTORY", ("size", job)),
        ("kit size DIRECTORY --incremental", ("size", job, "--incremental")),
        ("kit check", ("check", savepoint, "--parallelism", 3)),
        ("kit check", ("check", savepoint, "--parallelism", 4, "--max-parallelism", 64)),
        ("kit diff", ("diff", savepoint, other)),
        ("kit diff --subtasks", ("diff", savepoint, other, "--subtasks")),
        ("kit plan", ("plan", savepoint, "rich", "-p", 2)),
        ("kit advise --failures-every-s", ("advise", ANSWERS[0], "--failures-every-s", 3600)),
        ("kit edit", ("edit", savepoint, "--to", folder / "new", "--drop", "rich", "--dry-run")),
    ]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for command, arguments in runs:
        code, out, err = ran(*arguments, "--json")
        assert code in (0, 1, 3), f"{arguments}: {err}"
        found[command] += map(json.loads, out.splitlines())
    for broken in ("chk-3", "chk-4"):
        shutil.rmtree(job / broken)
    _, out, _ = ran("orphans", job, "--json")
    found["kit orphans"] = list(map(json.loads, out.splitlines()))
    return found


@pytest.mark.parametrize("command", OUTPUTS)
def test_each_command_prints_the_columns_of_the_table(command: str, printed: dict[str, list[dict[str, Any]]]) -> None:
    rows, columns = printed[command], OUTPUTS[command]
    assert rows, "no checkpoint here has such rows"
    assert {tuple(row) for row in rows} == {tuple(columns)}
    for name, (kind, meaning) in columns.items():
        assert meaning
        there = [row[name] for row in rows if row[name] is not None]
        assert len(there) == len(rows) or kind.endswith(OR_NULL), f"{name} is null"
        expected = TYPES[kind.removesuffix(OR_NULL)]
        assert {type(each) for each in there if not isinstance(each, expected)} == set(), name
        assert kind.startswith(BOOLEAN) or not any(isinstance(each, bool) for each in there), name


@pytest.mark.parametrize("command", ["ls", "size", "orphans", "verify", "check", "show", "plan"])
def test_a_parquet_file_that_cannot_be_written_is_one_error(command: str, tmp_path: Path) -> None:
    folder = values(value_cases()[-1][0]) / "savepoint-canonical"
    more = {"plan": ("rich", "-p", 2)}.get(command, ())
    code, out, err = ran(command, folder, *more, "--parquet", tmp_path / "no" / "such" / "file")
    assert (code, out) == (2, "")
    assert "cannot be written: " in " ".join(err.replace("│", " ").split())


def test_every_table_of_show_is_there() -> None:
    assert {f"kit show --table {table.value}" for table in Table} <= OUTPUTS.keys()
    frame = json_columns()
    assert len(frame) == sum(map(len, OUTPUTS.values()))
    assert set(frame["command"]) == OUTPUTS.keys()


def test_another_table_is_another_version() -> None:
    columns = [(command, name, kind) for command, held in OUTPUTS.items() for name, (kind, _) in held.items()]
    assert (VERSION, zlib.crc32(repr(columns).encode())) == HELD
