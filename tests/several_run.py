"""A run with several of everything, so that the first of a kind is never the last.

It has two sources and four epochs after failures of different workers. It has completed checkpoints, a savepoint, an
aborted checkpoint, two that are pending at once, requests that wait, and a stop that fails before another one succeeds.
`tests/why/several.txt` has the answers about it, `tests/draw/several.txt` its pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.hosts.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from tests.why.jobs import beginning, settle_without

LEFT, RIGHT = "deliver:TriggerTaskCheckpoint:chk-6:job:left/1", "deliver:TriggerTaskCheckpoint:chk-6:job:right/1"


def job(**checkpoint: Any) -> StreamEnvironment:
    """Two sources of letters, their sums, and a sink, each with two subtasks; two checkpoints may be pending."""
    env = StreamEnvironment(
        "several",
        parallelism=2,
        checkpoint=CheckpointConfig(memory_threshold_bytes=0, **{"max_concurrent": 2, **checkpoint}),
        restart=FixedDelay(5, 10),
    )
    left, right = (
        env.from_source(
            CollectionSource([{"letter": "abcdefgh"[n % 8], "n": n} for n in range(rows)], batch_rows=1), uid=name
        )
        for name, rows in (("left", 90), ("right", 70))
    )
    totals = left.union(right).key_by("letter").aggregate(total=sum_("n")).uid("totals")
    totals.rebalance().sink_to(CollectSink("out"), uid="out", name="out")
    return env


Moment = tuple[str, Lab, list[str | None]]


def moments() -> Iterator[Moment]:
    """Go through the run: at each of seven moments its name, the lab, and what may be asked there."""
    lab = Lab(job(), seed=1)
    lab.run_until(record="AllTasksRunning")
    for number in (1, 2):
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=number)
    savepoint = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(savepoint) is not None)
    fourth = lab.trigger_checkpoint()
    lab.run_until(lambda lab: any(len(each.acked) == 3 for each in lab.moment().pending))
    lab.faults.kill(0)
    lab.run_until(lambda lab: lab.moment().job == "RESTARTING")
    yield "worker 0 is lost", lab, [None, "totals/0", "totals/1", "checkpoint 1", "checkpoint 4", f"request {fourth}"]

    lab.run_until(lambda lab: lab.moment().epoch == 2)
    settle_without(lab, beginning("carry_out:totals/0:ReadState", "carry_out:left/1:ReadState", "turn:"))
    yield "two tasks read their state", lab, [None, "totals/0", "left/1", "epoch 2"]

    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=5)
    lab.trigger_checkpoint()
    settle_without(lab, beginning(LEFT, RIGHT))
    requests = [lab.trigger_checkpoint() for _ in range(3)]
    settle_without(lab, beginning(LEFT, RIGHT, "deliver:TriggerTaskCheckpoint:chk-7:job:right"))
    yield (
        "6 and 7 are pending",
        lab,
        [
            "channel 1",
            "left/0 -> totals/0",
            "checkpoint 6",
            "checkpoint 7",
            "totals/0 checkpoint 6",
            "channel 3 checkpoint 7",
            "totals/0",
            "right/0",
            "totals/1 state",
            "checkpoint 5",
            f"request {requests[-1]}",
        ],
    )

    lab.run_until(checkpoint=6)
    requests += [lab.trigger_checkpoint(), lab.savepoint()]
    lab.faults.kill(1)
    yield "worker 1 is lost", lab, ["refused", *(f"request {number}" for number in requests)]
    lab.run_until(lambda lab: lab.moment().epoch == 3)
    lab.run_until(record="AllTasksRunning")
    yield (
        "all run again",
        lab,
        ["epoch 1", "epoch 2", "epoch 3", "no checkpoint", "out/0", "totals/0 state", "left/0 state"],
    )
    lab.stop()
    lab.faults.kill(0)
    lab.faults.kill(1)
    yield "both workers are lost", lab, [None, "totals/0", "totals/1"]
    lab.run_until(lambda lab: lab.moment().epoch == 4)
    lab.run_until(record="AllTasksRunning")
    stop = lab.stop()
    settle_without(
        lab, beginning(*(f"deliver:NotifyCheckpointComplete:chk-10:job:{name}" for name in ("totals", "out")))
    )
    yield "the job stops", lab, [f"request {stop}", None]
