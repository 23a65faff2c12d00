"""The kinds of Arrow types, and what the kit does with a column of each: one table.

`kind_of(arrow_type)` returns the row. The modules that hash keys, keep state, convert values, aggregate, write Flink's
serializers or make DataFrames read their decision there instead of asking about types one by one. What depends on a
type's parameter (a unit, a zone, a precision) or on its parts is decided where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa
from pyarrow import lib

KEY_TYPES = "integers, floats (32 or 64 bits), decimals, bool, string, binary, dates, times, or a struct of these"
"""The types that can be keys, for messages: the rows of the table with a `key` form."""


class Family(Enum):
    """Kinds whose values mean the same, whatever their width or layout."""

    NULL = "null"
    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time of day"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    INTERVAL = "interval"
    LIST = "list"
    MAP = "map"
    STRUCT = "struct"
    UNION = "union"
    DICTIONARY = "dictionary"
    RUNS = "runs of values"
    EXTENSION = "extension"
    UNKNOWN = "unknown"


class JavaHash(Enum):
    """The way to Java's `hashCode` of a key, and so to Flink's key group."""

    NUMBER = "Integer, Long, Float or Double, by the width"
    BOOL = "Boolean"
    DECIMAL = "BigDecimal of the type's scale"
    TEXT = "String, in UTF-16 code units"
    BYTES = "Arrays.hashCode(byte[])"
    STRUCT = "TupleN, the fields in order"
    VALUES = "the values of the dictionary"


class KeyForm(Enum):
    """The form in which a state keeps keys."""

    NUMBER = "a number in a numpy array, which is its own code"
    TEXT = "bytes of any length, in UTF-8"
    BYTES = "bytes of any length"
    FIXED = "a fixed number of bytes"
    STRUCT = "one form per field"


@dataclass(frozen=True, slots=True)
class ArrowKind:
    """A row of the table: a kind of Arrow type."""

    family: Family
    java_hash: JavaHash | None = None
    """None if a value of this kind has no hash code, so that it cannot be a key."""
    key: KeyForm | None = None
    """None if a state cannot keep keys of this kind. It may have a hash code: views and dictionaries are keys by their
    stored form."""
    python: type | None = None
    """The class of the values that the kit converts itself; None if it leaves them to Arrow."""
    flink: str = ""
    """Flink's serializer for a new state, without its ending `Serializer`; empty if there is none."""
    pandas: str = ""
    """The nullable type of pandas; empty if there is none."""
    width: int = 0
    """The bits of a number or time that numpy holds; 0 for others."""
    is_view: bool = False

    is_number_in_memory: bool = field(init=False)
    """True for numbers, bools and times, which are kept in a numpy array."""
    is_time: bool = field(init=False)
    """True for dates, times of day, timestamps and durations: integers with a unit."""

    def __post_init__(self) -> None:
        times = (Family.DATE, Family.TIME, Family.TIMESTAMP, Family.DURATION)
        object.__setattr__(self, "is_number_in_memory", self.key is KeyForm.NUMBER)
        object.__setattr__(self, "is_time", self.family in times)


def _number(family: Family, width: int, **more: str | type) -> ArrowKind:
    return replace(ArrowKind(family, JavaHash.NUMBER, KeyForm.NUMBER, width=width), **more)  # type: ignore[arg-type]


def _integer(width: int, pandas: str, flink: str = "") -> ArrowKind:
    return _number(Family.INTEGER, width, python=int, pandas=pandas, flink=flink)


_DECIMAL = ArrowKind(Family.DECIMAL, JavaHash.DECIMAL, KeyForm.FIXED, flink="BigDec")
_TEXT = ArrowKind(Family.TEXT, JavaHash.TEXT, KeyForm.TEXT, str, "String")
_BYTES = ArrowKind(Family.BYTES, JavaHash.BYTES, KeyForm.BYTES, bytes, "array.BytePrimitiveArray")
_LIST = ArrowKind(Family.LIST, python=list)
_OTHER_LIST = ArrowKind(Family.LIST)
_INTERVAL = ArrowKind(Family.INTERVAL)
_UNION = ArrowKind(Family.UNION)
UNKNOWN = ArrowKind(Family.UNKNOWN)
"""The row of a type that a later version of Arrow brings: it is no key, and Arrow converts its values."""

KINDS: dict[int, ArrowKind] = {
    lib.Type_NA: ArrowKind(Family.NULL),
    lib.Type_BOOL: ArrowKind(Family.BOOL, JavaHash.BOOL, KeyForm.NUMBER, bool, "Boolean", "boolean", 8),
    lib.Type_INT8: _integer(8, "Int8", "Byte"),
    lib.Type_INT16: _integer(16, "Int16", "Short"),
    lib.Type_INT32: _integer(32, "Int32", "Int"),
    lib.Type_INT64: _integer(64, "Int64", "Long"),
    lib.Type_UINT8: _integer(8, "UInt8"),
    lib.Type_UINT16: _integer(16, "UInt16"),
    lib.Type_UINT32: _integer(32, "UInt32"),
    lib.Type_UINT64: _integer(64, "UInt64"),
    lib.Type_HALF_FLOAT: ArrowKind(Family.FLOAT, width=16),
    lib.Type_FLOAT: _number(Family.FLOAT, 32, python=float, pandas="Float32", flink="Float"),
    lib.Type_DOUBLE: _number(Family.FLOAT, 64, python=float, pandas="Float64", flink="Double"),
    **dict.fromkeys((lib.Type_DECIMAL32, lib.Type_DECIMAL64, lib.Type_DECIMAL128, lib.Type_DECIMAL256), _DECIMAL),
    **dict.fromkeys((lib.Type_STRING, lib.Type_LARGE_STRING), _TEXT),
    lib.Type_STRING_VIEW: ArrowKind(Family.TEXT, JavaHash.TEXT, is_view=True),
    **dict.fromkeys((lib.Type_BINARY, lib.Type_LARGE_BINARY), _BYTES),
    lib.Type_BINARY_VIEW: ArrowKind(Family.BYTES, is_view=True),
    lib.Type_FIXED_SIZE_BINARY: ArrowKind(Family.BYTES, JavaHash.BYTES, KeyForm.FIXED),
    lib.Type_DATE32: _number(Family.DATE, 32, flink="LocalDate"),
    lib.Type_DATE64: _number(Family.DATE, 64),
    lib.Type_TIME32: _number(Family.TIME, 32, flink="LocalTime"),
    lib.Type_TIME64: _number(Family.TIME, 64, flink="LocalTime"),
    lib.Type_TIMESTAMP: _number(Family.TIMESTAMP, 64, flink="LocalDateTime"),  # with a zone: Instant
    lib.Type_DURATION: _number(Family.DURATION, 64),
    **dict.fromkeys(
        (lib.Type_INTERVAL_MONTHS, lib.Type_INTERVAL_DAY_TIME, lib.Type_INTERVAL_MONTH_DAY_NANO), _INTERVAL
    ),
    **dict.fromkeys((lib.Type_LIST, lib.Type_LARGE_LIST), _LIST),
    **dict.fromkeys((lib.Type_FIXED_SIZE_LIST, lib.Type_LIST_VIEW, lib.Type_LARGE_LIST_VIEW), _OTHER_LIST),
    lib.Type_MAP: ArrowKind(Family.MAP),
    lib.Type_STRUCT: ArrowKind(Family.STRUCT, JavaHash.STRUCT, KeyForm.STRUCT, dict),
    **dict.fromkeys((lib.Type_SPARSE_UNION, lib.Type_DENSE_UNION), _UNION),
    lib.Type_DICTIONARY: ArrowKind(Family.DICTIONARY, JavaHash.VALUES),
    lib.Type_RUN_END_ENCODED: ArrowKind(Family.RUNS),
    pa.uuid().id: ArrowKind(Family.EXTENSION),
}
"""The rows, by the number that Arrow gives each kind (`DataType.id`)."""


def kind_of(arrow_type: pa.DataType) -> ArrowKind:
    """Return the row of a type."""
    return KINDS.get(arrow_type.id, UNKNOWN)


def can_be_key(arrow_type: pa.DataType) -> bool:
    """Return True if a state can keep keys of this type: a struct, if it has fields and each of them can be a key."""
    form = kind_of(arrow_type).key
    if form is KeyForm.STRUCT:
        return arrow_type.num_fields > 0 and all(can_be_key(field.type) for field in arrow_type)
    return form is not None


def no_key(arrow_type: pa.DataType, what: str = "key") -> str:
    """Return the message for a type that cannot be a key, or another thing that is kept as keys are (`what`)."""
    return f"Arrow type {arrow_type} cannot be a {what}: use {KEY_TYPES}"
