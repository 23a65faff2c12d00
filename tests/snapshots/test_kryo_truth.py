"""States with values of Kryo inside, in the heap's layout: each row is what Flink held, or the state is refused."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit import CheckpointError
from kit.snapshots.checkpoints import Checkpoint
from tests.flink_data import kryo_cases
from tests.snapshots.truth import told

TIME = re.compile(r"(\d\d:\d\d)(:\d\d)?(?:\.(\d+?)0*)?(Z?)$")
NOT_A_BEAN = "ins.Gen$Generic"
"""The class whose fields only its code knows."""


def plain(value: Any) -> Any:
    """Return a value of the truth, or of a column, in one form: times with seconds, and floats as floats of 32 bits."""
    match value:
        case {"kryo": inner}:
            return plain(inner)
        case dict():
            return {name: plain(each) for name, each in sorted(value.items())}
        case list():
            return [plain(each) for each in value]
        case float():
            return float(np.float32(value))
        case str():
            return TIME.sub(lambda found: f"{found[1]}{found[2] or ':00'}.{found[3] or ''}{found[4]}", value)
    return value


def text(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True)


def held(checkpoint: Checkpoint, operator: str, state: Any) -> dict[str, str]:
    """Return the value of each key as text: of a map, its entries by key."""
    table = checkpoint.state(operator, state.name)
    columns = [told(table[name]) for name in ("key", "map_key", "value") if name in table.column_names]
    found: dict[str, Any] = defaultdict(list)
    for key, *rest in zip(*columns, strict=True):
        if state.kind == "MAP":
            found[text(key)].append(rest)
        else:
            (found[text(key)],) = rest
    if state.kind == "MAP":
        return {key: text(sorted(entries, key=text)) for key, entries in found.items()}
    return {key: text(value) for key, value in found.items()}


def held_or_error(checkpoint: Checkpoint, state: Any) -> dict[str, str] | str:
    """Return the value of each key, or why the state cannot be read."""
    try:
        return held(checkpoint, state.operator, state)
    except CheckpointError as error:
        return str(error)


def truths(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Return what Flink held of each state, by key; a key without entries or elements has no row."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name, value in json.loads((folder / "truth.json").read_text("utf-8"))["state"].items():
        operator, state, key = name.split("|", 2)
        if value not in (None, []) and operator != "first":
            is_map = isinstance(value, list) and value and all(isinstance(each, list) for each in value)
            found[operator, state][text(json.loads(key))] = text(sorted(value, key=text) if is_map else value)
    return found


def test_every_row_is_what_flink_held_and_only_one_class_is_refused() -> None:
    counts: Counter[str] = Counter()
    for folder in kryo_cases():
        wanted = truths(folder)
        for metadata in folder.rglob("_metadata"):
            checkpoint = kit.open_checkpoint(metadata.parent)
            for state in checkpoint.states.itertuples():
                expected = wanted.get((state.operator, state.name))
                if expected is None or state.kind not in ("VALUE", "LIST", "MAP", "REDUCING"):
                    continue
                found = held_or_error(checkpoint, state)
                if isinstance(found, str):
                    assert NOT_A_BEAN in found, (folder.name, state.name)
                    counts["refused"] += 1
                    continue
                assert found.keys() == expected.keys(), (folder.name, state.name)
                if state.value != f"bytes of {NOT_A_BEAN}":
                    assert found == expected, (folder.name, state.name)
                    counts["rows"] += len(found)
    assert counts["rows"] > 20_000 or not kryo_cases()
