"""Values of many types as Flink stores them, against what Flink reads back: part of `make interop`.

`ValueTypes.java` and `OperatorStates.java` take savepoints. The kit also gives each key the value of another in them
(`written_types`), and Flink reads the result. `python -m tests.interop.value_types` saves them to
tests/data/flink_types, which `tests/snapshots/test_value_types.py` and `test_operator_states.py` read. Avro's values
(`AvroValues.java`) are made only if the environment variable FLINK_JARS, a class path, has flink-avro and Avro.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kit
from scripts.flink import fetch, run_java
from tests.interop.reported import reported
from tests.interop.written_types import Truth, exchanged
from tests.snapshots.truth import told

HERE = Path(__file__).parent
SAVED = HERE.parent / "data" / "flink_types" / "savepoints.tar.xz"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1500m")
SKIPPED = ("key_group", "namespace", "last_access", "subtask", "entry")


def run_with_flink(folder: Path) -> None:
    """Let Flink take the savepoints below `folder`, each with its `truth.json`."""
    extra = os.environ.get("FLINK_JARS", "")
    for name in ("ValueTypes", "OperatorStates", "InFlightRecords", *(["AvroValues"] if extra else [])):
        run_java(HERE / f"{name}.java", str(folder), options=QUICK, jars=extra)
    for name in ("checkpoints", "savepoints"):
        shutil.rmtree(folder / name, ignore_errors=True)


def read_by_flink(folder: Path, cases: list[Path]) -> Iterator[str]:
    """Exchange the values in the savepoints; yield each state of the results that Flink reads otherwise."""
    wanted = {f"exchanged-{case.name}": exchanged(case, folder / f"exchanged-{case.name}") for case in cases}
    for program in ("ValueTypes", "AvroValues"):
        own = [name for name in wanted if ("avro" in name) == (program == "AvroValues")]
        if own:
            jars = os.environ.get("FLINK_JARS", "")
            run_java(HERE / f"{program}.java", str(folder), *own, options=QUICK, jars=jars)
    for name, truth in wanted.items():
        found = json.loads((folder / name / "read.json").read_text())
        for state, rows in truth.items():
            yield from _unequal(f"{name}, {state}", _counted(rows["rows"]), _counted(found[state]["rows"]))


def differences(case: Path, wanted: Truth | None = None) -> Iterator[str]:
    """Yield each state of a savepoint in which the kit differs from Flink, or from `wanted`."""
    checkpoint = kit.open_checkpoint(case)
    wanted = json.loads((case / "truth.json").read_text()) if wanted is None else wanted
    for name, truth in wanted.items():
        try:
            found = _counted(rows_of(checkpoint, name, truth["kind"]))
        except kit.CheckpointError as error:
            yield f"{case.name}, {name}: {error}"
            continue
        yield from _unequal(f"{case.name}, {name}", found, _counted(truth["rows"]))


def _unequal(where: str, ours: Counter[str], theirs: Counter[str]) -> Iterator[str]:
    if ours != theirs:
        yield f"{where}: the kit has {sorted(ours - theirs)[:1]}, Flink reads {sorted(theirs - ours)[:1]}"


def rows_of(checkpoint: kit.Checkpoint, name: str, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a state in the JSON of `truth.json`."""
    table = checkpoint.state("keep", name)
    columns = {each: told(table[each]) for each in table.column_names if each not in SKIPPED}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind != "LIST":
        return rows
    return [
        {**row, "list_index": place, "value": value} for row in rows for place, value in enumerate(row.pop("value"))
    ]


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(_parsed(row), sort_keys=True) for row in rows)


def _parsed(value: Any) -> Any:
    """Return a value with the records inside themselves, which are JSON text in a column, as objects."""
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    if isinstance(value, dict):
        return {name: _parsed(each) for name, each in value.items()}
    return [_parsed(each) for each in value] if isinstance(value, list) else value


def main() -> int:
    """Take the savepoints, compare them, and print how many states were compared."""
    with tempfile.TemporaryDirectory(prefix="types-") as folder:
        run_with_flink(Path(folder))
        cases = sorted(path.parent for path in Path(folder).glob("*/truth.json"))
        wrong = [each for case in cases for each in differences(case)]
        wrong += read_by_flink(Path(folder), cases)
        many = sum(len(json.loads((case / "truth.json").read_text())) for case in cases)
    code = reported(wrong, f"Flink wrote {many} states of many types in {len(cases)} savepoints, and read our values")
    return code if cases else 1


def save() -> None:
    """Take the savepoints, and save them where the tests read them."""
    with tempfile.TemporaryDirectory(prefix="types-") as folder:
        run_with_flink(Path(folder))
        SAVED.parent.mkdir(exist_ok=True)
        with tarfile.open(SAVED, "w:xz") as archive:
            for path in sorted(Path(folder).iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    fetch()
    save()
