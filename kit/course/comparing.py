"""Runs to compare: one workload under each checkpointing mode.

`compare_modes` runs a job four times in the lab with the same seed, the same slow task and the same failure. So all
differences are due to the mode: the duration of checkpoints, blocked channels, in-flight data, and records that count
twice after the failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kit.draw.charts.comparison import Comparison, compare
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.opening import job_graph
from kit.hosts.lab.world.schedulers import Slow
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

RESTARTS, RESTART_DELAY_MS = 10, 20
SLOW_MS, SLOWER_MS = 12, 16


def modes(timeout_ms: int) -> dict[str, dict[str, Any]]:
    """Return the four checkpointing modes, each as its settings of `CheckpointConfig`."""
    return {
        "at least once": {"mode": "at_least_once", "unaligned": False, "aligned_timeout_ms": 0},
        "aligned": {"mode": "exactly_once", "unaligned": False, "aligned_timeout_ms": 0},
        f"aligned, {timeout_ms} ms timeout": {
            "mode": "exactly_once",
            "unaligned": True,
            "aligned_timeout_ms": timeout_ms,
        },
        "unaligned": {"mode": "exactly_once", "unaligned": True, "aligned_timeout_ms": 0},
    }


def compare_modes(job: StreamEnvironment | JobGraph | str = "two-sources", **options: Any) -> Comparison:
    """Run a job to its end under each mode, and compare the runs; `run_modes` has the options."""
    return compare(run_modes(job, **options))


def run_modes(
    job: StreamEnvironment | JobGraph | str = "two-sources",
    *,
    busy_ms: Mapping[str, int] | None = None,
    timeout_ms: int = 40,
    fail_after: int | None = 2,
    seed: int = 0,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **given: Any,
) -> dict[str, Lab]:
    """Run a job to its end under each mode; return the labs by the name of the mode.

    `job` is a job, or the name of a ready one, with the settings `given`. `busy_ms` is the time that the tasks of a
    vertex need for each buffer. By default the last vertex with inputs is slow, so that data queues up; and of several
    sources the last is slower still, so that its barriers meet no queue. A worker is killed as soon as checkpoint
    `fail_after` is complete; None: no worker. `settings` are other modes by name, by default `modes(timeout_ms)`.

    Raises LabError if the job takes no periodic checkpoints, or has no such vertex.
    """
    if isinstance(job, str):
        job = ready_job(job, **{"interval_ms": 100, "rows": 60, **given})
    graph = job_graph(job)
    if graph.settings.checkpoint.interval_ms is None:
        raise LabError("the job takes no checkpoints by itself: compare_modes needs CheckpointConfig(interval_ms=...)")
    busy_ms = slow_tasks(graph) if busy_ms is None else busy_ms
    known = [vertex.name for vertex in graph.vertices]
    for name in busy_ms:
        if name not in known and name.rpartition("/")[0] not in known:
            raise LabError(f"no vertex is {name!r}; there are {', '.join(known)}")
    runs = {}
    for name, changes in (settings or modes(timeout_ms)).items():
        lab = Lab(_with(graph, changes), seed=seed, scheduler=Slow(busy_ms))
        if fail_after is not None:
            lab.run_until(lambda lab: lab.look.master.checkpoints.store.latest_id >= fail_after or lab.ended)
            if not lab.ended:
                lab.faults.kill(0)
        lab.run()
        runs[name] = lab
    return runs


def slow_tasks(graph: JobGraph, slow_ms: int = SLOW_MS, slower_ms: int = SLOWER_MS) -> dict[str, int]:
    """Return the default `busy_ms`: the last vertex with inputs is slow, and of several sources the last is slower.

    Raises LabError for a job of sources alone.
    """
    sources = [vertex.name for vertex in graph.sources]
    others = [vertex.name for vertex in graph.vertices if vertex.name not in sources]
    if not others:
        raise LabError("all of the job's tasks are sources: there is no channel that a slow task could hold up")
    return {others[-1]: slow_ms} | ({sources[-1]: slower_ms} if len(sources) > 1 else {})


def _with(graph: JobGraph, changes: Mapping[str, Any]) -> JobGraph:
    """Return the job with other checkpoint settings, and with enough restarts to finish."""
    checkpoint: CheckpointConfig = replace(graph.settings.checkpoint, **changes)
    settings = replace(
        graph.settings,
        checkpoint=checkpoint,
        restart=FixedDelay(RESTARTS, RESTART_DELAY_MS),
        restart_is_default=False,
    )
    return replace(graph, settings=settings)
