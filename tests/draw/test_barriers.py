"""The senders whose barriers each task waits for, at moments where they are known: scenarios, and runs in the lab."""

from __future__ import annotations

import pandas as pd
import pytest

from kit.core.trace.trace import Trace, keeps_record
from kit.draw.views.barriers import barriers
from kit.hosts.lab import Lab, open_scenario
from kit.run.moments.moment import moments
from tests.draw.geometry import crossings
from tests.draw.labs import lab_of, letters
from tests.draw.test_chains import texts


@pytest.fixture(scope="module")
def unaligned() -> Lab:
    lab = lab_of(3, rows=80, unaligned=True)
    lab.run()
    return lab


def played(name: str, blocks: int) -> Lab:
    scenario = open_scenario(name)
    for _ in range(blocks):
        scenario.next()
    lab: Lab = scenario.lab
    return lab


def test_a_closed_channel_says_what_it_waits_for_down_to_the_message() -> None:
    view = barriers(played("alignment", 2))
    assert view.answer() == (
        "Checkpoint 1: sums/0 waits for the barrier of right/0, which is not sent yet. Until then sums/0 blocks the "
        "channel of left/0. It comes down to this: the JobMaster's trigger to right/0 has been under way "
        "for 67 ms."
    )
    graph = view.graph()
    ways = {(edge.source, edge.target): edge.lines for edge in graph.edges}
    assert ways["left/0", "sums/0"] == ("channel blocked", "4 buffers (4 records, 52 B) held back")
    assert ways["sums/0", "right/0"] == ("waits for barrier 1", "not sent")
    assert ways["right/0", "end0"] == ()
    assert [node.lines[0] for node in graph.nodes] == ["sums/0", "right/0", "left/0", "message under way"]
    assert "has 1 of 2 barriers" in texts(view.svg())
    assert repr(view) == "Barriers(checkpoint 1: 1 task waits for barriers)"


def test_a_barrier_behind_buffers_counts_them() -> None:
    view = barriers(played("alignment", 1))
    table = view.to_pandas().set_index("source")
    assert table.loc["left/0", ["barrier", "buffers_before", "records_before", "bytes_before"]].tolist() == [
        "in the sender's queue",
        2,
        2,
        26,
    ]
    assert table.loc["right/0", "barrier"] == "not sent"
    assert "sums/0 has 2 buffers (2 records, 26 B) of left/0 to process before it grants a credit" in view.answer()
    assert ("sums/0", "end0") in {(edge.source, edge.target) for edge in view.graph().edges}


def test_the_scenario_and_the_view_agree_with_why() -> None:
    lab = played("alignment", 2)
    root = lab.why("left/0 -> sums/0").roots[0].says
    assert root.replace(" for checkpoint 1", "") in barriers(lab).answer()


def test_alignment_is_measured_by_channel() -> None:
    lab = played("alignment", 3)
    table = barriers(lab).to_pandas().set_index("source")
    first, last = (
        next(r.at_ms for r in lab.trace if r.kind == "BarrierAligned" and r.data["channel"] == number)
        for number in (0, 1)
    )
    assert table.waited_ms.tolist() == [0, last - first]
    assert table.blocked_ms.tolist() == [last - first, 0]
    assert (table.barrier == "taken").all()
    assert barriers(lab).wait_for.waits == ()


def test_what_a_barrier_overtook_is_what_the_checkpoint_kept(unaligned: Lab) -> None:
    """A barrier that goes ahead in its receiver's queue leaves behind it what the receiver must keep."""
    table = barriers(unaligned, checkpoint=1).to_pandas()
    assert table.buffers_overtaken.sum() > 0
    assert (table.buffers_overtaken == table.records_overtaken).all()
    assert (table.bytes_overtaken == 13 * table.buffers_overtaken).all()
    assert (table.blocked_ms == 0).all()
    written = [
        (record.data["task"], record.data["request"]["elements"])
        for record in unaligned.trace
        if record.kind == "SubmitChannelState"
        and record.role == "command"
        and record.checkpoint_id == 1
        and record.data["request"]["type"] == "WriteOutputRequest"
    ]
    kept = sum(buffers for _, buffers in written)
    assert table.buffers_overtaken.sum() >= kept


def test_aligned_barriers_overtake_nothing() -> None:
    lab = lab_of(3, rows=80)
    lab.run()
    assert barriers(lab, checkpoint=1).to_pandas().buffers_overtaken.sum() == 0


def test_each_wait_ends_somewhere_at_every_moment() -> None:
    lab = lab_of(5, rows=60, parallelism=3)
    lab.run()
    waiting = [moment.n for moment in moments(lab) if moment.pending]
    seen = 0
    for n in waiting[:: max(1, len(waiting) // 40)]:
        view = barriers(lab, n)
        seen += bool(view.wait_for.waits)
        assert bool(view.wait_for.waits) == bool(view.wait_for.ends), n
        assert crossings(view.graph()) == [], n
    assert seen > 10


def test_the_end_of_a_checkpoint_and_of_all_checkpoints_is_said(unaligned: Lab) -> None:
    done = barriers(unaligned)
    assert "is completed: no task waits for its barriers" in done.answer()
    assert texts(done.svg()) == ["Nobody waits for a barrier"]
    assert barriers(unaligned, 0).answer() == "No checkpoint has begun, so there is no barrier."
    assert "No checkpoint has begun" in barriers(unaligned, 0)._repr_html_()
    with pytest.raises(ValueError, match=r"no checkpoint 7000 after \d+ records; there are: 1, 2"):
        barriers(unaligned, checkpoint=7000)


def test_many_tasks_that_wait_alike_are_one_box() -> None:
    lab = lab_of(1, rows=400, parallelism=50)
    lab.run_until(record="CheckpointTriggered")
    view = barriers(lab)
    graph = view.graph()
    assert len(graph.nodes) <= 6
    assert ("wait for 2,500 barriers 1", "not sent") in {edge.lines for edge in graph.edges}
    assert "50 of totals wait for the barriers of 50 of letters" in view.answer()
    assert "(and 49 alike)" in view.answer()
    assert view._repr_html_().count("<tr") == 41
    assert len(view.to_pandas()) == 2500


def test_a_trace_without_buffers_says_what_it_does_not_know(unaligned: Lab) -> None:
    """The trace is like a cluster's: of all elements, it has only barriers."""
    kept = [record for record in unaligned.trace if keeps_record(record)]
    view = barriers(Trace(kept, stages=unaligned.trace.stages), checkpoint=1)
    assert view.to_pandas()[["buffers_before", "bytes_overtaken"]].isna().all(axis=None)
    assert (view.to_pandas().barrier == "taken").all()
    assert "The trace has barriers and no single buffers" in view._repr_html_()
    whole = barriers(unaligned, checkpoint=1).to_pandas()
    pd.testing.assert_series_equal(view.to_pandas().waited_ms, whole.waited_ms)


def test_the_way_of_the_barriers_with_the_data() -> None:
    lab = played("alignment", 2)
    graph = barriers(lab).propagation()
    (taken,) = [r.at_ms for r in lab.trace if r.kind == "BarrierAligned"]
    assert {node.name: (node.lines[1:], node.meaning) for node in graph.nodes} == {
        "left/0": (("copied at 44 ms",), "good"),
        "right/0": (("no copy yet",), ""),
        "sums/0": (("has 1 of 2 barriers", f"left/0: 44 → {taken} ms", "right/0: not sent", "no copy yet"), "waits"),
    }
    assert {(edge.source, edge.target): (edge.tip, edge.meaning) for edge in graph.edges} == {
        ("left/0", "sums/0"): (f"left/0 → sums/0: 44 → {taken} ms", "good"),
        ("right/0", "sums/0"): ("right/0 → sums/0: not sent", "dashed"),
    }
    assert "digraph barriers" in barriers(lab).dot().source


def test_a_barrier_on_its_way_says_where_it_is() -> None:
    graph = barriers(played("alignment", 1)).propagation()
    assert {edge.source: edge.meaning for edge in graph.edges}["left/0"] == "waits"
    (box,) = [node for node in graph.nodes if node.name == "sums/0"]
    assert "left/0: 44 ms → in the sender's queue" in box.lines


def test_the_subtasks_of_a_vertex_stand_in_their_order() -> None:
    lab = Lab(letters(rows=200, parallelism=5), seed=2)
    lab.run_until(record="BarrierAligned")
    graph = barriers(lab).propagation()
    places = dict(zip([node.name for node in graph.nodes], graph.placed.nodes, strict=True))
    for vertex in ("letters", "totals"):
        down = [places[f"{vertex}/{subtask}"].y for subtask in range(5)]
        assert down == sorted(down)
        assert len(set(down)) == 5


def test_the_way_of_the_barriers_is_drawn_when_all_have_come(unaligned: Lab) -> None:
    graph = barriers(unaligned, checkpoint=1).propagation()
    assert {node.meaning for node in graph.nodes} == {"good"}
    told = [line.rpartition(", overtook ")[2] for node in graph.nodes for line in node.lines if "overtook" in line]
    table = barriers(unaligned, checkpoint=1).to_pandas()
    assert told
    assert sum(int(line.split()[0]) for line in told) == table.buffers_overtaken.sum()


def late_tasks(lab: Lab) -> list[str]:
    """Return the tasks that wait for a barrier, in order."""
    view = barriers(lab)
    late = set(view.to_pandas().query("barrier != 'taken'")["target"])
    return [task for task in view.stage.tasks() if task in late]


def test_the_way_of_many_barriers_is_one_box_for_each_vertex() -> None:
    lab = Lab(letters(rows=200, parallelism=24), seed=1)
    lab.run_until(record="BarrierAligned")
    view = barriers(lab)
    graph, table = view.propagation(), view.to_pandas()
    assert [node.lines[0] for node in graph.nodes] == ["letters", "totals"]
    (edge,) = graph.edges
    counts = table.barrier.value_counts()
    assert set(edge.lines[: len(counts)]) == {f"{count} {place}" for place, count in counts.items()}
    sources = graph.nodes[0].lines
    assert sources[-2].endswith(" waits for its trigger")
    copied, _, of = sources[1].split()[:3]
    assert sources[-1] == f"and {int(of) - int(copied) - 3} more"
    assert "totals" not in graph.nodes[1].lines[-1]  # none has copied its state: all are late, and none is named
    lab.run_until(lambda lab: len(lab.moment().checkpoints[1].acked) == 24 + 17)
    late = late_tasks(lab)
    assert len(late) > 3
    lines = barriers(lab).propagation().nodes[1].lines
    told = [line for line in lines if " waits for " in line]
    assert [line.partition(" ")[0] for line in told] == late[:3]
    assert lines[-1] == f"and {len(late) - 3} more"
    table = barriers(lab).to_pandas()
    for line in told:
        task, _, senders = line.partition(" waits for ")
        awaited = table.loc[(table.target == task) & (table.barrier != "taken"), "source"].tolist()
        assert senders.split(" and ")[0].split(", ") == awaited[:2]
    before = Lab(letters(rows=4, parallelism=1))
    assert barriers(before).propagation().nodes[0].lines == ("No checkpoint has begun",)
