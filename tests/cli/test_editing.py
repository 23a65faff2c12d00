"""`kit edit`, run as a user runs it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import kit
from tests.cli.test_commands import SAVEPOINTS, ran, rows
from tests.flink_data import values
from tests.snapshots.test_serializers import LONGS
from tests.snapshots.written import BASE, header_of, longs, native, snapshot


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
    deleted = next(line for line in out.splitlines() if line.startswith("delete keys"))
    assert "1 key: " in deleted
    assert " rows of " in deleted


def test_deleted_rows_are_counted_and_a_key_of_another_type_is_rejected(tmp_path: Path) -> None:
    folder = longs(tmp_path / "old", np.arange(5), 8)
    for dry in ([], ["--dry-run"]):
        keys = ["--delete-key", "sums=3", "--delete-key", "sums=4", "--delete-key", "sums=99"]
        code, out, _ = ran("edit", folder, "--to", tmp_path / f"new{len(dry)}", *keys, *dry)
        assert code == 0
        assert "3 keys: 2 rows of 1 state" in out
    plan = kit.open_checkpoint(folder).edit().delete_keys("sums", [3])
    plan.rehearse()
    plan.rehearse()
    assert plan.changes["detail"].tolist() == ["1 key: 1 rows of 1 state"], "a second rehearsal counts no row again"
    for wrong in ('"3"', "3.5", "true", "null", '{"a": 3}', "99999999999999999999"):
        code, _, err = ran("edit", folder, "--to", tmp_path / "other", "--delete-key", f"sums={wrong}")
        assert code == 2, wrong
        assert "no key of type Long" in err, wrong
        assert not (tmp_path / "other").exists()


TYPED_KEYS = {
    "String": (
        "StringSerializer$StringSerializerSnapshot",
        {"12": b"\x0312", "true": b"\x05true", '"12"': b'\x05"12"'},
    ),
    "Double": (
        "DoubleSerializer$DoubleSerializerSnapshot",
        {text: struct.pack(">d", float(text)) for text in ("NaN", "-1.5", "2")},
    ),
}


@pytest.mark.parametrize("name", TYPED_KEYS)
def test_a_key_to_delete_is_a_text_of_the_type_of_the_keys_as_a_key_to_print(name: str, tmp_path: Path) -> None:
    serializer, keys = TYPED_KEYS[name]
    head = header_of({"total": ("VALUE", LONGS)}, snapshot(BASE + serializer))
    entries = b"".join(b"\0" + key + struct.pack(">q", number) for number, key in enumerate(keys.values()))
    folder = native(tmp_path / "old", head, [[struct.pack(">i", len(keys)) + entries]])
    for number, text in enumerate(keys):
        code, out, _ = ran("state", folder, "sums", "total", "--key", text, "--json")
        assert (code, [row["value"] for row in rows(out)]) == (0, [number])
        new = tmp_path / f"new-{number}"
        code, out, _ = ran("edit", folder, "--to", new, "--delete-key", f"sums={text}")
        assert code == 0
        assert "1 key: 1 rows of 1 state" in out
        assert sorted(kit.open_checkpoint(new).state("sums", "total")["value"].to_pylist()) == sorted(
            set(range(len(keys))) - {number}
        )


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
        (["--rename", "scalars"], "expected two texts separated by ="),
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
