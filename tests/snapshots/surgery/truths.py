"""A comparison of a savepoint with the values that Flink says the original had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from kit.snapshots.checkpoints import Checkpoint
from tests.snapshots.truth import as_single, rows_of, rows_told, told

KRYO = "KryoSerializer"
Row = dict[str, Any]


def kept(row: Row) -> Row:
    """Return a row as it was."""
    return row


def without_group(row: Row) -> Row:
    """Return a row without its key group."""
    return {name: each for name, each in row.items() if name != "key_group"}


def differences(
    checkpoint: Checkpoint,
    truth: dict[str, Any],
    *,
    change: Callable[[Row], Row | None] = kept,
    left_out: Collection[str] = (),
    compared: Counter[str] | None = None,
) -> Iterator[str]:
    """Yield each state and timer that differs from Flink's, row by row; `change` returns a row after the edit."""
    for uid, operator in truth["operators"].items():
        if uid in left_out:
            continue
        states = {**operator.get("states", {}), **operator.get("timers", {})}
        for name, state in states.items():
            is_timer = "service" in state
            if not is_timer and any(KRYO in each for each in state["valueSerializers"]):
                continue
            if is_timer and not state["rows"]:
                continue
            state = as_single(state) if state.get("valueType") == "Float" else state
            rows = [change(row) for row in state["rows"]]
            wanted = rows_told({"rows": [row for row in rows if row is not None]})
            table = checkpoint.state(operator["operatorId"], name)
            if change is without_group:
                table = table.drop_columns("key_group")
            found = rows_of(table, "TIMER" if is_timer else state["kind"])
            if compared is not None:
                compared[uid] += wanted.total()
            if found != wanted:
                yield f"{uid}.{name}: {(found - wanted).total()} too many, {(wanted - found).total()} missing"


def elements(checkpoint: Checkpoint, operator: str, name: str) -> list[Any]:
    """Return the elements of operator state, over all subtasks."""
    table = checkpoint.state(operator, name)
    return sorted(map(str, zip(*(told(table[each]) for each in table.column_names), strict=True)))


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a directory."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
