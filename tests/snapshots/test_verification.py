"""The check of a whole checkpoint: damage is named with its file, and what was not read is told apart from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit.core.state.errors import CheckpointError
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.hosts.lab.lab import Lab
from kit.snapshots.checkpoints.state_bytes import How
from kit.snapshots.checkpoints.verification import Result, Verification, VerifiedFile
from kit.snapshots.leaf_streams import streams_of
from tests.flink_data import checkpoint_cases, checkpoints, kryo_cases, value_cases, values
from tests.properties import examples_of_each
from tests.snapshots.test_checksums import CASES as WITH_CHECKSUMS
from tests.snapshots.test_checksums import states, summed, whole

SEVERAL = sorted({case: (version, case) for version, case in value_cases()}.values())


def results(found: Verification) -> set[tuple[str, str | None, str]]:
    return {(each.kind, each.checked, each.result) for each in found.verified}


def files_of(folder: Path) -> set[str]:
    """Return the names of the files with state that the metadata refers to."""
    streams = streams_of(kit.open_checkpoint(folder).metadata)
    return {each.path.rpartition("/")[2] for each in streams if each.path and each.state_size}


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_what_flink_wrote_is_sound_and_every_file_was_read(version: str, case: str) -> None:
    folder = values(version) / case
    found = kit.open_checkpoint(folder).verify()
    assert found.is_sound
    assert found.damaged == found.not_read == ()
    assert {Path(each.file).name for each in found.verified} >= files_of(folder)
    hows = {how for kind, how, _ in results(found) if kind == "keyed"}
    tables = "IncrementalRemoteKeyedStateHandle" in set(kit.open_checkpoint(folder).handles["type"])
    assert (How.CHECKSUMS in hows) == ("compressed" in case or tables)
    assert "No damage found; files checked: " in found.verdict


@pytest.mark.parametrize(("version", "case"), checkpoint_cases())
def test_only_changelogs_are_not_read(version: str, case: str) -> None:
    for metadata in (checkpoints(version) / case).rglob("_metadata"):
        found = kit.open_checkpoint(metadata.parent).verify()
        assert found.damaged == ()
        assert {each.problem[:20] for each in found.not_read} <= {"this keyed state is ", "the checkpoint refer"}
        assert bool(found.not_read) == case.startswith("changelog")
        assert found.verdict.count("not read") == bool(found.not_read)


def test_values_that_only_java_reads_are_not_damaged() -> None:
    for folder in kryo_cases():
        for metadata in folder.rglob("_metadata"):
            assert kit.open_checkpoint(metadata.parent).verify().damaged == (), folder.name


@pytest.mark.parametrize(("version", "case"), WITH_CHECKSUMS)
@settings(max_examples=examples_of_each(30), deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_each_changed_bit_with_a_checksum_is_found_in_its_file(version: str, case: str, random: Random) -> None:
    folder = values(version) / case
    if whole(version, case) is None or not summed(folder):
        return
    file, begin, end = random.choice(summed(folder))
    place = random.randrange(begin, end)
    before = file.read_bytes()
    changed = bytearray(before)
    changed[place] ^= 1 << random.randrange(8)
    try:
        file.write_bytes(changed)
        found = kit.open_checkpoint(folder).verify()
        if not found.damaged:  # other compressed bytes may stand for the same
            assert states(folder) == whole(version, case)
            return
    except CheckpointError:  # the metadata itself cannot be read any more
        assert file.name == "_metadata"
        return
    finally:
        file.write_bytes(before)
    assert {Path(each.file).name for each in found.damaged} == {file.name}
    assert all(repr(each.file) in each.problem and ", byte " in each.problem for each in found.damaged)
    assert "1 file is damaged; " in found.verdict


@pytest.mark.parametrize(("version", "case"), SEVERAL)
def test_missing_short_and_foreign_files_are_told_apart(version: str, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(values(version) / case, folder)
    names = sorted(files_of(folder))
    if len(names) < 2:
        return
    paths = [next(folder.rglob(name)) for name in names[:2]]
    paths[0].unlink()
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    found = kit.open_checkpoint(folder).verify()
    others = [each for each in found.not_read if Path(each.file).name not in names[:2]]
    assert all(any(f"cannot be: {name!r}" in each.problem for name in names[:2]) for each in others)
    assert {Path(each.file).name for each in found.verified} >= set(names)
    assert {Path(each.file).name for each in found.damaged} <= set(names[:2])
    problems = {Path(each.file).name: each.problem for each in (*found.damaged, *found.not_read)}
    assert "is missing: copy it back" in problems[names[0]] or "which is outside its directory" in problems[names[0]]
    assert "it was cut off" in problems[names[1]]
    assert names[1] in {Path(each.file).name for each in found.damaged}
    assert "damaged" in found.verdict


def newest_of(lab: Lab) -> kit.Checkpoint:
    """Return the newest checkpoint of a lab, opened on its disk."""
    path = str(lab.checkpoints().query("status == 'COMPLETED'").sort_values("id")["path"].iloc[-1])
    return kit.open_checkpoint(path, file_system=lab.look.files.filesystem)


def test_runs_of_the_kit_are_checked_and_a_damaged_one_is_named() -> None:
    lab = Lab(ready_job("counters", rows=110, rows_per_second=100, memory_threshold_bytes=0, incremental=True))
    for at_ms in (405, 505, 605):
        lab.run_until(at_ms=at_ms)
        lab.trigger_checkpoint()
        lab.run_until(record="CheckpointCompleted")
    checkpoint = newest_of(lab)
    found = checkpoint.verify()
    assert found.is_sound
    runs = [each for each in found.verified if each.kind == "keyed"]
    assert len({each.file for each in runs}) >= 3
    assert {each.checked for each in runs} == {How.LAYOUT}
    damaged = runs[1].file
    lab.look.files.contents[damaged] = b"\0" * len(lab.look.files.contents[damaged])
    assert {each.file for each in newest_of(lab).verify().damaged} == {damaged}


def test_rows_in_flight_of_the_kit_are_compared_with_their_checksums() -> None:
    job = ready_job("keyed-sum", unaligned=True, force_unaligned=True, memory_threshold_bytes=0, rows=200)
    lab = Lab(job, seed=3)
    lab.run_until(record="AllTasksRunning")
    while not any(each.kind == "input channel" for each in (newest_of(lab).verify().verified if taken(lab) else ())):
        lab.trigger_checkpoint()
        lab.run_until(record="CheckpointCompleted")
    found = newest_of(lab).verify()
    in_flight = [each for each in found.verified if each.kind.endswith("channel")]
    assert {(each.checked, each.result) for each in in_flight} == {(How.CHECKSUMS, Result.SOUND)}
    file, contents = in_flight[0].file, lab.look.files.contents
    contents[file] = contents[file][:-12] + b"\xff" + contents[file][-11:]
    assert [each.file for each in newest_of(lab).verify().damaged].count(file) > 0


def taken(lab: Lab) -> bool:
    return bool((lab.checkpoints()["status"] == "COMPLETED").any())


def test_each_file_is_told_as_it_is_read() -> None:
    version, case = SEVERAL[0]
    seen: list[VerifiedFile] = []
    found = kit.open_checkpoint(values(version) / case).verify(seen.append)
    assert tuple(seen) == found.verified
    frame = found.to_pandas()
    assert frame["file"].tolist() == [each.file for each in seen]
    assert set(frame["result"]) == {Result.SOUND}
    assert repr(found) == f"Verification({found.verdict})"
