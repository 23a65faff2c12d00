"""CSV files: their columns, and their rows from any position; the source is in `kit.stream.connectors.file_sources`.

Arrow infers types from the first `_INFERRED_BYTES` of all files together, which is most files entirely. If a later row
does not fit, an error names file, line, column and value, and says how to give the column a type.

To find a position, rows are read from the beginning of the file, because only counting finds a row. Arrow counts the
rows that it leaves out (blank lines) among those that it skips.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv as pa_csv

from kit.core.arguments.allowed import CHARACTER, TEXT, expect
from kit.filesystems.places import open_path
from kit.stream.connectors.found_files import check_columns
from kit.stream.connectors.stream_reader import StreamReader, with_keys
from kit.stream.operators.rows import spelled
from kit.stream.operators.sources.source import Split
from kit.stream.operators.spec import SchemaError, shorten, unique_names

NULL_VALUES = tuple(pa_csv.ConvertOptions().null_values)
"""The default texts for null: the empty text, and those of pandas (`NA`, `NaN`, `null`, ...)."""

_INFERRED_BYTES = 64 << 20
"""The bytes of all files together that are read to infer types, the same share of each,"""
_LEAST_INFERRED_BYTES = 4 << 20
"""but at least this many bytes of each."""
_BLOCK_BYTES = 1 << 20
_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): (?:invalid value '(.*)'|(.*))", re.DOTALL
)
_BAD_ROW = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)

_OUT_OF_STEP = ("out of sync with chunker", "straddl")
"""Words of Arrow's errors for a block that does not end where a row does."""


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The format of a file."""

    delimiter: str = ","
    null_values: tuple[str, ...] = NULL_VALUES
    header: bool = True
    names: tuple[str, ...] = ()
    """The names of all columns, for a file without a header."""
    quote: str | None = '"'
    escape: str | None = None
    multiline: bool = False
    encoding: str = "utf8"
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            expect(value is None or CHARACTER.test(value), f"CsvSource: {name}", value, CHARACTER.text)
        expect(TEXT.test(self.encoding), "CsvSource: encoding", self.encoding, "a name, such as 'utf8'")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"CsvSource: there is no encoding {self.encoding!r}") from None

    def parse_options(self) -> pa_csv.ParseOptions:
        """Return Arrow's options for parsing."""
        return pa_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            escape_char=self.escape or False,
            newlines_in_values=self.multiline,
        )

    def read_options(self) -> pa_csv.ReadOptions:
        """Return Arrow's options for reading."""
        options = pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=self.encoding)
        if not self.header:
            options.column_names = list(self.names)
            options.autogenerate_column_names = not self.names
        return options

    def convert_options(self, schema: pa.Schema | None = None) -> pa_csv.ConvertOptions:
        """Return Arrow's options for conversion; with a schema, only its columns are read, with its types."""
        return pa_csv.ConvertOptions(
            column_types=dict(self.types) if schema is None else schema,
            include_columns=None if schema is None else schema.names,
            null_values=list(self.null_values),
            strings_can_be_null=True,
        )


def csv_header(path: str, dialect: CsvDialect) -> list[str]:
    """Return the column names in a file's first line (f0, f1, ... without a header); later lines may be invalid."""
    parse = dialect.parse_options()
    parse.invalid_row_handler = lambda _: "skip"
    with _open(path, dialect, parse, pa_csv.ConvertOptions(check_utf8=False)) as stream:
        names = list(stream.schema.names)
    unique_names(names, f"CsvSource({path})")
    return names


def csv_schema(paths: Sequence[str], dialect: CsvDialect) -> pa.Schema:
    """Return the columns of all these files, with names from the header and types inferred from the values.

    Whole numbers in one file and fractions in another make a column of fractions. Text in one and numbers in another
    raise SchemaError, which names file and column.
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
        check_columns(path, inferred, paths[0], expected, remedy)
    return pa.schema([(name, pa.string() if pa.types.is_null(type) else type) for name, type in columns.items()])


def _both(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of a column that has one type in one file and another in the other, or None if there is none."""
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
    """Return the columns of one file, inferred from its first `most` bytes."""
    names = csv_header(path, dialect)
    for name in dialect.types:
        if name not in names:
            columns = ", ".join(map(repr, names))
            raise SchemaError(f"CsvSource({path}): types has {name!r}, and the columns are {columns}")
    system, inner = open_path(path)
    with system.open_stream(inner) as stream:
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
        return pa_csv.open_csv(system.open_stream(inner), dialect.read_options(), parse, convert)
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_error(path, dialect, str(error))) from error


class CsvReader(StreamReader):
    """A reader of the columns of `schema` from CSV files; those in a split's `keys` have one value."""

    def __init__(self, schema: pa.Schema, dialect: CsvDialect) -> None:
        super().__init__()
        self._schema = schema
        self._dialect = dialect

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        path, keys = split["path"], split.get("keys", {})
        stored = pa.schema([column for column in self._schema if column.name not in keys])
        _check_names(path, self._dialect, stored)
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
                yield with_keys(batch.slice(skip), keys, self._schema)


def _check_names(path: str, dialect: CsvDialect, columns: pa.Schema) -> None:
    """Raise SchemaError if a file does not have one of these columns."""
    there = csv_header(path, dialect)
    for name in columns.names:
        if name not in there:
            raise SchemaError(f"{path} has no column {name!r}; its columns are {', '.join(map(repr, there))}")


def _csv_error(path: str, dialect: CsvDialect, message: str) -> str:
    """Return Arrow's message with the names of file and column, and what to do."""
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
        problem = f"{where}: {found} values where the header has {wanted} columns: {shorten(repr(text))}"
        if not dialect.multiline and dialect.quote and dialect.quote in text:
            problem += "; if quoted values have line ends, read it with CsvSource(..., multiline=True)"
        return problem
    if not dialect.multiline and any(each in message for each in _OUT_OF_STEP):
        return (
            f"{path} cannot be read as CSV, probably because quoted values have line ends: if they do, read it with "
            f"CsvSource(..., multiline=True) ({message})"
        )
    return f"{path} cannot be read as CSV: {message}"


def _type_of(value: str) -> pa.DataType:
    """Return the type of a value which did not fit."""
    try:
        inferred = pa_csv.read_csv(io.BytesIO(f"x\n{value}\n".encode()))
        found = inferred.schema.field(0).type
    except pa.ArrowInvalid:
        return pa.string()
    return found if pa.types.is_floating(found) else pa.string()
