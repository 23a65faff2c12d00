"""The state in a checkpoint, the kit's or Flink's, as a source of Spark.

    spark.read.format("checkpoint").option("operator", "totals").option("state", "total").load(path)

Each subtask's range of key groups is a partition, or several if it is large. A filter on `key_group` reads only these
key groups, and a filter for a key reads only its key group, where the kit knows how the key is hashed. Operator state
is one partition.

Spark plans each query in a new process, which imports this module: what decodes state is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kit.files.storage import StateFiles
from kit.filesystems.places import absolute
from kit.hosts.spark.session import PUSHING_FILTERS
from kit.snapshots.checkpoints.located import keyed_bytes, list_names, located
from kit.snapshots.checkpoints.naming import operator_named

if TYPE_CHECKING:
    from kit.snapshots.checkpoints.checkpoint import Checkpoint

GROUP, KEY = "key_group", "key"
PART_BYTES = 1 << 26
"""The bytes of state that one partition reads."""
Test = Callable[[Any], bool]


def register_checkpoints(spark: SparkSession) -> None:
    """Let a session that `create_session` did not make read state with `spark.read.format("checkpoint")`.

    Spark finds the format by itself (`pyspark_checkpoint`), and refuses to read it without this setting.
    """
    for name, value in PUSHING_FILTERS.items():
        spark.conf.set(name, value)


class CheckpointState(DataSource):
    """A state of an operator in a checkpoint; the columns are those of `Checkpoint.state`.

    Options: `path` of the checkpoint, `operator` (its uid, name or id), `state` (its name). With `follow` "true", files
    outside the checkpoint's directories are read too.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "checkpoint"

    def schema(self) -> StructType:
        """Return the columns, which the first rows of the state show. Raises ValueError for missing options."""
        from kit.hosts.spark.frames.output_columns import spark_schema

        columns = spark_schema(
            _columns_of(self._wanted), self.name(), "read it with kit.open_checkpoint(path).state(...)"
        )
        if GROUP in columns.names:
            for name in (GROUP, KEY):  # no state has a null key, and Spark reads a column without nulls faster
                columns[name].nullable = False
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of these columns. Raises ValueError for missing options."""
        return StateReader(self._wanted, schema)

    @property
    def _wanted(self) -> WantedState:
        missing = [name for name in ("path", "operator", "state") if not self.options.get(name)]
        if missing:
            raise ValueError(
                f"format 'checkpoint' needs {' and '.join(map(repr, missing))}: write spark.read.format('checkpoint')"
                ".option('operator', uid).option('state', name).load(path)"
            )
        follow = str(self.options.get("follow", "false")).lower() == "true"
        return WantedState(absolute(self.options["path"]), self.options["operator"], self.options["state"], follow)


@dataclass(frozen=True, slots=True)
class WantedState:
    """A state of an operator in a checkpoint."""

    path: str
    operator: str
    state: str
    follow: bool

    def open(self) -> Checkpoint:
        """Open the checkpoint."""
        from kit.snapshots.checkpoints.checkpoint import open_checkpoint

        return open_checkpoint(self.path, follow=self.follow)


@dataclass
class KeyGroups(InputPartition):
    """Key groups of one subtask; None stands for operator state, which has none."""

    groups: list[int] | None


class StateReader(DataSourceReader):
    """The reader of a state, as rows in the columns of `schema`."""

    def __init__(self, wanted: WantedState, schema: StructType) -> None:
        self._wanted = wanted
        self._schema = schema
        self._tests: list[Test] = []
        """The filters on key groups: a row passes all of them."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        """Take the filters that key groups decide, and yield those that Spark has to apply to the rows."""
        for each in filters:
            test = _TESTS.get(type(each).__name__) if each.__dict__.get("attribute") == (GROUP,) else None
            if test is not None:
                self._tests.append(test(each.value))
                continue
            if type(each).__name__ in ("EqualTo", "In") and each.attribute == (KEY,):
                self._push_keys(each.value if type(each).__name__ == "In" else (each.value,))
            yield each

    def _push_keys(self, keys: Iterable[Any]) -> None:
        checkpoint = self._wanted.open()
        groups = {checkpoint.key_group_of(self._wanted.operator, self._wanted.state, key) for key in keys}
        if None not in groups:
            self._tests.append(groups.__contains__)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the key groups of each subtask that pass the filters, in parts of about `PART_BYTES`."""
        operators = located(self._wanted.path, StateFiles()).metadata.operator_states
        operator = operator_named(operators, self._wanted.operator)
        is_list = any(self._wanted.state in list_names(state) for state in operator.subtask_states.values())
        if is_list and GROUP not in self._schema.names:
            return [KeyGroups(None)]
        sizes = keyed_bytes(operator)
        wanted = [
            (len(span), size, [group for group in span if all(test(group) for test in self._tests)])
            for span, size in sizes.items()
        ]
        found = [KeyGroups(part) for many, size, groups in wanted for part in _parts(groups, size // many)]
        return found or [KeyGroups([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the key groups."""
        assert isinstance(partition, KeyGroups)
        columns = _in_arrow(self._schema)
        for table in _tables(self._wanted, partition.groups):
            arrays = [_column(table, column) for column in columns]
            yield from pa.table(arrays, schema=columns).to_batches()


def _parts(groups: list[int], bytes_each: int) -> Iterator[list[int]]:
    """Yield key groups in parts of about `PART_BYTES`, so that a large subtask keeps several cores busy."""
    count = max(1, min(len(groups), -(-len(groups) * bytes_each // PART_BYTES)))
    edges = [len(groups) * place // count for place in range(count + 1)]
    yield from (groups[start:end] for start, end in pairwise(edges) if end > start)


def _in_arrow(schema: StructType) -> pa.Schema:
    """Return Spark's columns in the types of Arrow, with times in UTC, which newer PySpark needs as an argument."""
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def _tables(wanted: WantedState, groups: list[int] | None) -> Iterator[pa.Table]:
    checkpoint = wanted.open()
    if groups is None:
        yield checkpoint.state(wanted.operator, wanted.state)
    elif groups:
        yield from checkpoint.stream(wanted.operator, wanted.state, key_groups=groups)


def _column(table: pa.Table, column: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Return a column of a table in the type declared to Spark; null if the table does not have it."""
    has_column = column.name in table.column_names
    found = table.column(column.name) if has_column else pa.nulls(table.num_rows, column.type)
    if not column.nullable and found.null_count:
        raise ValueError(
            f"column {column.name!r} was declared NOT NULL and has {found.null_count} nulls in {table.num_rows} rows: "
            "declare it without NOT NULL in spark.read.schema(...)"
        )
    try:
        return found.cast(column.type, safe=False)
    except pa.ArrowException as error:
        raise ValueError(
            f"column {column.name!r} of the state is {column.type} in its first rows and {found.type} here: {error}; "
            "give spark.read.schema(...) with a type that holds both"
        ) from error


def _columns_of(wanted: WantedState) -> pa.Schema:
    """Return the columns of a state: those of its first rows, and of more if a column has only nulls there."""
    checkpoint = wanted.open()
    keyed = bool(checkpoint.keyed_bytes(wanted.operator))
    columns: pa.Schema | None = None
    if keyed:
        with suppress(KeyError):  # operator state beside keyed state
            for table in checkpoint.stream(wanted.operator, wanted.state):
                columns = table.schema if columns is None else pa.unify_schemas([columns, table.schema])
                if not any(pa.types.is_null(column.type) for column in columns):
                    return columns
    return columns or checkpoint.state(wanted.operator, wanted.state).schema


_TESTS: Mapping[str, Callable[[Any], Test]] = {
    "EqualTo": lambda value: lambda group: group == value,
    "In": lambda values: lambda group: group in values,
    "GreaterThan": lambda value: lambda group: group > value,
    "GreaterThanOrEqual": lambda value: lambda group: group >= value,
    "LessThan": lambda value: lambda group: group < value,
    "LessThanOrEqual": lambda value: lambda group: group <= value,
}
"""Spark's filters on `key_group`, by the name of their class: PySpark has the classes since 4.1."""
