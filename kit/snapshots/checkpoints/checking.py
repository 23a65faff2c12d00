"""What a restore would meet in the state files: types that changed since the checkpoint was taken.

`kit.restore_check` needs only the metadata. Types are in the state files: they are compared with those of a newer
checkpoint of the job, and with what a job of the kit declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.files.state_types import check_state_types
from kit.files.storage import StateFiles
from kit.restore_check import Finding, RestoreCheck, Severity
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd

_ANOTHER = "Give the changed state another name, or the operator another uid."
_MIGRATED = (
    "Flink migrates a value when fields of its POJO or Avro record were added or removed, and fails on other changes "
    "when the state is opened."
)


def types_changed(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[Finding]:
    """Yield a finding for each state whose kind, key, namespace or value differs between two checkpoints' `states`."""
    both = before.merge(after, on=["operator", "name"], suffixes=("", "_after"))
    for row in both[(both["error"] == "") & (both["error_after"] == "")].to_dict("records"):
        for part in ("kind", "key", "namespace", "value"):
            old, new = row[part], row[f"{part}_after"]
            if old != new:
                yield Finding(
                    Severity.WARNS if part == "value" else Severity.FAILS,
                    str(row["operator"]),
                    f"The {part} of state {row['name']!r} was {old}; in the newer checkpoint it is {new}.",
                    _MIGRATED if part == "value" else _ANOTHER,
                    known_by="the serializers in the state files",
                )


def not_as_declared(job: JobGraph, files: StateFiles, metadata: bytes, directory: str) -> Iterator[Finding]:
    """Yield a finding if a job of the kit declares a state other than the checkpoint has it."""
    try:
        check_state_types(job, files, metadata, directory)
    except (StateDescriptorError, StateRestoreError) as error:
        yield Finding(
            Severity.FAILS, "the job", str(error), _ANOTHER, known_by="what the job declares, and the state files"
        )


def with_types(answer: RestoreCheck, found: Sequence[Finding]) -> RestoreCheck:
    """Return the answer with the findings about types, and no longer with the one that nothing is lost."""
    if not found:
        return answer
    rest = (each for each in answer.findings if each.operator != "the job" or each.severity is not Severity.TELLS)
    return replace(answer, findings=(*found, *rest))
