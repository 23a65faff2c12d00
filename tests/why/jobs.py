"""Jobs whose waits are known, and the ways to bring them about step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.files.master_hooks import MasterHook
from kit.hosts.lab import Lab
from kit.hosts.lab.world.actions import Action
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from kit.why import Why

Held = Callable[[Action], bool]


def letters(rows: int = 60, parallelism: int = 2, **checkpoint: Any) -> StreamEnvironment:
    """Numbers summed per letter, one row a buffer; checkpoints only on request by default."""
    env = StreamEnvironment(
        "letters",
        parallelism=parallelism,
        checkpoint=CheckpointConfig(**{"memory_threshold_bytes": 0, **checkpoint}),
        restart=FixedDelay(5, 10),
    )
    data = [{"letter": "abcdefgh"[n % 8], "n": n} for n in range(rows)]
    stream = env.from_source(CollectionSource(data, batch_rows=1), uid="letters")
    totals = stream.key_by("letter").aggregate(total=sum_("n")).uid("totals")
    totals.rebalance().sink_to(CollectSink("out"), uid="out", name="out")
    return env


def running(seed: int = 1, hooks: Sequence[MasterHook] = (), **settings: Any) -> Lab:
    """The job with all its tasks running."""
    lab = Lab(letters(**settings), seed=seed, hooks=hooks)
    lab.run_until(record="AllTasksRunning")
    return lab


def settle_without(lab: Lab, held: Held, until: Callable[[Lab], bool] | None = None) -> None:
    """Take all actions that are not held back, except letting time pass, until the condition holds or none is left."""
    while until is None or not until(lab):
        may = [each for each in lab.enabled() if not held(each) and not each.key.startswith("wait")]
        if not may:
            break
        lab.step(may[0])
    assert until is None or until(lab), f"never so: {lab!r}"


def turns_of(*tasks: str) -> Held:
    """Return a condition that holds back the turns of these tasks."""
    return lambda action: action.key in {f"turn:{task}" for task in tasks}


def beginning(*keys: str) -> Held:
    """The actions whose key begins so."""
    return lambda action: action.key.startswith(keys)


def says(why: Why) -> list[str]:
    """Return the sentences of an answer's facts, in order."""
    return [fact.says for fact in why.facts]


def roots(why: Why) -> list[str]:
    """Return the sentences of the root causes."""
    return [fact.says for fact in why.roots]
