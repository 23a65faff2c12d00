"""State with TTL between Flink and the kit: the serializers are Flink's, and the times stay, both ways."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.snapshots.checkpoints import Checkpoint
from kit.snapshots.serializers.declared import list_of, map_of, snapshot_of, ttl_of, versioned
from kit.snapshots.surgery.edit import Edit
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import value_cases, values
from tests.snapshots.truth import called

VERSION = value_cases()[-1][0]
STATES = ("ttl-value", "ttl-list", "ttl-map")
LONG, STRING = snapshot_of(pa.int64()), snapshot_of(pa.string())
EARLY, LATE = datetime(2020, 1, 1, 0, 0, 0, 7_000, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)


def opened(case: str = "savepoint-canonical") -> Checkpoint:
    return kit.open_checkpoint(values(VERSION) / case)


def only_rich(checkpoint: Checkpoint) -> Edit:
    """Drop all operators but one."""
    edited = checkpoint.edit()
    for operator in checkpoint.metadata.operator_states:
        if operator.operator_id != operator_id_of_uid("rich"):
            edited = edited.drop(operator.operator_id)
    return edited


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.drop_columns("key_group").to_pylist()))


@pytest.mark.parametrize(
    ("state", "serializer"),
    [("ttl-value", ttl_of(LONG)), ("ttl-list", list_of(ttl_of(STRING))), ("ttl-map", map_of(STRING, ttl_of(STRING)))],
)
def test_the_serializers_are_flinks(state: str, serializer: bytes) -> None:
    checkpoint = opened()
    rich = operator_id_of_uid("rich")
    origin = checkpoint.edit()._origin
    (operator,) = [each for each in checkpoint.metadata.operator_states if each.operator_id == rich]
    heads = [part.states[state].raw for part in origin.keyed_parts(operator, 0) if state in part.states]
    assert heads
    assert all(versioned(serializer) in head for head in heads)


@pytest.mark.parametrize("state", STATES)
def test_a_state_gets_its_rows_with_their_times_and_so_does_a_new_one(state: str, tmp_path: Path) -> None:
    checkpoint = opened()
    rows = checkpoint.state("rich", state)
    assert rows.num_rows > 1
    edited = checkpoint.edit().bootstrap("rich", state, rows.slice(1)).bootstrap("new", "copy", rows, parallelism=2)
    written = edited.write(tmp_path / "written")
    assert rows_of(written.state("rich", state)) == rows_of(rows.slice(1))
    assert rows_of(written.state("new", "copy")) == rows_of(rows)
    kinds = written.states.set_index("name").loc[[state, "copy"]]
    assert kinds["value"].nunique() == kinds["kind"].nunique() == 1


def test_rows_need_a_time_for_each_value() -> None:
    edited = opened().edit()
    key = pa.array([1, 2], pa.int64())
    time = pa.timestamp("ms", "UTC")
    for state, columns, said in (
        ("ttl-value", {"value": pa.array([1, 2], pa.int64())}, "no column 'last_access'"),
        ("ttl-value", {"value": pa.array([1, 2]), "last_access": pa.array([EARLY, None], time)}, "has a null"),
        (
            "ttl-list",
            {"value": [["a"], ["b", "c"]], "last_access": pa.array([[EARLY], [LATE]], pa.list_(time))},
            "a list of 2 elements has 1 times",
        ),
    ):
        with pytest.raises(kit.CheckpointError, match=said):
            edited.bootstrap("rich", state, pa.table({"key": key, **columns})).rehearse()


def test_the_values_of_a_list_change_and_their_times_stay(tmp_path: Path) -> None:
    checkpoint = opened()
    before = checkpoint.state("rich", "ttl-list")

    def reversed_lists(table: pa.Table) -> pa.Array:
        return pa.array([each[::-1] for each in table["value"].to_pylist()], table["value"].type)

    found = only_rich(checkpoint).map("rich", "ttl-list", reversed_lists).write(tmp_path / "new")
    after = found.state("rich", "ttl-list")
    assert max(map(len, before["value"].to_pylist())) > 1
    assert after["last_access"].to_pylist() == before["last_access"].to_pylist()
    assert after["value"].to_pylist() == [each[::-1] for each in before["value"].to_pylist()]


class Add(kit.KeyedProcessFunction):
    """Adds each row to the sum of its key, which lives for an hour."""

    TOTAL = kit.ValueStateDescriptor("ttl-value", pa.int64(), ttl=kit.StateTtlConfig("1h"))

    def process_element(self, row: Any, ctx: Any) -> None:
        """Add the row."""
        total = ctx.state(self.TOTAL)
        total.update((total.value() or 0) + row["n"])


def job(rows: list[dict[str, int]]) -> kit.StreamEnvironment:
    env = kit.StreamEnvironment("bridge", parallelism=2)
    stream = env.from_source(kit.CollectionSource(rows, batch_rows=1, rows_per_second=5), uid="rows")
    stream.key_by("key").process(Add).uid("rich").sink_to(kit.CollectSink("out"), uid="out")
    return env


@pytest.mark.parametrize("case", ["savepoint-canonical", "rocksdb-incremental"])
def test_a_job_of_the_kit_continues_flinks_state_with_its_times_and_gives_it_back(case: str, tmp_path: Path) -> None:
    checkpoint = opened(case)
    before = checkpoint.state("rich", "ttl-value")
    edited = only_rich(checkpoint)
    states = checkpoint.states[checkpoint.states["operator"] == called(checkpoint, "rich")]
    for name in states["name"]:
        if name != "ttl-value":
            edited = edited.drop("rich", name)
    key = before["key"][0].as_py()
    rows = [{"key": key, "n": 1}, *({"key": 12_345 + n, "n": 7} for n in range(20))]
    first = kit.Lab(job(rows))
    edited.to_kit("rich").write("/savepoints/of-flink", file_system=first.look.files.filesystem)
    lab = kit.Lab(job(rows), restore_path="/savepoints/of-flink", after=first)
    lab.run_until(at_ms=first.look.at_ms + 900)
    own = kit.open_checkpoint(lab.savepoint(wait=True), file_system=lab.look.files.filesystem)
    found = {row["key"]: (row["value"], row["last_access"]) for row in own.state("rich", "ttl-value").to_pylist()}
    for row in before.to_pylist():
        if row["key"] != key:
            assert found[row["key"]] == (row["value"], row["last_access"])
    assert found[key][0] == before["value"][0].as_py() + 1
    added = found[12_345]
    assert added[0] == 7
    assert max(found[key][1], added[1]) < EARLY, "the times of the lab begin in 1970"
    back = checkpoint.edit().bootstrap("rich", "ttl-value", own.state("rich", "ttl-value")).write(tmp_path / "back")
    assert rows_of(back.state("rich", "ttl-value")) == rows_of(own.state("rich", "ttl-value"))


class Remember(kit.KeyedProcessFunction):
    """Keeps words by key, with and without a TTL."""

    EXPIRING = kit.MapStateDescriptor("ttl-map", pa.string(), pa.string(), ttl=kit.StateTtlConfig("1h"))
    PLAIN = kit.MapStateDescriptor("plain", pa.string(), pa.string())

    def process_element(self, row: Any, ctx: Any) -> None:
        """Put the row's number under a word."""
        for state in (self.EXPIRING, self.PLAIN):
            ctx.state(state).put(f"word {row['n'] % 3}", f"{row['n']}")


def test_maps_of_the_kit_become_those_of_flink(tmp_path: Path) -> None:
    env = kit.StreamEnvironment("maps", parallelism=2)
    rows = [{"key": n % 4, "n": n} for n in range(80)]
    stream = env.from_source(kit.CollectionSource(rows, batch_rows=1, rows_per_second=20), uid="rows")
    stream.key_by("key").process(Remember).uid("rich").sink_to(kit.CollectSink("out"), uid="out")
    lab = kit.Lab(env)
    lab.run_until(at_ms=1_900)
    own = kit.open_checkpoint(lab.savepoint(wait=True), file_system=lab.look.files.filesystem)
    held = own.state("rich", "ttl-map")
    wanted = {}
    for row in held.to_pylist():
        for (word, value), (same, access) in zip(row["value"], row["last_access"], strict=True):
            assert word == same
            wanted[row["key"], word] = value, access
    assert len(wanted) == 12
    assert len({access for _, access in wanted.values()}) > 1
    checkpoint = opened()
    edited = only_rich(checkpoint).bootstrap("rich", "ttl-map", held)
    found = edited.write(tmp_path / "back").state("rich", "ttl-map")
    keys = zip(found["key"].to_pylist(), found["map_key"].to_pylist(), strict=True)
    values = zip(found["value"].to_pylist(), found["last_access"].to_pylist(), strict=True)
    assert dict(zip(keys, values, strict=True)) == wanted
    with pytest.raises(kit.CheckpointError, match="no column 'last_access'"):
        only_rich(checkpoint).bootstrap("rich", "ttl-map", own.state("rich", "plain")).rehearse()
    plain = edited.bootstrap("rich", "map", found.drop_columns("last_access"), parallelism=2)
    again = plain.write(tmp_path / "plain").edit().bootstrap("rich", "map", own.state("rich", "plain"))
    found = again.write(tmp_path / "again").state("rich", "map")
    keys = zip(found["key"].to_pylist(), found["map_key"].to_pylist(), strict=True)
    assert dict(zip(keys, found["value"].to_pylist(), strict=True)) == {
        key: value for key, (value, _) in wanted.items()
    }
