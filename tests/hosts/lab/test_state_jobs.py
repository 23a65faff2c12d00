"""The ready job with state of every kind: its snapshot has all kinds, and the job resumes from it."""

from __future__ import annotations

from kit import Lab
from kit.draw import snapshot_contents
from kit.hosts.lab import ready_job
from kit.hosts.lab.jobs.state_jobs import EveryKind
from kit.snapshots.pieces import BROADCAST, KEYED, RAW_KEYED, RAW_OPERATOR, SPLIT, UNION


def checkpointed() -> Lab:
    lab = Lab(ready_job("every-kind", restart=1), seed=1)
    lab.run_until(at_ms=70)
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=1)
    return lab


def test_a_snapshot_holds_every_kind_of_one_operator() -> None:
    contents = snapshot_contents(checkpointed())
    pieces = contents.to_pandas()
    kinds = set(pieces[pieces["operator"] == "delays"]["kind"])
    assert kinds >= {KEYED, SPLIT, UNION, BROADCAST, RAW_KEYED, RAW_OPERATOR}
    assert len(contents.values["timers"])


def test_all_kinds_come_back_after_a_failure() -> None:
    lab = checkpointed()
    seen = sum(int(value[2:]) for value in snapshot_contents(lab).values["raw operator state"]["value"])
    lab.faults.kill(0)
    lab.run_until(record="AllTasksRunning")
    functions = [task.chain.links[0].operator.function for name, task in lab._world.tasks.items() if "delays" in name]
    assert all(isinstance(each, EveryKind) for each in functions)
    assert sum(each.seen for each in functions) == seen > 0
    carriers = {carrier for each in functions for of_group in each.carriers.values() for carrier in of_group}
    assert carriers == set(lab.state()["delay"]["key"])
    lab.run()
    undisturbed = Lab(ready_job("every-kind"), seed=1)
    undisturbed.run()
    assert len(lab.output()) == len(undisturbed.output())
    last = [run.output().groupby("carrier")["delay"].agg(["count"]) for run in (lab, undisturbed)]
    assert last[0].equals(last[1])
