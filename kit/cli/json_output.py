"""What `--json` prints: the columns of each command's rows, with their types.

A program may rely on them. `VERSION` changes when a column is renamed, removed, or gets another type or meaning; new
columns may come at the end without a new version. The documentation has the same table.

`kit state`, `kit in-flight` and `kit diff --values` print rows of state, whose columns depend on the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1

TEXT, INTEGER, NUMBER, BOOLEAN, BYTES = "text", "integer", "number", "boolean", "bytes"
OR_NULL = " or null"
Columns = dict[str, tuple[str, str]]
"""The type and the meaning of each column, in order."""

_OPERATOR: Columns = {"operator": (TEXT, "its uid; without one its name, else its id in hexadecimal")}
_SUBTASK: Columns = _OPERATOR | {"subtask": (INTEGER, "the index of the subtask, from 0")}
_BY_KIND: Columns = {
    "keyed_bytes": (INTEGER, "bytes of managed keyed state"),
    "raw_keyed_bytes": (INTEGER, "bytes of raw keyed state, such as timers on the heap"),
    "operator_bytes": (INTEGER, "bytes of managed operator state"),
    "raw_operator_bytes": (INTEGER, "bytes of raw operator state"),
    "input_channel_bytes": (INTEGER, "bytes of in-flight data that had arrived"),
    "output_channel_bytes": (INTEGER, "bytes of in-flight data that had not been sent"),
}
_CHANGES: Columns = {
    "added": (INTEGER, "rows that only the later checkpoint has"),
    "removed": (INTEGER, "rows that only the earlier one has"),
    "changed": (INTEGER, "rows of both whose values differ"),
}
_OF_SERIES: Columns = {
    "checkpoint_id": (INTEGER, "the number of the checkpoint"),
    "directory": (TEXT, "relative to the directory given"),
}

OUTPUTS: dict[str, Columns] = {
    "kit ls": {
        "directory": (TEXT, "relative to the directory given"),
        "checkpoint_id": (INTEGER + OR_NULL, "the number of the checkpoint; null if its metadata cannot be read"),
        "savepoint": (BOOLEAN + OR_NULL, "null if the metadata, before version 4, does not say"),
        "complete": (BOOLEAN, "its metadata can be read"),
        "restorable": (BOOLEAN + OR_NULL, "all its files are there; null if some are outside and were not looked at"),
        "operators": (INTEGER, "the number of operators"),
        "bytes": (INTEGER, "bytes of all state"),
        "problem": (TEXT, "why it cannot be restored; empty if it can"),
    },
    "kit show --table operators": _OPERATOR
    | {
        "uid": (TEXT + OR_NULL, "null if the metadata has none"),
        "name": (TEXT + OR_NULL, "null if the metadata has none"),
        "operator_id": (TEXT, "32 hexadecimal digits"),
        "parallelism": (INTEGER, "the number of its subtasks"),
        "max_parallelism": (INTEGER, "the number of its key groups"),
        "subtasks": (INTEGER, "subtasks that reported"),
        "finished": (BOOLEAN, "all subtasks had finished"),
        "bytes": (INTEGER, "bytes of all its state"),
        "written_bytes": (INTEGER, "bytes that this checkpoint wrote, without those of earlier ones"),
        **_BY_KIND,
        "coordinator_bytes": (INTEGER, "bytes of the state of its coordinator"),
    },
    "kit show --table subtasks": _SUBTASK
    | {
        "finished": (BOOLEAN, "it had finished"),
        "bytes": (INTEGER, "bytes of all its state"),
        **_BY_KIND,
        "key_groups": (INTEGER, "the number of its key groups"),
        "first_key_group": (INTEGER + OR_NULL, "null without keyed state"),
        "last_key_group": (INTEGER + OR_NULL, "null without keyed state"),
    },
    "kit show --table states": _OPERATOR
    | {
        "name": (TEXT, "the state's; empty if a file cannot be read"),
        "kind": (TEXT, "VALUE, LIST, MAP, REDUCING, AGGREGATING, TIMER; SPLIT_DISTRIBUTE, UNION, BROADCAST"),
        "key": (TEXT, "the type of the key; empty if it has none"),
        "namespace": (TEXT, "the type of the namespace; empty if it has none"),
        "value": (TEXT, "the type of the value"),
        "error": (TEXT, "why a file cannot be read; empty if it can"),
    },
    "kit show --table handles": _SUBTASK
    | {
        "state": (TEXT, "the kind of state"),
        "type": (TEXT, "Flink's class of the handle, or the name of a file of RocksDB"),
        "bytes": (INTEGER, "bytes that the handle refers to"),
        "first_key_group": (INTEGER + OR_NULL, "null if it has no key groups"),
        "last_key_group": (INTEGER + OR_NULL, "null if it has no key groups"),
        "file": (TEXT + OR_NULL, "the path as recorded; null if inline"),
        "inline": (BOOLEAN, "the bytes are in the metadata"),
    },
    "kit show --table key-groups": _SUBTASK
    | {
        "key_group": (INTEGER, "the key group"),
        "bytes": (INTEGER, "its bytes, of all states"),
    },
    "kit show --table operator-state": _SUBTASK
    | {
        "kind": (TEXT, "managed or raw"),
        "name": (TEXT, "the state's"),
        "mode": (TEXT, "SPLIT_DISTRIBUTE, UNION or BROADCAST"),
        "entries": (INTEGER, "the number of entries"),
        "file": (TEXT + OR_NULL, "the path as recorded; null if inline"),
    },
    "kit show --table channel-state": _SUBTASK
    | {
        "side": (TEXT, "input or output"),
        "gate": (INTEGER, "the input gate, or of an output the result partition"),
        "channel": (INTEGER, "the channel or subpartition"),
        "buffers": (INTEGER, "the number of buffers"),
        "bytes": (INTEGER, "bytes of the buffers"),
        "file": (TEXT + OR_NULL, "the path as recorded; null if inline"),
    },
    "kit show --table files": {
        "file": (TEXT, "the path as recorded"),
        "bytes": (INTEGER, "its bytes as recorded"),
        "operators": (TEXT, "the operators that use it, separated by commas"),
        "found": (TEXT, "where it is now; empty if it was not found"),
        "problem": (TEXT, "why it was not found, or is too short; empty if it is complete"),
    },
    "kit show --table master-state": {
        "kind": (TEXT, "master hook, coordinator, or lineage"),
        "name": (TEXT, "the hook's identifier, or the operator"),
        "version": (INTEGER + OR_NULL, "the version of the hook's serializer"),
        "bytes": (INTEGER, "the number of its bytes"),
        "data": (BYTES, "the bytes"),
    },
    "kit show --table properties": {
        "property": (TEXT, "its name"),
        "value": (TEXT, "its value as text"),
    },
    "kit size": _OPERATOR
    | {
        "state": (TEXT, "the state's name, or in parentheses what else the bytes are"),
        "kind": (TEXT, "keyed, or another kind"),
        "entries": (INTEGER + OR_NULL, "the number of entries; null if it is not known"),
        "bytes": (INTEGER, "its bytes in the files; of a shared file its share"),
        "share": (NUMBER, "of all state, from 0 to 1"),
    },
    "kit size DIRECTORY": _OF_SERIES
    | {
        "bytes": (INTEGER, "bytes of all state"),
        "grown_bytes": (INTEGER, "since the checkpoint before; negative if it shrank"),
        "files": (INTEGER, "the number of files it refers to"),
        "new_files": (INTEGER, "those to which no earlier one refers"),
        "new_bytes": (INTEGER, "their bytes"),
        "fair_bytes": (INTEGER, "its bytes, with each file split among the checkpoints that refer to it"),
        "freed_bytes": (INTEGER, "bytes that discarding it would free"),
        "metadata_bytes": (INTEGER, "the size of its metadata"),
    },
    "kit size DIRECTORY --incremental": _OF_SERIES
    | {
        "written_bytes": (INTEGER, "bytes that it wrote"),
        "changed_bytes": (INTEGER, "bytes of rows that changed, and of all state that is not keyed"),
        "saved_bytes": (INTEGER, "the difference, at most"),
    },
    "kit orphans": {
        "file": (TEXT, "relative to the directory given"),
        "bytes": (INTEGER, "its size"),
    },
    "kit check": {
        "severity": (TEXT, "fails, warns or tells"),
        "operator": (TEXT, "whom it is about"),
        "found": (TEXT, "a sentence"),
        "effect": (TEXT, "what becomes of rows or state; empty if nothing"),
        "fix": (TEXT, "what to do; empty if there is nothing to do"),
        "known_by": (TEXT, "what the finding is based on"),
        "flink": (TEXT, "the message with which Flink fails; empty if it does not"),
    },
    "kit verify": _SUBTASK
    | {
        "kind": (TEXT, "the kind of state"),
        "file": (TEXT, "the path of the file, or of the metadata that holds the bytes"),
        "bytes": (INTEGER, "bytes of the state in it"),
        "checked": (TEXT, "checksums, layout or size; empty if it was not read completely"),
        "result": (TEXT, "sound, damaged or not read"),
        "problem": (TEXT, "file, place and problem; empty if it is sound"),
    },
    "kit diff": _OPERATOR
    | {
        "name": (TEXT, "the state's"),
        "kind": (TEXT, "the kind of state"),
        "rows_before": (INTEGER + OR_NULL, "null if it cannot be read"),
        "rows_after": (INTEGER + OR_NULL, "null if it cannot be read"),
        **{name: (f"{kind}{OR_NULL}", meaning) for name, (kind, meaning) in _CHANGES.items()},
        "error": (TEXT, "why it cannot be read; empty if it can"),
    },
    "kit diff --subtasks": _SUBTASK
    | {
        "bytes_before": (INTEGER, "bytes of all its state in the earlier checkpoint"),
        "bytes_after": (INTEGER, "bytes in the later one"),
        "grown_bytes": (INTEGER, "the difference"),
        **_CHANGES,
    },
    "kit plan": {
        "max_parallelism": (INTEGER, "the candidate for the number of key groups"),
        "parallelism": (INTEGER, "the candidate for the number of subtasks"),
        "busiest": (NUMBER, "the load of the busiest subtask by the mean"),
        "by_key_groups": (NUMBER, "the same if all key groups had the same load"),
        "idle": (INTEGER, "subtasks without a key"),
        "headroom": (NUMBER, "the maximum by the parallelism: how far the job can still be scaled"),
    },
    "kit advise": {
        "symptom": (TEXT, "what is wrong"),
        "where": (TEXT, "the tasks it is about"),
        "told": (TEXT, "a sentence with the figures"),
        "do": (TEXT, "what to do"),
        "page": (TEXT, "the page of Flink's documentation"),
    },
    "kit advise --failures-every-s": {
        "interval_ms": (INTEGER, "the candidate for the interval"),
        "checkpoints": (NUMBER, "the share of time that checkpoints cost, from 0 to 1"),
        "repeated": (NUMBER, "the share of time in which work is repeated"),
        "restarts": (NUMBER, "the share of time that restarts take"),
        "lost": (NUMBER, "the sum of these"),
        "best": (BOOLEAN, "the interval that loses least"),
    },
    "kit edit": {
        "operation": (TEXT, "the change"),
        "operator": (TEXT, "whom it changes"),
        "detail": (TEXT, "what is changed to what"),
    },
}


def json_columns() -> pd.DataFrame:
    """Return one row for each column that `--json` prints: command, column, type, meaning."""
    import pandas as pd

    rows = [(command, name, *column) for command, columns in OUTPUTS.items() for name, column in columns.items()]
    return pd.DataFrame(rows, columns=["command", "column", "type", "meaning"])
