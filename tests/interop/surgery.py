"""Savepoints that the kit changed, restored by Flink: `make interop` compares the state that Flink then sees.

A job in Flink takes savepoints; each case changes one of them, and a job in Flink restores the result and prints the
state of every key.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import kit
from kit.snapshots.surgery.edit import Edit
from scripts.flink import run_java
from tests.interop.reported import reported

JOB = Path(__file__).with_name("SurgeryJob.java")
KEYS, ROWS = 20, 200
QUICK_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
Row = dict[str, Any]
MADE = {
    "canonical": {"backend": "hashmap", "format": "CANONICAL"},
    "heap": {"backend": "hashmap", "format": "NATIVE"},
    "rocksdb": {"backend": "rocksdb", "format": "NATIVE"},
    "uninterrupted": {"backend": "hashmap", "format": "CANONICAL", "rows": str(2 * ROWS)},
}
"""The savepoints that are changed."""


def truth() -> dict[tuple[str, str], Row]:
    """Return the state of every key of each operator, as SurgeryJob keeps it."""
    found = {}
    for uid, name in (("longs", "{}"), ("strings", "key {}"), ("tuples", "(t{0},{0})")):
        for key in range(KEYS):
            rows = range(key, ROWS, KEYS)
            words = {f"w{row % 3}": row for row in rows}
            label = name.format(key)
            found[uid, label] = {
                "uid": uid,
                "key": label,
                "total": sum(rows),
                "name": f"key {label} ü😀",
                "pair": ["row", rows[-1]],
                "items": list(rows),
                "words": dict(sorted(words.items())),
                "most": rows[-1],
            }
    return found


EMPTY = {"total": None, "name": None, "pair": None, "items": [], "words": {}, "most": None}


@dataclass(frozen=True)
class Case:
    """One change: of which savepoint, what Flink is to see of each key, and how the job is run that restores it."""

    name: str
    of: str
    edit: Callable[[Edit], Edit]
    row: Callable[[Row], Row] = lambda row: row
    job: dict[str, str] = field(default_factory=dict)
    first: int | None = None
    fails: str = ""
    """What Flink says where it is not to restore."""


def _half(row: Row) -> Row:
    """Return the odd keys of `longs` that are left."""
    odd = row["uid"] == "longs" and int(row["key"]) % 2
    return row | EMPTY if odd else row


def _without_longs(row: Row) -> Row:
    return row | EMPTY if row["uid"] == "longs" else row


def _without_names(row: Row) -> Row:
    return row | {"name": None} if row["uid"] == "strings" else row


def _more(edit: Edit) -> Edit:
    """Change values of five kinds of state."""
    edit = edit.map("strings", "total", lambda table: pc.add(table["value"], 1))
    edit = edit.map("strings", "name", lambda table: pc.binary_join_element_wise(table["value"], "é", "-"))
    edit = edit.map("strings", "items", lambda table: pa.array([[7, 8]] * table.num_rows))
    edit = edit.map("strings", "words", lambda table: pc.negate(table["value"]))
    pair = {"f0": "other", "f1": -1}
    return edit.map("tuples", "pair", lambda table: pa.array([pair] * table.num_rows, table["value"].type))


def _more_of(row: Row) -> Row:
    if row["uid"] == "tuples":
        return row | {"pair": ["other", -1]}
    if row["uid"] == "longs":
        return row
    words = {name: -each for name, each in row["words"].items()}
    return row | {"total": row["total"] + 1, "name": row["name"] + "-é", "items": [7, 8], "words": words}


VISIT = pa.struct([("at", pa.timestamp("ms", "UTC")), ("price", pa.decimal128(9, 2))])
PROFILE = pa.struct(
    [
        ("city", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.float64())),
        ("visit", VISIT),
    ]
)
VISITS = [{"at": 0, "price": Decimal("1.50")}, {"at": 1_000, "price": None}]


def _with_nested_values(edit: Edit) -> Edit:
    """Return the keys of `strings` new states of rows, lists and maps: a value, a list and a map state."""
    keys = [f"key {number}" for number in range(KEYS)]
    profiles = [
        {
            "city": key if number % 2 else None,
            "tags": [key, "é"],
            "scores": [("a", number / 2)],
            "visit": VISITS[number % 2],
        }
        for number, key in enumerate(keys)
    ]
    edit = edit.bootstrap("strings", "profile", pa.table({"key": keys, "value": pa.array(profiles, PROFILE)}))
    listed = pa.array([VISITS] * KEYS, pa.list_(VISIT))
    edit = edit.bootstrap("strings", "visits", pa.table({"key": keys, "value": listed}))
    marks = pa.table({"key": keys, "map_key": ["m"] * KEYS, "value": [[number] for number in range(KEYS)]})
    return edit.bootstrap("strings", "marks", marks)


def _with_nested(row: Row) -> Row:
    if row["uid"] != "strings":
        return row
    number = int(row["key"].removeprefix("key "))
    told = ["1970-01-01T00:00:00Z 1.50", "1970-01-01T00:00:01Z null"]
    profile = [row["key"] if number % 2 else None, [row["key"], "é"], {"a": number / 2}, told[number % 2]]
    return row | {"profile": profile, "visits": told, "marks": {"m": [number]}}


def _with_ttl(edit: Edit) -> Edit:
    """Return the keys of `strings` new states with TTL: accessed now for even numbers, and long ago for odd ones."""
    keys, now = [f"key {number}" for number in range(KEYS)], datetime.now(UTC)
    time = pa.timestamp("ms", "UTC")
    accessed = [LONG_AGO if number % 2 else now for number in range(KEYS)]
    of_key, numbers = pa.array(accessed, time), pa.array(range(KEYS), pa.int64())
    edit = edit.bootstrap("strings", "lately", pa.table({"key": keys, "value": numbers, "last_access": of_key}))
    of_elements = pa.array([[LONG_AGO, at] for at in accessed], pa.list_(time))
    lists = pa.array([["gone", "é"]] * KEYS)
    edit = edit.bootstrap("strings", "latest", pa.table({"key": keys, "value": lists, "last_access": of_elements}))
    entries = {
        "key": [*keys, *keys],
        "map_key": ["a"] * KEYS + ["gone"] * KEYS,
        "value": pa.chunked_array([numbers, numbers]),
        "last_access": pa.array([*accessed, *[LONG_AGO] * KEYS], time),
    }
    return edit.bootstrap("strings", "recent", pa.table(entries))


LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def _not_expired(row: Row) -> Row:
    number = int(row["key"].removeprefix("key ")) if row["uid"] == "strings" else 1
    return row if number % 2 else row | {"lately": number, "latest": ["é"], "recent": {"a": number}}


class Totals(kit.KeyedProcessFunction):
    """Adds numbers as SurgeryJob does."""

    TOTAL = kit.ValueStateDescriptor("total", pa.int64())

    def process_element(self, row: Any, ctx: Any) -> None:
        """Add a number to the total of its key."""
        total = ctx.state(self.TOTAL)
        total.update((total.value() or 0) + row["n"])


def _job(numbers: range) -> kit.StreamEnvironment:
    env = kit.StreamEnvironment("bridge", parallelism=2, checkpoint=kit.CheckpointConfig(interval_ms=50))
    rows = [{"key": f"key {number % KEYS}", "n": number} for number in numbers]
    stream = env.from_source(kit.CollectionSource(rows, batch_rows=1), uid="numbers")
    stream.key_by("key").process(Totals).uid("strings").sink_to(kit.CollectSink("out"), uid="out")
    return env


def without_other_state(edit: Edit) -> Edit:
    """Drop all state but the totals of `strings`."""
    for operator in ("longs", "tuples", "numbers", "sink-1", "sink-2", "sink-3"):
        edit = edit.drop(operator)
    timers = [f"_timer_state/{domain}_user-timers" for domain in ("event", "processing")]
    for state in ("name", "pair", "items", "words", "most", *timers):
        edit = edit.drop("strings", state)
    return edit


def _through_the_kit(edit: Edit) -> Edit:
    """Let a job of the kit continue the totals of `strings`, and give them back to Flink with the source's offset."""
    own = without_other_state(edit)
    first = kit.Lab(_job(range(1)))
    savepoint = own.to_kit("strings").write("/savepoints/of-flink", file_system=first.look.files.filesystem)
    lab = kit.Lab(_job(range(ROWS, 2 * ROWS)), restore_path="/savepoints/of-flink", after=first)
    wanted = sum(range(2 * ROWS))
    for number in range(savepoint.checkpoint_id + 1, 10_000):
        lab.run_until(checkpoint=number)
        (path,) = [each for each in lab.look.files.paths() if each.endswith(f"/chk-{number}/_metadata")]
        totals = kit.open_checkpoint(path, file_system=lab.look.files.filesystem).state("strings", "total")
        if sum(totals["value"].to_pylist()) == wanted:
            break
    return edit.bootstrap("strings", "total", totals).set_offsets("numbers", {"1": 2 * ROWS})


def _continued(row: Row) -> Row:
    if row["uid"] != "strings":
        return row
    return row | {"total": sum(range(int(row["key"].removeprefix("key ")), 2 * ROWS, KEYS))}


def totals_of(path: str) -> dict[str, int]:
    """Return the total of each key of `strings` in a savepoint."""
    totals = kit.open_checkpoint(path).state("strings", "total")
    return dict(zip(totals["key"].to_pylist(), totals["value"].to_pylist(), strict=True))


def _uninterrupted(path: str) -> Iterator[str]:
    """Compare what the kit continued with one run of Flink over all rows."""
    for key, total in totals_of(path).items():
        if total != _continued({"uid": "strings", "key": key})["total"]:
            yield f"uninterrupted: Flink counted {total} for {key}"


ROCKSDB = {"backend": "rocksdb"}
WIDE = {"maxParallelism": "300"}
NARROW = {"maxParallelism": "8", "parallelism": "3"}
LATER = 5_000_000
CASES = [
    Case("copied", "canonical", lambda edit: edit),
    Case("canonical of heap", "heap", lambda edit: edit.to_canonical()),
    Case("canonical of heap in rocksdb", "heap", lambda edit: edit.to_canonical(), job=ROCKSDB),
    Case("canonical of rocksdb", "rocksdb", lambda edit: edit.to_canonical()),
    Case("renamed", "heap", lambda edit: edit.rename("longs", "numbers-2"), job={"longs": "numbers-2"}),
    Case("renamed, as it was", "heap", lambda edit: edit.rename("longs", "numbers-2"), fails="Failed to rollback"),
    Case("dropped operator", "canonical", lambda edit: edit.drop("longs"), _without_longs),
    Case("dropped state", "rocksdb", lambda edit: edit.drop("strings", "name"), _without_names, ROCKSDB),
    Case("wider", "heap", lambda edit: edit.set_max_parallelism(300), job=WIDE),
    Case("wider in rocksdb", "rocksdb", lambda edit: edit.set_max_parallelism(300), job=WIDE | ROCKSDB),
    Case("narrower", "canonical", lambda edit: edit.set_max_parallelism(8), job=NARROW),
    Case("wider, not changed", "canonical", lambda edit: edit, job=WIDE, fails="Max parallelism mismatch"),
    Case("deleted keys", "canonical", lambda edit: edit.delete_keys("longs", range(1, KEYS, 2)), _half),
    Case("values", "heap", _more, _more_of),
    Case("values in rocksdb", "rocksdb", _more, _more_of, ROCKSDB),
    Case("nested values", "canonical", _with_nested_values, _with_nested),
    Case("nested values in rocksdb", "rocksdb", _with_nested_values, _with_nested, ROCKSDB),
    Case("state with TTL", "canonical", _with_ttl, _not_expired),
    Case("state with TTL in rocksdb", "rocksdb", _with_ttl, _not_expired, ROCKSDB),
    Case("through the kit", "canonical", _through_the_kit, _continued, first=2 * ROWS),
    Case("through the kit, rocksdb", "rocksdb", _through_the_kit, _continued, ROCKSDB, 2 * ROWS),
    Case("offsets", "heap", lambda edit: edit.set_offsets("numbers", {"1": LATER}), first=LATER),
]


def run(folder: Path, cases: list[Case] = CASES) -> Iterator[str]:
    """Run the cases; yield everything in which Flink and we differ."""
    made = dict(zip(MADE, made_by_flink(folder, MADE), strict=True))
    yield from _uninterrupted(made["uninterrupted"])
    jobs = []
    for number, case in enumerate(cases):
        target = folder / f"new-{number}"
        case.edit(kit.open_checkpoint(made[case.of]).edit()).write(target)
        jobs.append({"case": case.name, "mode": "read", "savepoint": f"file://{target}", **case.job})
    for case, answers in zip(cases, _java(folder, jobs), strict=True):
        yield from (f"{case.name}: {each}" for each in compare(case, answers))


def compare(case: Case, answers: list[Row]) -> Iterator[str]:
    """Everything in which Flink and we differ about one case."""
    error = next((each["error"] for each in answers if "error" in each), "")
    if error or case.fails:
        if not case.fails or case.fails not in error:
            yield f"Flink says {error!r}, expected {case.fails!r}"
        return
    (first,) = (each["first"] for each in answers if "first" in each)
    if case.first is not None and not case.first <= first < case.first + 1_000:
        yield f"Flink continues with {first}, expected {case.first}"
    found = {(each["uid"], each["key"]): each for each in answers if "uid" in each}
    for name, row in truth().items():
        if found.get(name) != case.row(row):
            yield f"{name}: Flink sees {found.get(name)}, expected {case.row(row)}"


def made_by_flink(folder: Path, made: dict[str, dict[str, str]]) -> Iterator[str]:
    """Let Flink take savepoints, and yield the path of each."""
    jobs = [{"case": name, "mode": "make", "directory": f"file://{folder}/old", **job} for name, job in made.items()]
    for answers in _java(folder, jobs):
        yield next(each["savepoint"] for each in answers if "savepoint" in each)


def _java(folder: Path, jobs: list[dict[str, str]]) -> list[list[Row]]:
    """Run jobs one after another; give what each printed."""
    arguments: list[str] = []
    for job in jobs:
        settings = {"checkpoints": f"file://{folder}/checkpoints", "keys": str(KEYS), "rows": str(ROWS), **job}
        arguments += ["--"] * bool(arguments) + [f"{name}={value}" for name, value in settings.items()]
    found: list[list[Row]] = []
    for line in run_java(JOB, *arguments, options=QUICK_JVM).splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if "case" in row:
                found.append([])
            found[-1].append(row)
    return found


def main() -> int:
    """Run all cases, and print how they ended."""
    with tempfile.TemporaryDirectory(prefix="surgery-") as folder:
        wrong = list(run(Path(folder)))
    return reported(wrong, f"Flink restored {len(CASES)} changed savepoints")


if __name__ == "__main__":
    raise SystemExit(main())
