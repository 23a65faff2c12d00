"""The display of a job's operators in a notebook, while the job is being built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kit.stream.api.transformation import Origin, Transformation
from kit.stream.graph.partitioners import shipping
from kit.stream.operators.spec import column_list

if TYPE_CHECKING:
    import pandas as pd


def operators_table(operators: Iterable[Transformation]) -> pd.DataFrame:
    """Return one row per operator: name, kind, uid, parallelism, inputs (with their partitioning), columns."""
    import pandas as pd

    columns = ["operator", "kind", "uid", "parallelism", "inputs", "columns"]
    return pd.DataFrame([_row(each) for each in operators], columns=columns)


def hangs_on(origins: Iterable[Origin]) -> str:
    """Return the origins of records as text: `letters by hash(letter)`."""
    said = []
    for origin in origins:
        tag = f", side output {origin.output_tag!r}" if origin.output_tag else ""
        how = f" by {shipping(origin.partitioner, origin.key_columns)}" if origin.partitioner is not None else ""
        said.append(f"{origin.transformation.label}{tag}{how}")
    return "; ".join(said)


def kind_of(operator: Transformation) -> str:
    """Return the kind of an operator: the class of its spec, or of the source or sink that it holds."""
    held = getattr(operator.spec, "source", None) or getattr(operator.spec, "sink", None)
    return type(held or operator.spec).__name__


def facts_of(operator: Transformation) -> dict[str, Any]:
    """Return the facts about one operator that a notebook shows."""
    return {
        "operator": f"{operator.label} ({kind_of(operator)})",
        "uid": operator.uid or "none: its state is lost if the job changes",
        "parallelism": operator.parallelism,
        "depends on": " and ".join(hangs_on(origins) for origins in operator.inputs),
    }


def _row(operator: Transformation) -> list[object]:
    schema = operator.spec.output_schema
    inputs = " and ".join(hangs_on(origins) for origins in operator.inputs)
    columns = "" if schema is None else column_list(schema, 200)
    return [operator.label, kind_of(operator), operator.uid or "", operator.parallelism, inputs, columns]
