"""The contents of a snapshot, read from its files and from a trace, compared with the known contents."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit.core.trace.trace import Trace
from kit.draw.views.checkpoints.snapshot_contents import MOST_BARS, snapshot_contents, snapshot_view
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.run.subject import Subject
from kit.snapshots.pieces import HEADER, SHARED
from kit.snapshots.source import inline_bytes
from kit.snapshots.state_tables import KEYED, UNION
from kit.snapshots.values import positions, rows_in_flight
from tests.flink_data import checkpoint_cases, checkpoints, uids_of, value_cases, values, values_truth


def _lab(checkpoint: int = 2, name: str = "keyed-sum", **settings: Any) -> Lab:
    lab = Lab(ready_job(name, interval_ms=20, rows=60, **settings), seed=1)
    lab.run_until(checkpoint=checkpoint)
    return lab


# --- what is known of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unaligned", [False, True])
def test_all_that_was_read_before_its_positions_is_in_it_once(unaligned: bool) -> None:
    contents = snapshot_contents(_lab(unaligned=unaligned), 2)
    rows = [{"k": "abcd"[n % 4], "n": n} for n in range(60)]
    read = {name: position for _, split, position in positions(contents.values) for name in [json.loads(split)["id"]]}
    assert 0 < len(read) <= 2, "a split that was read to its end has no position"
    before = rows[: read.get("rows-0", 30)] + rows[30 : 30 + read.get("rows-1", 30)]
    kept = [json.loads(row["record"]) for row in rows_in_flight(contents.values)]
    counted = {row["key"]: row["value"] for row in contents.values.of(KEYED)[0].rows.to_pylist()}
    for key in "abcd":
        mine = [row["n"] for row in before if row["k"] == key]
        waiting = [row["n"] for row in kept if row["k"] == key]
        assert counted[key]["rows"] + len(waiting) == len(mine)
        assert counted[key]["total"] + sum(waiting) == sum(mine)
    assert bool(kept) == unaligned


def test_keyed_state_is_as_it_was_when_it_was_copied() -> None:
    lab = _lab()
    found = snapshot_contents(lab).values["totals"]
    for task in ("sums/0", "sums/1"):
        then = lab.fork()
        copied = next(
            position
            for position in range(1, lab.position + 1)
            if any(
                r.kind == "WriteSnapshot" and r.machine == task and r.checkpoint_id == 2
                for r in then.goto(position).trace.since(len(then.trace) - 12)
            )
        )
        held = lab.state(task, position=copied)["totals"].sort_values("key").values.tolist()
        assert found[found.task == task].sort_values("key").values.tolist() == held


def known(*names: str) -> pytest.MarkDecorator:
    """Run a test for each snapshot of these names whose values are known, of each version."""
    return pytest.mark.parametrize(("version", "case"), [each for each in value_cases() if each[1] in names])


@known("checkpoint-hashmap", "savepoint-canonical")
def test_flinks_list_entries_are_where_it_is_said(version: str, case: str) -> None:
    contents, truth = snapshot_contents(values(version) / case), values_truth(version, case)
    states = truth["operators"]["operator-state"]["operatorStates"]
    frame = _with_uids(contents.to_pandas(), truth)
    for name, state in states.items():
        own = frame[(frame.operator == "operator-state") & (frame.name == name)]
        if state["mode"] == "BROADCAST":
            assert own.groupby("subtask").size().tolist() == [1, 1, 1]
            continue
        counts = {int(subtask): len(entries) for subtask, entries in state["subtasks"].items() if entries}
        assert own.groupby("subtask").size().to_dict() == counts
    snapshot = contents.snapshot
    assert snapshot is not None
    inline = inline_bytes(snapshot.metadata) if snapshot.metadata else {}
    for piece in snapshot.pieces:
        if piece.name == "split-list":
            assert snapshot.files is not None
            data = inline[piece.file] if piece.inline else snapshot.files.read(piece.file).to_pybytes()
            assert piece.entry is not None
            expected = int(states["split-list"]["subtasks"][str(piece.subtask)][piece.entry])
            assert struct.unpack(">q", data[piece.start : piece.start + 8]) == (expected,)


@known("savepoint-canonical")
def test_flinks_key_groups_have_bytes_where_they_have_rows(version: str, case: str) -> None:
    truth = values_truth(version, case)
    frame = _with_uids(snapshot_contents(values(version) / case).to_pandas(), truth)
    for uid, operator in truth["operators"].items():
        states = [*operator.get("states", {}).values(), *operator.get("timers", {}).values()]
        groups = {row["key_group"] for state in states for row in state["rows"]}
        own = frame[(frame.operator == uid) & (frame.kind == "keyed state")]
        assert set(own.key_group) == groups, uid


def _with_uids(frame: pd.DataFrame, truth: dict[str, Any]) -> pd.DataFrame:
    return frame.assign(operator=frame.operator.map(uids_of(truth)))


@known("checkpoint-hashmap")
def test_all_that_flink_wrote_is_shown(version: str, case: str) -> None:
    contents, truth = snapshot_contents(values(version) / case), values_truth(version, case)
    uids = uids_of(truth)
    shown = {(uids[table.operator], table.name): table.rows.num_rows for table in contents.values.tables}
    for uid, operator in truth["operators"].items():
        for name, state in operator.get("states", {}).items():
            rows = {json.dumps({**row, "list_index": 0, "value": 0}) for row in state["rows"] if not row.get("empty")}
            if state["kind"] != "LIST":
                assert shown.get((uid, name), 0) == len(rows), f"{uid}.{name}"
    assert contents.values.note == ""
    assert "Keyed state pojo of " in contents._repr_html_()


@pytest.mark.parametrize("name", ["counters", "every-kind", "sessions", "windows"])
def test_runs_together_have_the_values_of_a_full_checkpoint(name: str) -> None:
    """Later runs change entries, and remove entries and timers of windows, of the first."""
    full, incremental = (snapshot_contents(_lab(2, name, incremental=each), 2) for each in (False, True))
    pieces = incremental.to_pandas()
    assert pieces[pieces["kind"] == SHARED].groupby("subtask").size().max() == 2
    found, expected = (
        {(each.kind, each.operator, each.name): each.rows for each in contents.values}
        for contents in (incremental, full)
    )
    assert found == expected
    assert not incremental.values.note


def test_a_trace_alone_tells_the_runs_that_a_checkpoint_reuses() -> None:
    lab = _lab(2, "counters", incremental=True)
    known, told = snapshot_contents(lab, 2), snapshot_contents(lab.trace, 2)
    frames = [each.to_pandas().query("kind == @SHARED") for each in (known, told)]
    runs = [set(zip(each["file"], each["bytes"], strict=True)) for each in frames]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 4
    assert "counters/0: runs" in known._repr_html_()
    assert "LSM" not in known._repr_html_()


# --- where everything is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "case"), checkpoint_cases())
def test_pieces_of_a_file_follow_one_another_without_a_gap(version: str, case: str) -> None:
    folder = max((checkpoints(version) / case).rglob("_metadata")).parent
    contents = snapshot_contents(folder)
    snapshot = contents.snapshot
    assert snapshot is not None
    ranges: dict[tuple[str, bool], set[tuple[int, int]]] = {}
    for piece in snapshot.pieces:
        ranges.setdefault((piece.file, piece.inline), set()).add((piece.start, piece.end))
    for found in ranges.values():
        ordered = sorted(found)
        assert all(one[1] <= other[0] for one, other in pairwise(ordered))
    assert snapshot.sections[0].start == 0
    assert all(one.end == other.start for one, other in pairwise(snapshot.sections))
    assert snapshot.sections[-1].end == (folder / "_metadata").stat().st_size
    held = inline_bytes(snapshot.metadata) if snapshot.metadata else {}
    data = (folder / "_metadata").read_bytes()
    for name, start in snapshot.inline_at.items():
        assert data[start : start + len(held[name])] == held[name]
    assert contents._repr_html_().count("</svg>") == 1


def test_all_bytes_of_our_files_are_accounted_for() -> None:
    lab = _lab(unaligned=True)
    frame = snapshot_contents(lab).to_pandas()
    by_file = frame[~frame.inline].drop_duplicates(["file", "start"]).groupby("file").bytes.sum()
    real = {
        path: len(data)
        for path, data in lab.look.files.contents.items()
        if "/chk-2/" in path and "_metadata" not in path
    }
    assert by_file.to_dict() == real
    assert (frame.kind == HEADER).sum() == len(real)


# --- as it comes into being -------------------------------------------------------------------------------------------


def test_parts_appear_as_they_are_copied_written_and_acknowledged() -> None:
    lab = _lab(1)
    sizes, phases = [], []
    for n in range(0, len(lab.trace), 20):
        contents = snapshot_contents(lab, n=n)
        progress = contents.progress()
        sizes.append(contents.to_pandas().bytes.sum())
        phases.append([int(progress[column].notna().sum()) for column in ("copied_ms", "written_ms", "acked_ms")])
    assert sizes == sorted(sizes)
    assert phases == sorted(phases)
    assert all(copied >= written >= acked for copied, written, acked in phases)
    assert phases[-1] == [4, 4, 4]
    some = next(n for n in range(len(lab.trace)) if _is_being_written(lab, n))
    html = snapshot_contents(lab, n=some)._repr_html_()
    assert "copied, being written" in html
    assert "not written yet" in html
    assert "No checkpoint has begun yet" in snapshot_contents(lab, n=0)._repr_html_()


def _is_being_written(lab: Lab, n: int) -> bool:
    progress = snapshot_contents(lab, n=n).progress()
    return bool(len(progress)) and bool((progress.copied_ms.notna() & progress.written_ms.isna()).any())


def test_a_trace_alone_tells_the_layout_and_what_is_missing(tmp_path: Path) -> None:
    lab = _lab()
    lab.trace.save(tmp_path / "run.jsonl")
    alone = snapshot_contents(Trace.load(tmp_path / "run.jsonl"))
    whole = snapshot_contents(lab).to_pandas()
    mine = alone.to_pandas()
    assert set(mine[~mine.inline].file) == set(whole[~whole.inline].file)
    assert "are gone, or cannot be read from here" in alone.under
    assert len(alone.values) == 0


def test_a_subsumed_checkpoint_says_which_took_its_place() -> None:
    lab = _lab(3)
    position = lab.position
    seen = snapshot_view(Subject(lab, None, 1))
    assert "checkpoint 2 took its place. They are shown as they were" in seen.under
    assert "Which records are in it" in seen._repr_html_()
    assert lab.position == position
    alone = snapshot_contents(lab, 1)
    assert "checkpoint 2 took its place. The trace tells what they held." in alone.under
    assert len(alone.to_pandas()) > 0


def test_union_state_is_in_it_once_for_each_subtask_that_had_it() -> None:
    lab = _lab(name="union-state", restart=3)
    before = snapshot_contents(lab).values.of(UNION)[0].rows.num_rows
    lab.faults.kill(0)
    lab.run_until(checkpoint=4)
    after = snapshot_contents(lab).values.of(UNION)[0].rows
    assert after.num_rows >= 2 * before, "each of two subtasks handed in all entries"


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="there is no checkpoint 9; there are 1, 2"):
        snapshot_contents(_lab(), 9)


@known("savepoint-canonical")
def test_many_files_are_folded(version: str, case: str) -> None:
    contents = snapshot_contents(values(version) / case)
    html = contents._repr_html_()
    frame = contents.to_pandas()
    assert len(frame.drop_duplicates(["file", "inline"])) > MOST_BARS
    assert html.count('class="sn-arrow"') <= MOST_BARS + 1
    assert "smaller ones" in html
