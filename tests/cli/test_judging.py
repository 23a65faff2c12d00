"""`kit check` and `kit advise`, run as a user runs them, on what Flink wrote and answered."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import kit
from tests.cli.test_commands import SAVEPOINTS, ran
from tests.flink_data import checkpoint_cases, checkpoints, values, values_truth
from tests.snapshots.truth import called
from tests.snapshots.written import BASE, LONG, header_of, longs, native, snapshot

ANSWERS = Path(__file__).parents[1] / "data" / "flink_rest"


@SAVEPOINTS
def test_a_savepoint_restores_to_its_own_job_at_another_parallelism(version: str, case: str) -> None:
    code, out, _ = ran("check", values(version) / case, "--parallelism", 3)
    assert code == 0
    assert "restores to this job" in out
    assert "matched" in out


@SAVEPOINTS
def test_another_maximum_parallelism_fails_in_flinks_words(version: str, case: str) -> None:
    folder = values(version) / case
    code, out, _ = ran("check", folder, "--parallelism", 4, "--max-parallelism", 64, "--json")
    assert code == 1
    found = [json.loads(line) for line in out.splitlines()]
    with_keys = kit.open_checkpoint(folder).operators.query("max_parallelism != 64")
    assert len([each for each in found if "Max parallelism mismatch" in each["flink"]]) == len(with_keys)


@SAVEPOINTS
def test_operators_of_which_the_same_was_found_share_a_line(version: str, case: str) -> None:
    folder = values(version) / case
    names = kit.open_checkpoint(folder).operators.query("max_parallelism != 64")["operator"]
    _, out, _ = ran("check", folder, "--parallelism", 4, "--max-parallelism", 64)
    (line,) = [each for each in out.splitlines() if each.startswith("fails:")]
    assert line.startswith(f"fails: {len(names)} operators: ")
    assert [name for name in names if name not in line] == []


@SAVEPOINTS
def test_a_job_without_an_operator_fails_unless_that_is_allowed(version: str, case: str) -> None:
    folder = values(version) / case
    checkpoint = kit.open_checkpoint(folder)
    stored = [each for each in checkpoint.operators["uid"] if each]
    first, *others = stored or values_truth(version, case)["operators"]
    dropped = called(checkpoint, first)
    uids = [text for uid in others for text in ("--uid", f"{uid}=2")]
    code, out, _ = ran("check", folder, *uids)
    assert code == 1
    assert f"fails: {dropped}" in out
    code, out, _ = ran("check", folder, *uids, "--allow-non-restored-state")
    assert code == 3, "the job is restored, but state is lost"
    assert f"warns: {dropped}" in out


def test_check_exits_with_1_only_where_the_job_would_not_restore(tmp_path: Path) -> None:
    folder = longs(tmp_path / "chk-1", np.arange(5), 8)
    assert ran("check", folder)[0] == 0
    assert ran("check", folder, "--uid", "sums=2")[0] == 0
    assert ran("check", folder, "--uid", "other=2")[0] == 1
    assert ran("check", folder, "--uid", "other=2", "--allow-non-restored-state")[0] == 3
    (tmp_path / "retained").write_text("[1")
    code, _, err = ran("check", folder, "--retained", tmp_path / "retained")
    assert (code, err.count("\n")) == (2, 1), "what cannot be asked is no answer"


def test_each_operator_and_each_type_that_is_named_is_checked(tmp_path: Path) -> None:
    long = snapshot(BASE + LONG)
    head = header_of(dict.fromkeys(("first", "second", "third"), ("VALUE", long)))
    folder = native(tmp_path / "chk-1", head, [[struct.pack(">i", 0)] * 3 for _ in range(8)])
    options = ["check", folder, "--uid", "sums=2", "--uid", "new=3:64", "--uid", "newer=1"]
    code, out, _ = ran(*options)
    assert code == 0
    for name, after in (("new", "3"), ("newer", "1")):
        (line,) = [each.split() for each in out.splitlines() if each.startswith(f"{name} ")]
        assert line[:2] == [name, "new"]
        assert after in line
    types = [text for name in ("first", "second") for text in ("--type", f"sums/{name}=String")]
    code, out, _ = ran(*options, *types, "--json")
    failing = [row["found"] for row in map(json.loads, out.splitlines()) if row["severity"] == "fails"]
    assert (code, [found.partition(" changed")[0] for found in failing]) == (
        1,
        ["The values of state 'first'", "The values of state 'second'"],
    )
    assert ran(*options, *types[:2], "--type", "sums/second=Long", "--json")[0] == 1
    assert ran(*options, "--type", "sums/first=Long", "--type", "sums/second=Long")[0] == 0


@SAVEPOINTS
def test_a_newer_checkpoint_stands_for_the_job(version: str, case: str) -> None:
    folder = values(version) / case
    assert ran("check", folder, "--against", folder)[0] == 0
    code, _, err = ran("check", folder, "--against", folder, "--uid", "x=1")
    assert code == 2
    assert "not both" in err


@pytest.mark.parametrize("wrong", ["x", "x=", "=2", "x=two", "x=2:many"])
@SAVEPOINTS
def test_a_uid_of_no_form_is_refused(version: str, case: str, wrong: str) -> None:
    code, _, err = ran("check", values(version) / case, "--uid", wrong)
    assert code == 2
    assert "UID=PARALLELISM" in err


def test_advise_says_what_helps_and_that_there_is_something_to_do() -> None:
    code, out, _ = ran("advise", ANSWERS / "expired.json")
    assert code == 1
    assert "12 of 24 subtasks were not done" in out
    code, out, _ = ran("advise", ANSWERS / "unaligned.json")
    assert code == 0
    code, out, _ = ran("advise", ANSWERS / "unaligned.json", "--failures-every-s", 3_600)
    shares = [[cell for cell in line.split() if cell.endswith("%")] for line in out.splitlines()[2:]]
    assert (code, [len(each) for each in shares]) == (0, [4] * 5), "each share of each interval is a percentage"
    code, out, _ = ran("advise", ANSWERS / "expired.json", "--json")
    assert [json.loads(line)["symptom"] for line in out.splitlines()] == ["expired", "backpressure"]
    code, _, err = ran("advise", "no-such-file")
    assert code == 2
    assert err.startswith("kit: no-such-file cannot be read as saved figures")


@SAVEPOINTS
def test_verify_names_damaged_files_and_exits_with_one(version: str, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(values(version) / case, folder)
    code, out, _ = ran("verify", folder)
    assert code == 0
    assert "No damage found; files checked: " in out
    code, out, _ = ran("verify", folder, "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["result"] for row in rows} == {"sound"}
    assert len({row["file"] for row in rows}) == len(kit.open_checkpoint(folder).verify().files["file"].unique())
    largest = Path(max(rows, key=lambda row: row["bytes"] * (not row["file"].endswith("_metadata")))["file"])
    largest.write_bytes(largest.read_bytes()[:-1])
    code, out, _ = ran("verify", folder)
    assert code == 1
    assert largest.name in next(line for line in out.splitlines() if line.startswith("damaged: "))
    assert "was cut off" in out


@pytest.mark.parametrize("version", [version for version, case in checkpoint_cases() if case == "changelog-mem"])
def test_verify_exits_with_three_if_something_was_not_read(version: str) -> None:
    folder = next((checkpoints(version) / "changelog-mem").rglob("_metadata")).parent
    code, out, _ = ran("verify", folder)
    assert code == 3
    assert "not read: " in out
    assert "this keyed state is a changelog" in out
