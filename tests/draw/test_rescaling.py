"""The state that each subtask receives in a restore, compared with the lab's state afterwards and with Flink's data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kit.draw.views.rescaling import rescaling, rescaling_view
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.run.subject import Subject
from kit.snapshots.state_tables import IN_FLIGHT, KEYED, SOURCE, UNION
from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator
from tests.draw.labs import lab_of, letters


def _restored(name: str, before: int, after: int, **settings: Any) -> Lab:
    """A run at another parallelism that has just been given the state of the first one's second checkpoint."""
    settings = {"interval_ms": 20, "rows": 60, "memory_threshold_bytes": 0, **settings}
    lab = Lab(ready_job(name, parallelism=before, **settings), seed=1)
    lab.run_until(checkpoint=2)
    path = lab.checkpoints().path[0]
    other = Lab(ready_job(name, parallelism=after, **settings), seed=1, restore_path=path, after=lab)
    other.run_until(record="StateAssigned")
    while sum(record.kind == "StateRead" for record in other.trace) < len(other._world.tasks):
        other.step(next(a for a in other.enabled() if "ReadState" in a.key or "DeployTask" in a.key))
    return other


KEPT = ("Buffer", "Watermark")
"""What an unaligned checkpoint takes along here."""


def _rows(lab: Lab, kind: str, task: str | None = None) -> list[dict[str, Any]]:
    return [row for table in lab.state(task).of(kind) for row in table.rows.to_pylist()]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_a_key_is_where_it_is_said_to_have_gone(before: int, after: int) -> None:
    lab = _restored("keyed-sum", before, after, max_parallelism=128)
    found = rescaling(lab)
    now = {row["key"]: row["task"] for row in _rows(lab, KEYED)}
    assert len(now) == 4
    for key, task in now.items():
        (move,) = found.where(key)
        assert f"sums/{move.new}" == task
        assert move.old == assign_key_to_parallel_operator(key, 128, before)
    keys = found.keys().set_index("key")
    assert {key: f"sums/{keys.loc[key, 'to']}" for key in keys.index} == now
    assert f"it was with sums/{move.old}" in str(move) or f"sums/{move.new} had it" in str(move)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_buffers_in_flight_are_recovered_where_it_is_said(before: int, after: int) -> None:
    lab = _restored("keyed-sum", before, after, unaligned=True)
    found = rescaling(lab).to_pandas()
    arrived = found[found.kind == "in flight, arrived"]
    readers = arrived.groupby(["file", "start"])["to"].transform("nunique")
    assert arrived.filtered.tolist() == (readers > 1).tolist(), "what several are given each must filter"
    assert arrived.filtered.any()
    waiting = Counter(
        row["task"] for row in _rows(lab, IN_FLIGHT) if row["place"].startswith("recovered") and row["kind"] in KEPT
    )
    assert Counter(f"sums/{new}" for new in arrived.to) == waiting
    assert "dashed: given to several" in rescaling(lab)._repr_html_()
    assert rescaling(lab).restore is not None
    assert {task for task, _ in rescaling(lab).restore.mappings} >= {f"sums/{n}" for n in range(after)}  # type: ignore[union-attr]


def test_split_entries_go_to_one_and_union_entries_to_all() -> None:
    lab = _restored("union-state", 3, 2)
    frame = rescaling(lab).to_pandas()
    union = frame[frame.kind == "union list state"]
    assert union.groupby("to").size().tolist() == [len(_rows(lab, UNION, f"memory/{n}")) for n in (0, 1)]
    assert all(sorted(group.to) == [0, 1] for _, group in union.groupby(["file", "start"]))
    split = frame[frame.kind == "split list state"]
    assert not split.duplicated(["operator", "file", "start"]).any()
    assert f"all {len(union) // 2} entries" in rescaling(lab)._repr_html_()


def test_pairs_are_the_pieces_put_together() -> None:
    found = rescaling(_restored("union-state", 2, 3))
    pairs = found.pairs("memory").set_index(["from", "to"])
    assert set(pairs.index) == {(old, new) for old in range(2) for new in range(3)}
    entries = [pairs["pieces"].xs(new, level="to").sum() for new in range(3)]
    assert len(set(entries)) == 1
    assert sum(entries) == (found.to_pandas()["operator"] == "memory").sum() > 0
    assert found.pairs()["bytes"].sum() == found.to_pandas()["bytes"].sum()
    assert list(found.pairs("nobody").columns) == list(found.pairs().columns)


def test_a_key_that_is_typed_in_is_found_in_the_explorers_view() -> None:
    lab = _restored("keyed-sum", 2, 3, max_parallelism=128)
    (move,) = rescaling(lab).where("UA")
    html = rescaling_view(Subject(lab, asked="UA"))._repr_html_()
    assert f"Key &#x27;UA&#x27; of sums is in key group {move.key_group} of 128" in html
    assert "UA" not in rescaling_view(Subject(lab))._repr_html_()
    assert rescaling(lab).find("7").key == "7", "the keys are strings"


def test_readers_that_get_nothing_are_named() -> None:
    lab = _restored("keyed-sum", 2, 4)
    sources = next(deal for deal in rescaling(lab).deals if deal.operator == "letters")
    idle = [n for n in range(4) if not _rows(lab, SOURCE, f"letters/{n}")]
    assert sources.readers_of_nothing == idle != []
    assert f"got nothing: letters/{idle[0]}" in rescaling(lab)._repr_html_()


def test_bytes_are_those_of_the_files() -> None:
    lab = _restored("keyed-sum", 2, 3)
    found = rescaling(lab)
    (keyed,) = [deal for deal in found.deals if deal.kind == "keyed state"]
    files = {file: len(data) for path, data in lab.look.files.contents.items() for file in [path.rpartition("/")[2]]}
    for file in {each.entry[0] for each in keyed.transfers}:
        mine = [each for each in keyed.transfers if each.entry[0] == file]
        assert max(each.entry[1] + each.size for each in mine) == files[file]
    shares = found.subtasks()
    assert shares[shares.kind == "keyed state"].share.mean() == pytest.approx(1.0)
    assert keyed.skew == pytest.approx(shares[shares.kind == "keyed state"].share.max())


def test_what_went_to_the_job_master_is_told() -> None:
    assert "coordinator of letters: 28 B" in rescaling(_restored("keyed-sum", 2, 3))._repr_html_()


def test_a_failure_is_a_restore_too() -> None:
    lab = lab_of(seed=2, memory_threshold_bytes=0)
    lab.run_until(checkpoint=1)
    assert "Nothing has been restored yet" in rescaling_view(Subject(lab))._repr_html_()
    lab.faults.kill(0)
    lab.run()
    found = rescaling(lab)
    (keyed,) = [deal for deal in found.deals if deal.kind == "keyed state"]
    assert all(each.old == each.new for each in keyed.transfers)
    assert "nothing changed hands" in found._repr_html_()
    with pytest.raises(ValueError, match="epoch 1 began with no restore; epochs that did: 2"):
        rescaling(lab, 1)
    with pytest.raises(ValueError, match="no keyed operator has a key 5"):
        found.where(5)


def test_of_several_restores_the_last_is_shown_unless_another_epoch_is_named() -> None:
    lab = lab_of(seed=2, rows=120, memory_threshold_bytes=0)
    for number, parallelism in enumerate((3, 1), 1):
        lab.run_until(checkpoint=number)
        lab.rescale({"totals": parallelism})
        lab.run_until(record="AllTasksRunning")
    epochs = [record.data["epoch"] for record in lab.trace.story(kind="StateAssigned")]
    assert len(epochs) == 2
    for found in (rescaling(lab), rescaling(lab, epochs[1]), rescaling_view(Subject(lab))):
        assert found.restore is not None
        assert found.restore.epoch == epochs[1]
        assert [(deal.before, deal.after) for deal in found.deals if deal.kind == "keyed state"] == [(3, 1)]
    (first,) = [deal for deal in rescaling(lab, epochs[0]).deals if deal.kind == "keyed state"]
    assert (first.before, first.after) == (2, 3)
    with pytest.raises(ValueError, match=f"epoch 9 began with no restore; epochs that did: {epochs[0]}, {epochs[1]}"):
        rescaling(lab, 9)


def test_as_a_graph() -> None:
    """The subtasks are in order, also those without state, and keyed state is named by key groups."""
    found = rescaling(_restored("keyed-sum", 2, 3, max_parallelism=8))
    graph = found.graph("sums", "keyed state")
    assert [node.lines for node in graph.nodes if node.meaning == "quiet"] == [
        ("sums: keyed state", "before: 2 subtasks"),
        ("sums: keyed state", "now: 3 subtasks"),
        ("sums/1", "key groups 3–5", "no keyed state"),
    ]
    names = {node.name: node.lines[0] for node in graph.nodes}
    assert [[names[name] for name in row] for row in graph.rows] == [
        ["sums: keyed state", "sums/0", "sums/1"],
        ["sums: keyed state", "sums/0", "sums/1", "sums/2"],
    ]
    pairs = found.pairs("sums")
    assert [edge.lines[0].partition(" ")[0] for edge in graph.edges[1:]] == [str(each) for each in pairs["pieces"]]
    assert "sums/2" in found.dot("sums").source
    deals = len(found.deals)
    assert len(found.graph().edges) == deals + len(found.pairs())
    with pytest.raises(
        ValueError,
        match=r"this restore has no state of sum; it has: split list state of letters, .*keyed state of sums",
    ):
        found.graph("sum")


def test_many_subtasks_as_a_graph_share_boxes() -> None:
    """24 subtasks become 16, and the picture is as wide as that of three."""
    env = ready_job("keyed-sum", parallelism=24, rows=24, max_parallelism=48)
    lab = Lab(env, seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    path = lab.checkpoints().path[0]
    other = Lab(ready_job("keyed-sum", parallelism=16, max_parallelism=48), restore_path=path, after=lab)
    other.run_until(record="StateAssigned")
    graph = rescaling(other).graph("sums", "keyed state")
    boxes = [node.lines for node in graph.nodes if node.lines[0].startswith("sums/")]
    assert [lines[:2] for lines in boxes[:2]] == [("sums/0–2", "key groups 0–5"), ("sums/3–5", "key groups 6–11")]
    assert len(boxes) == 16
    assert graph.placed.width < 900
    down = [box.y for node, box in zip(graph.nodes, graph.placed.nodes) if node.name.startswith("0-new")]
    assert down == sorted(down)


def test_128_subtasks_stay_readable() -> None:
    lab = Lab(letters(rows=200, parallelism=40), seed=1)
    lab.run_until(checkpoint=1)
    other = Lab(letters(rows=200, parallelism=128), seed=1, restore_path=lab.checkpoints().path[0], after=lab)
    other.run_until(record="StateAssigned")
    html = rescaling(other, key="b")._repr_html_()
    assert "▲ the fullest was given" in html
    assert html.count('class="rs-skew"') < 8
    assert "Key &#x27;b&#x27; of totals is in key group 22 of 128" in html
