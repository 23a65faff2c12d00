"""The base of all streams: the origin of their records, and their schema.

Operations in several steps (windows, joins, two streams for one function) depend on this base only. They create the
resulting stream with a function that is passed to them, so no two modules of this package import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import pyarrow as pa

from kit.core.arguments.signposts import ROWS, STREAM, no_attribute
from kit.stream.api.columns import described, event_time_column
from kit.stream.api.display import hangs_on
from kit.stream.api.transformation import Origin, Transformation
from kit.stream.api.transformations import Transformations
from kit.stream.graph.partitioners import PartitionerKind
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.display import described_html
from kit.stream.operators.event_time import TimeColumn, columns_of, described_time
from kit.stream.operators.functions.function_operator import FunctionInput

Made = TypeVar("Made")
"""The stream of an operator's records."""
MadeBy: TypeAlias = Callable[[Transformations, Transformation], Made]
"""A function that creates the stream of an added operator."""


class Stream:
    """A stream of records with the columns of `schema`."""

    def __init__(self, transformations: Transformations, origins: tuple[Origin, ...], schema: pa.Schema) -> None:
        self._transformations = transformations
        self._origins = origins
        self.schema = schema

    _signs: ClassVar[tuple[Mapping[str, str], ...]] = (STREAM,)

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, *self._signs)

        def __getitem__(self, columns: Any) -> Any:
            raise TypeError(
                f"a stream has no [{columns!r}]: select('a', 'b') keeps columns, and an expression names one as "
                "pc.field('a')"
            )

        def __iter__(self) -> Any:
            raise TypeError(f"a stream holds no rows to iterate over: {ROWS}")

        def __len__(self) -> int:
            raise TypeError(f"a stream has no length: {ROWS}")

        def __bool__(self) -> bool:
            return True

    def key_by(self, *columns: str) -> Stream:
        """Partition by key: records with equal values in these columns go to the same subtask."""
        raise NotImplementedError

    def as_input(self) -> FunctionInput:
        """Return the stream as an input of an operator: columns, key, event time."""
        return FunctionInput(self.schema, self._keys(), self._own_time_column())

    def _keys(self) -> tuple[str, ...]:
        """Return the columns of the key; () without one."""
        return ()

    def _time_column(self) -> TimeColumn | None:
        """Return the column of the nearest `assign_timestamps` upstream; None if there is none, or more than one."""
        return event_time_column(self._origins)

    def _own_time_column(self) -> TimeColumn | None:
        """Return that column, if the stream still has it."""
        column = self._time_column()
        return column if column is not None and set(columns_of(column)) <= set(self.schema.names) else None

    def _partitioned(self, kind: PartitionerKind, key_columns: tuple[str, ...] = ()) -> tuple[Origin, ...]:
        return tuple(replace(origin, partitioner=kind, key_columns=key_columns) for origin in self._origins)

    def _after_local(self, spec: OperatorSpec) -> tuple[Origin, ...]:
        """Add an operator before the partitioning, in the tasks that send the records. Return its records' origins."""
        origins = []
        for origin in self._origins:
            sent = replace(origin, partitioner=None, key_columns=(), partition_function=None)
            added = self._transformations.add(spec, (sent,))
            added.own_parallelism = origin.transformation.own_parallelism
            origins.append(replace(origin, transformation=added, output_tag=None))
        return tuple(origins)

    def _facts(self) -> dict[str, Any]:
        return {"depends on": hangs_on(self._origins), "event time": described_time(self._time_column())}

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, self._facts(), self.schema)

    def __repr__(self) -> str:
        sources = ", ".join(origin.transformation.label for origin in self._origins)
        return f"{type(self).__name__}({sources}: {described(self.schema)})"


class TwoStreams(Generic[Made]):
    """Two streams, which an operator of two inputs will take."""

    def __init__(self, made_by: MadeBy[Made], first: Stream, second: Stream) -> None:
        self._made_by = made_by
        self._first = first
        self._second = second

    def _with(self, spec: Any, first: Stream | None = None, second: Stream | None = None) -> Made:
        """Create the stream of an operator of these streams, or of others made of them."""
        first, second = first or self._first, second or self._second
        return self._made_by(first._transformations, first._transformations.add(spec, first._origins, second._origins))

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {}) + self._first._repr_html_() + self._second._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r})"
