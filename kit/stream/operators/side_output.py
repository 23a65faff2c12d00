"""Side outputs: additional outputs of an operator, with columns of their own.

A function emits to them with `ctx.output(tag, row)`, and a window emits late rows. Read them with `side_output(tag)` of
the operator's stream. Records of a side output that is not read are dropped.

Follows Flink's `OutputTag`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from kit.core.arguments.allowed import NAME, expect
from kit.stream.operators.spec import check_stream, columns_given, shorten


@dataclass(frozen=True, slots=True)
class OutputTag:
    """The name of a side output, and its columns: a schema, or {name: Arrow type}.

    `OutputTag("cancelled", {"flight": pa.int64()})`
    """

    name: str
    schema: pa.Schema

    def __init__(self, name: str, columns: pa.Schema | Mapping[str, pa.DataType]) -> None:
        expect(NAME.test(name), "OutputTag: name", name, "a name, by which the side output is found")
        schema = columns_given(f"OutputTag({name!r}): columns", columns)
        check_stream(schema, f"OutputTag({name!r})")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "schema", schema)

    @property
    def remedy(self) -> str:
        """The advice about rows that have other columns, for an error."""
        return f"emit rows with the columns of OutputTag({self.name!r}, ...), or declare these: {{columns}}"

    def __repr__(self) -> str:
        return f"OutputTag({self.name!r})"


def checked_tag(method: str, found: object) -> OutputTag:
    """Return the tag. Raises TypeError for anything else."""
    if isinstance(found, OutputTag):
        return found
    name = found if isinstance(found, str) and found else "late"
    raise TypeError(
        f"{method} takes an OutputTag, and found {shorten(repr(found))}: write "
        f'OutputTag({name!r}, {{"n": pa.int64()}}) once, and use it to emit rows and to read them'
    )
