"""Sources without files: given rows for lessons, and rows generated from their number for measurements."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arguments.allowed import ANY_WHOLE, LONGEST_MS, count, or_none, whole
from kit.stream.backend.types.exact_values import ONE_HAS_A_ZONE, InexactError, check_exact, exact_array, same_clock
from kit.stream.connectors.spark_frames import is_of_spark
from kit.stream.operators.rows import quoted
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.spec import columns_given, shorten

_SHORTEST_BLOCK_ROWS = 1 << 16
_LONGEST_BLOCK_ROWS = 1 << 22
_VALUES = 100
_ROWS_OF_ENDLESS_SPLIT = (1 << 48) + 10_007
"""No multiple of a block's length, or all splits would have the same rows."""
_INDEX = re.compile(r"__index_level_\d+__")
_GENERATED = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("key", "value")])


@dataclass(frozen=True, eq=False)
class _RangeSource(Source):
    """The base of both: rows in `splits` ranges of about the same length; positions are rows of the split.

    The first range has the first rows. Without `splits` there are as many as subtasks that read them when the job
    starts for the first time, so each has one. Rows of one split keep their order; between splits there is no order.
    With `splits=1` all rows come in order, from one subtask.
    """

    splits: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(splits=or_none(count(1), "one per subtask"))

    @property
    def row_count(self) -> int:
        """The number of rows in all splits together."""
        raise NotImplementedError

    def slice(self, start: int, count: int) -> pa.RecordBatch:
        """Return at least one and at most `count` rows from number `start` on."""
        raise NotImplementedError

    def enumerate_splits(self) -> list[Split]:
        """Return ranges of rows: `{"id", "start", "end"}`, the end excluded."""
        splits = self.splits or 1
        edges = [self.row_count * number // splits for number in range(splits + 1)]
        return [
            {"id": f"rows-{number}", "start": start, "end": end} for number, (start, end) in enumerate(pairwise(edges))
        ]

    def splits_for(self, parallelism: int) -> list[Split]:
        """Return one range for each subtask, unless `splits` is set."""
        if self.splits is not None:
            return self.enumerate_splits()
        cut = copy.copy(self)
        object.__setattr__(cut, "splits", parallelism)
        return cut.enumerate_splits()

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return the rows from `position` on."""
        start, end = split["start"] + position, split.get("end")
        if end is None:
            batch = self.slice(start, max_rows)
            return ReadResult(batch, position + batch.num_rows, finished=False)
        if start >= end:
            return ReadResult(None, position, finished=True)
        batch = self.slice(start, min(max_rows, end - start))
        return ReadResult(batch, position + batch.num_rows, start + batch.num_rows >= end)


@dataclass(frozen=True, eq=False)
class CollectionSource(_RangeSource):
    """Rows given as dicts, or as a table of Arrow, of polars, or of pandas (without its index), for lessons.

    `columns` is their schema, inferred if it is None. On Spark the rows are sent to the workers with the job, so they
    should not exceed some hundred MB. Write larger tables to Parquet and use `ParquetSource`. A DataFrame of Spark is
    read with `env.from_spark`.

    Each subtask reads one range of the rows, the first subtask the first range, as with Spark's `parallelize`, unless
    `splits` is set. Raises ValueError for a row that has other columns than the first one (or than `columns`), and for
    a value that does not fit.
    """

    rows: Sequence[Mapping[str, Any]] | pa.RecordBatch | Any
    columns: pa.Schema | Mapping[str, pa.DataType] | None = None
    _batch: pa.RecordBatch = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        batch: Any = self.rows
        if is_of_spark(batch):
            raise TypeError(OF_SPARK.format(given="CollectionSource"))
        if self.columns is not None:
            object.__setattr__(self, "columns", columns_given("CollectionSource: columns", self.columns))
        if not isinstance(batch, pa.RecordBatch) and _is_table(batch):
            batch = _batch_of_table(batch, self.columns)
            object.__setattr__(self, "rows", batch)  # the data is sent with the job once, not twice
        elif not isinstance(batch, pa.RecordBatch):
            if isinstance(batch, str | bytes | Mapping) or not isinstance(batch, Iterable):
                raise TypeError(f"CollectionSource takes rows: a list of dicts; found {shorten(repr(batch))}")
            batch = _batch_of(list(batch), self.columns)
        object.__setattr__(self, "_batch", batch)

    @property
    def schema(self) -> pa.Schema:
        return self._batch.schema

    @property
    def row_count(self) -> int:
        """The number of given rows."""
        return int(self._batch.num_rows)

    def slice(self, start: int, count: int) -> pa.RecordBatch:
        """Return rows by number."""
        return self._batch.slice(start, count)

    def __repr__(self) -> str:
        return f"CollectionSource({self.row_count} rows)"


OF_SPARK = (
    "{given} was given a data frame of Spark, whose rows are on Spark's workers: read it with "
    "env.from_spark(df, uid='rows')"
)


def source_of(given: Any) -> Source:
    """Return the source itself, or a `CollectionSource` of a table. Raises TypeError for anything else."""
    if isinstance(given, Source):
        return given
    if isinstance(given, pa.RecordBatch) or _is_table(given):
        return CollectionSource(given)
    if is_of_spark(given):
        raise TypeError(OF_SPARK.format(given="from_source"))
    found = f"{shorten(repr(given))} ({type(given).__name__})"
    if isinstance(given, type):
        found = f"the class {given.__name__}"
    hint = "a source such as CollectionSource(rows), a data frame or an Arrow table"
    if isinstance(given, str | PathLike):
        hint = "a source: ParquetSource(path), CsvSource(path) or TextSource(path)"
    elif isinstance(given, list | tuple):
        hint = "a source: CollectionSource(rows), with the rows as dicts"
    raise TypeError(f"from_source takes {hint}; found {found}")


def _is_table(given: Any) -> bool:
    """Return True for a table of Arrow, polars or pandas, but not for one column."""
    return hasattr(given, "__arrow_c_stream__") and (hasattr(given, "columns") or hasattr(given, "schema"))


def _batch_of_table(rows: Any, columns: pa.Schema | None) -> pa.RecordBatch:
    """Return a table as columns, those of `columns` if they are given."""
    table = pa.table(rows).replace_schema_metadata()
    table = table.select([name for name in table.column_names if not _INDEX.fullmatch(name)])
    for column in table.schema:
        _check_objects(rows, column)
    if columns is not None:
        table = table.select(columns.names)
        for column, wanted in zip(table.schema, columns, strict=True):
            if not same_clock(column.type, wanted.type):
                raise ValueError(
                    f"CollectionSource: column {column.name!r} is {column.type} in the table, and {wanted.type} in "
                    f"`columns` {ONE_HAS_A_ZONE}"
                )
        table = table.cast(columns)
    arrays = [column.combine_chunks() for column in table.columns]
    arrays = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _check_objects(rows: Any, column: pa.Field) -> None:
    """Raise ValueError for a value of a pandas column of Python objects that Arrow changed."""
    if column.name not in getattr(rows, "columns", ()) or getattr(rows[column.name], "dtype", None) != np.dtype(object):
        return
    values = [value if value == value else None for value in rows[column.name]]  # noqa: PLR0124 (NaN is a null there)
    try:
        check_exact(values, column.type)
    except InexactError as error:
        value = shorten(repr(values[error.number]))
        raise ValueError(f"CollectionSource: row {error.number}, column {column.name!r}: {value}: {error}") from None


def _batch_of(rows: list[Any], columns: pa.Schema | None) -> pa.RecordBatch:
    """Return given rows as columns. Raises ValueError, naming a row that does not fit."""
    if columns is None and not rows:
        raise ValueError("CollectionSource: there are no rows to infer a schema from; give it as `columns`")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(f"CollectionSource: row {number} is {shorten(repr(row))}, expected a dict of columns")
        if not row:
            raise ValueError(f"CollectionSource: row {number} has no columns: give each row one or more")
        names = rows[0].keys() if columns is None else set(columns.names)
        if row.keys() != names:
            expected = "row 0 has" if columns is None else "`columns` are"
            raise ValueError(
                f"CollectionSource: row {number} has the columns {quoted(row)}, but {expected} "
                f"{quoted(rows[0] if columns is None else columns.names)}; give each row all of them, None where there "
                "is no value"
            )
    names = list(rows[0]) if columns is None else columns.names
    types = [None] * len(names) if columns is None else columns.types
    try:
        arrays = [exact_array([row[name] for row in rows], type) for name, type in zip(names, types, strict=True)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"CollectionSource: {_wrong_value(rows, columns, error)}") from error
    return pa.RecordBatch.from_arrays(arrays, **({"names": names} if columns is None else {"schema": columns}))


def _wrong_value(rows: list[Any], columns: pa.Schema | None, error: Exception) -> str:
    """Return which value does not fit its column's type, or the values of the column before it."""
    for name in rows[0]:
        type = None if columns is None else columns.field(name).type
        values: list[Any] = []
        for number, row in enumerate(rows):
            try:
                exact_array([*values, row[name]], type)
            except InexactError as why:
                beside = "the rows before" if type is None else type
                return f"row {number}, column {name!r}: {shorten(repr(row[name]))} does not fit {beside}: {why}"
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
                value = f"{shorten(repr(row[name]))} ({row[name].__class__.__name__})"
                beside = f"does not fit {type or pa.array(values).type}" if type or values else f"has no type: {why}"
                return f"row {number}, column {name!r}: {value} {beside}; say the types as `columns`"
            if row[name] is not None and type is None:
                values = [*values[-1:], row[name]]
    return str(error)


@dataclass(frozen=True, eq=False)
class GeneratorSource(_RangeSource):
    """`rows` generated rows of `key` and `value` (int64), the same for the same `seed`; None: each split never ends.

    Keys are 0 to `key_count` - 1, in no order, and values 0 to 99. A row is a function of its number: keys and values
    repeat after a block of at least 65536 rows. If there are more keys than rows in a block, the keys are shifted with
    each repetition, so all occur. Reading only cuts slices from the block and costs next to nothing.
    """

    rows: int | None
    key_count: int
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(rows=or_none(whole(0, LONGEST_MS), "no end"), key_count=whole(1, LONGEST_MS), seed=ANY_WHOLE)

    @property
    def schema(self) -> pa.Schema:
        """The columns `key` and `value`, neither ever null."""
        return _GENERATED

    @property
    def row_count(self) -> int:
        """The number of rows to generate. Raises ValueError if they never end."""
        if self.rows is None:
            raise ValueError(f"{self!r} has no number of rows: it never ends")
        return self.rows

    @property
    def endless(self) -> bool:
        """Return True if the rows have no end."""
        return self.rows is None

    def enumerate_splits(self) -> list[Split]:
        """Ranges of rows; without an end each split has its own numbers, which never meet."""
        if self.rows is not None:
            return super().enumerate_splits()
        return [{"id": f"rows-{n}", "start": n * _ROWS_OF_ENDLESS_SPLIT} for n in range(self.splits or 1)]

    def slice(self, start: int, count: int) -> pa.RecordBatch:
        """Return rows by number, up to the end of the block."""
        block = _block(self.key_count, self.seed)
        repetition, offset = divmod(start, block.num_rows)
        batch = block.slice(offset, min(count, block.num_rows - offset))
        if self.key_count > block.num_rows and repetition:
            keys = batch.column(0).to_numpy() + repetition * block.num_rows % self.key_count
            keys = np.where(keys >= self.key_count, keys - self.key_count, keys)
            batch = pa.RecordBatch.from_arrays([pa.array(keys), batch.column(1)], schema=block.schema)
        return batch

    def __repr__(self) -> str:
        return f"GeneratorSource({'endless' if self.rows is None else self.rows} rows, {self.key_count} keys)"


@lru_cache(maxsize=4)
def _block(key_count: int, seed: int) -> pa.RecordBatch:
    """Return the rows that repeat: as many as there are keys, within bounds."""
    length = min(max(key_count, _SHORTEST_BLOCK_ROWS), _LONGEST_BLOCK_ROWS)
    mixed = _mix(np.arange(length, dtype=np.uint64) + np.uint64((seed * 0x9E3779B9 << 24) % 2**63))
    order = np.argsort(mixed, kind="stable")
    keys = (order % key_count).astype(np.int64)
    values = ((mixed >> np.uint64(32)) % np.uint64(_VALUES)).astype(np.int64)
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], schema=_GENERATED)


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits (the finalizer of splitmix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
