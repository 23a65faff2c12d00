"""A savepoint of Flink that a job of the kit continues, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.snapshots.checkpoints import Checkpoint
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import value_cases, values
from tests.snapshots.truth import called

VERSION = value_cases()[-1][0]
STATE = "long"
CASES = pytest.mark.parametrize("case", [case for version, case in value_cases() if version == VERSION])


class Add(kit.KeyedProcessFunction):
    """Adds each row to the sum of its key."""

    TOTAL = kit.ValueStateDescriptor(STATE, pa.int64())

    def process_element(self, row: Any, ctx: Any) -> None:
        """Add the row."""
        total = ctx.state(self.TOTAL)
        total.update((total.value() or 0) + row["n"])


def job(rows: list[dict[str, int]]) -> kit.StreamEnvironment:
    env = kit.StreamEnvironment("bridge", parallelism=2, checkpoint=kit.CheckpointConfig(interval_ms=20))
    stream = env.from_source(kit.CollectionSource(rows, batch_rows=1), uid="rows")
    stream.key_by("key").process(Add).uid("scalars").sink_to(kit.CollectSink("out"), uid="out")
    return env


def only_scalars(checkpoint: Checkpoint) -> Any:
    """Leave out what the job of the kit does not have."""
    edited = checkpoint.edit()
    for operator in checkpoint.metadata.operator_states:
        if operator.operator_id != operator_id_of_uid("scalars"):
            edited = edited.drop(operator.operator_id)
    states = checkpoint.states[checkpoint.states["operator"] == called(checkpoint, "scalars")]
    for name in states["name"]:
        if name != STATE:
            edited = edited.drop("scalars", name)
    return edited.to_kit("scalars")


def sums(table: pa.Table) -> dict[int, int]:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


@CASES
def test_a_job_of_the_kit_continues_what_flink_counted_and_gives_it_back(case: str, tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(values(VERSION) / case)
    before = sums(checkpoint.state("scalars", STATE))
    rows = [{"key": key, "n": n} for n, key in enumerate(sorted(before)) if abs(before[key] or 0) < 1 << 60]
    first = kit.Lab(job(rows))
    disk = first.look.files.filesystem
    only_scalars(checkpoint).write("/savepoints/of-flink", file_system=disk)
    lab = kit.Lab(job([*rows, {"key": 12_345, "n": 7}]), restore_path="/savepoints/of-flink", after=first)
    wanted = {key: before[key] for key in before} | {12_345: 7}
    for row in rows:
        wanted[row["key"]] = (before[row["key"]] or 0) + row["n"]
    found: dict[int, int] = {}
    for number in range(checkpoint.checkpoint_id + 1, 200):
        lab.run_until(checkpoint=number)
        (path,) = [each for each in lab.look.files.paths() if each.endswith(f"/chk-{number}/_metadata")]
        own = kit.open_checkpoint(path, file_system=lab.look.files.filesystem)
        found = sums(own.state("scalars", STATE))
        if found == wanted:
            break
    assert found == wanted
    back = checkpoint.edit().bootstrap("scalars", STATE, own.state("scalars", STATE)).write(tmp_path / "back")
    assert sums(back.state("scalars", STATE)) == wanted
    assert len(back.operators) == len(checkpoint.operators)


def test_state_that_the_kit_does_not_have_is_refused() -> None:
    edited = kit.open_checkpoint(values(VERSION) / "savepoint-canonical").edit()
    with pytest.raises(kit.CheckpointError, match="a job of the kit continues value states without windows"):
        edited.to_kit("collections").rehearse()
