"""CSV files: what their columns are, and their rows from any position; the source is in
`kit.stream.connectors.file_sources`.

Types are inferred by Arrow over as much of each file as `_INFERRED_BYTES` says, most files in whole. What is only found
out later, in a row behind that, ends in an error that names file, line, column and value, and says how to give the
column a type.

Rows are read from the beginning of the file each time a position is sought: only counting finds a row, and Arrow counts
those that it leaves out (blank lines) among those it is told to skip.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv as pa_csv

from kit.stream.connectors import files
from kit.stream.connectors.disk import open_path
from kit.stream.operators.rows import spelled
from kit.stream.operators.sources.source import Split
from kit.stream.operators.spec import SchemaError, shorten, unique_names

NULL_VALUES = tuple(pa_csv.ConvertOptions().null_values)
"""What is null unless another list is given: nothing, and what pandas takes for it (`NA`, `NaN`, `null`, ...)."""

_INFERRED_BYTES = 64 << 20
"""So much of all files together is read to infer types, the same share of each,"""
_LEAST_INFERRED_BYTES = 4 << 20
"""but not less than this of each."""
_BLOCK_BYTES = 1 << 20
_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): (?:invalid value '(.*)'|(.*))", re.DOTALL
)
_BAD_ROW = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a file is written."""

    delimiter: str = ","
    null_values: tuple[str, ...] = NULL_VALUES
    header: bool = True
    names: tuple[str, ...] = ()
    """Those of all columns, in a file that does not say them itself."""
    quote: str | None = '"'
    escape: str | None = None
    multiline: bool = False
    encoding: str = "utf8"
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            if value is not None and len(value) != 1:
                raise ValueError(f"CsvSource: {name} is {value!r}, but must be one character")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"CsvSource: there is no encoding {self.encoding!r}") from None

    def parse_options(self) -> pa_csv.ParseOptions:
        """Arrow's words for it."""
        return pa_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            escape_char=self.escape or False,
            newlines_in_values=self.multiline,
        )

    def read_options(self) -> pa_csv.ReadOptions:
        """Arrow's words for it."""
        options = pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=self.encoding)
        if not self.header:
            options.column_names = list(self.names)
            options.autogenerate_column_names = not self.names
        return options

    def convert_options(self, schema: pa.Schema | None = None) -> pa_csv.ConvertOptions:
        """Arrow's words for it; with a schema only its columns are read, as what it says."""
        return pa_csv.ConvertOptions(
            column_types=dict(self.types) if schema is None else schema,
            include_columns=None if schema is None else schema.names,
            null_values=list(self.null_values),
            strings_can_be_null=True,
        )


def csv_header(path: str, dialect: CsvDialect) -> list[str]:
    """The column names in the first line of a file (f0, f1, ... where it has none); the lines after it may be wrong."""
    parse = dialect.parse_options()
    parse.invalid_row_handler = lambda _: "skip"
    with _open(path, dialect, parse, pa_csv.ConvertOptions(check_utf8=False)) as stream:
        names = list(stream.schema.names)
    unique_names(names, f"CsvSource({path})")
    return names


def csv_schema(paths: Sequence[str], dialect: CsvDialect) -> pa.Schema:
    """The columns of all these files, named by the header and of the types that their values have.

    Whole numbers in one file and fractions in another make a column of fractions; text in one and numbers in another
    are an error, SchemaError, which names file and column.
    """
    share = max(_INFERRED_BYTES // len(paths), _LEAST_INFERRED_BYTES)
    first = _inferred(paths[0], dialect, share)
    columns = {column.name: column.type for column in first}
    remedy = '; give the type: CsvSource(..., types={"<column>": pa.string()})'
    for path in paths[1:]:
        inferred = _inferred(path, dialect, share)
        for name in columns.keys() & set(inferred.names):
            both = _both(columns[name], inferred.field(name).type)
            if both is not None:
                columns[name] = both
                inferred = inferred.set(inferred.get_field_index(name), pa.field(name, both))
        expected = pa.schema(list(columns.items()))
        files.check_columns(path, inferred, paths[0], expected, remedy)
    return pa.schema([(name, pa.string() if pa.types.is_null(type) else type) for name, type in columns.items()])


def _both(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of a column that is one in one file and the other in another; None when there is no such."""
    for this, that in ((one, other), (other, one)):
        if this == that or pa.types.is_null(this):
            return that
        if pa.types.is_integer(this) and pa.types.is_floating(that):
            return that
        if pa.types.is_date(this) and pa.types.is_timestamp(that) and that.tz is None:
            return that
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one.tz == other.tz:
        return pa.timestamp("ns", one.tz)
    return None


def _inferred(path: str, dialect: CsvDialect, most: int) -> pa.Schema:
    """The columns of one file, as far as its first `most` bytes tell."""
    names = csv_header(path, dialect)
    for name in dialect.types:
        if name not in names:
            columns = ", ".join(map(repr, names))
            raise SchemaError(f"CsvSource({path}): types has {name!r}, and the columns are {columns}")
    system, inner = open_path(path)
    with system.open_input_stream(inner) as stream:
        data = stream.read(most)
        if len(data) == most and stream.read(1):
            data = data[: data.rfind(b"\n") + 1]
    try:
        table = pa_csv.read_csv(
            io.BytesIO(data), dialect.read_options(), dialect.parse_options(), dialect.convert_options()
        )
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_error(path, dialect, str(error))) from error
    return table.schema.remove_metadata()


def _open(
    path: str, dialect: CsvDialect, parse: pa_csv.ParseOptions, convert: pa_csv.ConvertOptions
) -> pa_csv.CSVStreamingReader:
    system, inner = open_path(path)
    try:
        return pa_csv.open_csv(system.open_input_stream(inner), dialect.read_options(), parse, convert)
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_error(path, dialect, str(error))) from error


class CsvReader(files.StreamReader):
    """Reads the columns of `schema` from CSV files; those in a split's `keys` have one value."""

    def __init__(self, schema: pa.Schema, dialect: CsvDialect) -> None:
        super().__init__()
        self._schema = schema
        self._dialect = dialect

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        path, keys = split["path"], split.get("keys", {})
        stored = pa.schema([column for column in self._schema if column.name not in keys])
        stream = _open(path, self._dialect, self._dialect.parse_options(), self._dialect.convert_options(stored))
        before = 0
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise ValueError(_csv_error(path, self._dialect, str(error))) from error
            skip = min(max(position - before, 0), batch.num_rows)
            before += batch.num_rows
            if skip < batch.num_rows:
                yield files.with_keys(batch.slice(skip), keys, self._schema)


def _csv_error(path: str, dialect: CsvDialect, message: str) -> str:
    """Arrow's message, with the names of file and column in it, and what to do."""
    if bad := _BAD_VALUE.search(message):
        column, line, wanted, value, other = bad.groups()
        name = csv_header(path, dialect)[int(column)]
        where = f"{path}, line {line}" if line else path
        if other is not None:
            hint = f"; is it {dialect.encoding}? give its encoding=" if "UTF8" in other else ""
            return f"{where}, column {name!r}: {other}{hint}"
        fitting = spelled(_type_of(value))
        return (
            f"{where}, column {name!r}: {shorten(repr(value))} is not of type {wanted}; where such values are right, "
            f"give the type: CsvSource(..., types={{{name!r}: {fitting}}})"
        )
    if bad := _BAD_ROW.search(message):
        line, wanted, found, text = bad.groups()
        where = f"{path}, line {line}" if line else path
        return f"{where}: {found} values where the header has {wanted} columns: {shorten(repr(text))}"
    return f"{path} cannot be read as CSV: {message}"


def _type_of(value: str) -> pa.DataType:
    """The type that goes with a value which did not fit."""
    try:
        inferred = pa_csv.read_csv(io.BytesIO(f"x\n{value}\n".encode()))
        found = inferred.schema.field(0).type
    except pa.ArrowInvalid:
        return pa.string()
    return found if pa.types.is_floating(found) else pa.string()
