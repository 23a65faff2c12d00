"""One workload under each mode: what the comparison says is what the runs did."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from kit.course.comparing import compare_modes, run_modes, slow_tasks
from kit.draw.charts.comparison import compare
from kit.hosts.lab import Lab, LabError, Slow, ready_job
from kit.hosts.lab.opening import job_graph
from kit.run.moments.moment import moments
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_

ROWS = 40
SOURCES = 2


@pytest.fixture(scope="module")
def labs() -> dict[str, Lab]:
    return run_modes(rows=ROWS, timeout_ms=20)


def _counted(lab: Lab) -> int:
    """Return the number of records in the final sums."""
    return int(lab.output().groupby("k")["rows"].max().sum())


def test_records_said_to_be_repeated_are_counted_twice_in_the_output(labs: dict[str, Lab]) -> None:
    table = compare(labs).to_pandas().set_index("run")
    assert table.loc["at least once", "repeated"] > 0
    for name, lab in labs.items():
        assert _counted(lab) == SOURCES * ROWS + table.loc[name, "repeated"], name
    assert (table.drop("at least once")["repeated"] == 0).all()


def test_in_flight_bytes_are_those_of_the_statistics(labs: dict[str, Lab]) -> None:
    table = compare(labs).to_pandas().set_index("run")
    for name, lab in labs.items():
        assert table.loc[name, "in_flight_bytes"] == lab.statistics.history["persisted_bytes"].sum(), name
    assert table.loc["unaligned", "in_flight_bytes"] > table.loc["aligned, 20 ms timeout", "in_flight_bytes"] > 0


def test_channels_are_blocked_as_long_as_the_moments_of_the_run_say(labs: dict[str, Lab]) -> None:
    comparison = compare(labs)
    for run in comparison.runs:
        blocked_ms, before_ms, count = 0, 0, 0
        for moment in moments(labs[run.name]):
            blocked_ms += count * (moment.elapsed_ms - before_ms)
            before_ms, count = moment.elapsed_ms, sum(each.blocked for each in moment.channels.values())
        assert run.blocked_ms == blocked_ms, run.name
    blocked = {run.name: run.blocked_ms for run in comparison.runs}
    assert blocked["aligned"] > 0
    assert blocked["at least once"] == blocked["unaligned"] == 0


def test_all_of_a_run_is_on_the_picture(labs: dict[str, Lab]) -> None:
    comparison = compare(labs)
    svg = comparison.svg()
    assert svg.count('class="failure"') == len(labs) + 1, "one in each run, and one in the legend"
    drawn = Counter(comparison.checkpoints["status"])
    assert svg.count('class="checkpoint ') == drawn.total() + 1
    assert all(name in comparison._repr_html_() for name in labs)
    assert repr(comparison) == "Comparison(at least once, aligned, aligned, 20 ms timeout, unaligned)"


def test_a_slow_task_is_not_given_its_next_turn_before_its_time() -> None:
    lab = Lab(ready_job("keyed-sum", parallelism=1, rows=8), scheduler=Slow({"sums": 25}))
    lab.run()
    granted = [record.at_ms for record in lab.trace if record.machine == "sums/0" and record.kind == "GrantCredit"]
    took = granted[1:]  # the first credits are there before any buffer
    assert len(took) == 8
    assert all(after - before >= 25 for before, after in pairwise(took))


def test_a_workload_without_checkpoints_is_refused() -> None:
    with pytest.raises(LabError, match=r"takes no checkpoints by itself.*interval_ms"):
        compare_modes(ready_job("keyed-sum"))
    with pytest.raises(LabError, match=r"no vertex is 'sum'; there are letters, sums"):
        compare_modes("keyed-sum", busy_ms={"sum": 4})
    with pytest.raises(ValueError, match="nothing to compare"):
        compare({})


def test_runs_that_ended_differently_are_told_by_their_ends() -> None:
    lab = Lab(ready_job("keyed-sum"))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    other = lab.fork()
    other.faults.kill(0)
    other.run_until(lambda lab: lab.ended)
    while other.enabled():
        other.step()
    with pytest.raises(LabError, match="it was not restarted: the job takes no periodic checkpoints"):
        other.step()
    lab.run()
    shown = compare({"one": lab, "other": other})
    assert shown.caption == "one is finished, 2 checkpoints complete; other is failed, 1 checkpoint complete"


def test_of_several_sources_the_last_is_slower_and_of_several_tasks_the_last_is_slow() -> None:
    graph = job_graph(ready_job("keyed-sum"))
    assert slow_tasks(graph, 2, 9) == {graph.vertices[-1].name: 2}
    env = StreamEnvironment("three", parallelism=2)
    first, second, third = (
        env.from_source(CollectionSource([{"n": 1}]), uid=name) for name in ("first", "second", "third")
    )
    sums = first.union(second, third).key_by("n").aggregate(total=sum_("n")).uid("sums")
    sums.rebalance().sink_to(CollectSink("out"), uid="out", name="out")
    assert slow_tasks(job_graph(env), 2, 9) == {"out": 2, "third": 9}
