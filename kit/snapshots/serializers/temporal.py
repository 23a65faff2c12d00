"""Dates and times: read as numbers in Arrow's units, however large; `to_text` writes them as ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kit.snapshots.serializers.basic import Read
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Type
from kit.snapshots.serializers.writing import Writer

NANOS = 1_000_000_000
DAY_SECONDS = 86_400
COMPACT_TIMESTAMP = 3
"""The most digits of a second that a timestamp of SQL has if it is stored as ms only."""
_NANOS_OF = {"d": DAY_SECONDS * NANOS, "s": NANOS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_ISO = re.compile(r"(?:([+-]?\d{4,})-(\d\d)-(\d\d))?T?(?:(\d\d):(\d\d):(\d\d)(?:\.(\d{9}))?)?Z?")


class Temporal(Read):
    """A time that `read` returns as a number in the unit of `arrow`; `told` writes such a number as text."""

    text_arrow = pa.string()

    def __init__(
        self,
        name: str,
        arrow: pa.DataType,
        read: Callable[[Reader], Any],
        as_text: Callable[[int], str],
        write: Callable[[Writer, Any], None],
    ) -> None:
        super().__init__(name, read, arrow, is_fixed=True, write=write)
        self._as_text = as_text

    def from_arrow(self, array: pa.Array) -> list[Any]:
        if pa.types.is_string(array.type):
            return [None if each is None else self.from_text(each) for each in array.to_pylist()]
        number = pa.int32() if array.type.bit_width == 32 else pa.int64()
        return array.cast(number).to_pylist()

    def to_text(self, value: Any) -> Any:
        return None if value is None else self._as_text(value)

    def from_text(self, text: str) -> int:
        """Return the number of a time as `to_text` writes it. Raises ValueError for other text."""
        unit = "d" if pa.types.is_date(self.arrow) else self.arrow.unit
        return nanos_of(text) // _NANOS_OF[unit]


# --- ISO 8601, for any year -------------------------------------------------------------------------------------------


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def date_parts(days: int) -> tuple[int, int, int]:
    """Return year, month and day from the number of days since 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return years + era * 400 + (month <= 2), month, day


def date_text(days: int) -> str:
    """Return a date as Java's `LocalDate` writes it: years beyond 9999 have a sign."""
    year, month, day = date_parts(days)
    if year > 9999:
        return f"+{year}-{month:02}-{day:02}"
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def time_text(nanos: int) -> str:
    """Return a time of day, without a fraction or with nine digits of it."""
    seconds, fraction = divmod(nanos, NANOS)
    whole = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{whole}.{fraction:09}" if fraction else whole


def moment_text(seconds: int, nanos: int) -> str:
    """Return a date and time, from seconds since 1970 and nanoseconds."""
    days, of_day = divmod(seconds, DAY_SECONDS)
    return f"{date_text(days)}T{time_text(of_day * NANOS + nanos)}"


def nanos_of(text: str) -> int:
    """Return the nanoseconds since 1970, or since midnight, of a date, a time or both as ISO 8601 text.

    The inverse of `date_text`, `time_text` and `moment_text`. Raises ValueError for other text.
    """
    found = _ISO.fullmatch(text)
    if found is None or not text:
        raise ValueError(f"{text!r} is not a date or time of ISO 8601")
    year, month, day, hour, minute, second, fraction = (int(each) if each else 0 for each in found.groups())
    days = days_of(year, month, day) if found[1] else 0
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * NANOS + fraction


def _nanos_text(nanos: int) -> str:
    return moment_text(*divmod(nanos, NANOS))


def millis_text(millis: int) -> str:
    """Return a date and time, from ms since 1970."""
    return _nanos_text(millis * 1_000_000)


# --- Flink's serializers ----------------------------------------------------------------------------------------------


def _date(reader: Reader) -> int | None:
    year, month, day = reader.int32(), reader.int8(), reader.int8()
    if year == -(1 << 31):
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise reader.error(f"month {month}, day {day}", "a date")
    return days_of(year, month, day)


def _time(reader: Reader) -> int | None:
    hour, minute, second, nano = reader.int8(), reader.int8(), reader.int8(), reader.int32()
    if hour == -128:
        return None
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < NANOS):
        raise reader.error(f"{hour}:{minute}:{second}.{nano}", "a time of day")
    return ((hour * 60 + minute) * 60 + second) * NANOS + nano


def _date_time(reader: Reader) -> int | None:
    days, nanos = _date(reader), _time(reader)
    return None if days is None or nanos is None else days * DAY_SECONDS * NANOS + nanos


def _instant(reader: Reader) -> int | None:
    seconds, nanos = reader.int64(), reader.int32()
    return None if seconds == -(1 << 63) else seconds * NANOS + nanos


def _timestamp(reader: Reader) -> int | None:
    millis, nanos = reader.int64(), reader.int32()
    return None if millis == -(1 << 63) else millis // 1000 * NANOS + nanos


def _millis(reader: Reader) -> int | None:
    found = reader.int64()
    return None if found == -(1 << 63) else found


def _write_date(out: Writer, days: int | None) -> None:
    year, month, day = (-(1 << 31), 0, 0) if days is None else date_parts(days)
    out.int32(year)
    out += bytes([month, day])


def _write_time(out: Writer, nanos: int | None) -> None:
    if nanos is None:
        out += b"\x80\0\0\0\0\0\0"
        return
    seconds, fraction = divmod(nanos, NANOS)
    out += bytes([seconds // 3600, seconds // 60 % 60, seconds % 60])
    out.int32(fraction)


def _write_date_time(out: Writer, nanos: int | None) -> None:
    days, of_day = (None, None) if nanos is None else divmod(nanos, DAY_SECONDS * NANOS)
    _write_date(out, days)
    _write_time(out, of_day)


def _write_instant(out: Writer, nanos: int | None) -> None:
    seconds, fraction = (-(1 << 63), 0) if nanos is None else divmod(nanos, NANOS)
    out.int64(seconds)
    out.int32(fraction)


def _write_timestamp(out: Writer, nanos: int | None) -> None:
    seconds, fraction = (0, 0) if nanos is None else divmod(nanos, NANOS)
    out.int64(-(1 << 63) if nanos is None else seconds * 1000 + fraction // 1_000_000)
    out.int32(fraction)


def _write_millis(out: Writer, value: int | None) -> None:
    out.int64(-(1 << 63) if value is None else value)


def _utc(as_text: Callable[[int], str]) -> Callable[[int], str]:
    return lambda value: f"{as_text(value)}Z"


LOCAL_DATE = Temporal("LocalDate", pa.date32(), _date, date_text, _write_date)
LOCAL_TIME = Temporal("LocalTime", pa.time64("ns"), _time, time_text, _write_time)
LOCAL_DATE_TIME = Temporal("LocalDateTime", pa.timestamp("ns"), _date_time, _nanos_text, _write_date_time)
INSTANT = Temporal("Instant", pa.timestamp("ns", "UTC"), _instant, _utc(_nanos_text), _write_instant)


def millis(name: str) -> Temporal:
    """Return the type of a moment in ms since 1970."""
    return Temporal(name, pa.timestamp("ms", "UTC"), _millis, _utc(millis_text), _write_millis)


LAST_ACCESS = millis("last access")

TEMPORAL: dict[str, Type] = {
    "LocalDateSerializer": LOCAL_DATE,
    "LocalTimeSerializer": LOCAL_TIME,
    "LocalDateTimeSerializer": LOCAL_DATE_TIME,
    "InstantSerializer": INSTANT,
    "SqlTimestampSerializer": Temporal(
        "java.sql.Timestamp", pa.timestamp("ns", "UTC"), _timestamp, _utc(_nanos_text), _write_timestamp
    ),
    "SqlDateSerializer": millis("java.sql.Date"),
    "SqlTimeSerializer": millis("java.sql.Time"),
    "DateSerializer": millis("java.util.Date"),
}
"""By the class of the serializer, without its package."""


SQL_DATE = Temporal("DATE", pa.date32(), Reader.int32, date_text, Writer.int32)
SQL_TIME = Temporal("TIME", pa.time32("ms"), Reader.int32, lambda it: time_text(it * 1_000_000), Writer.int32)


def sql_timestamp(name: str, precision: int, *, is_local: bool) -> Temporal:
    """Return TIMESTAMP or TIMESTAMP_LTZ: ms, and with a precision above 3 the nanoseconds within the ms."""
    zone, mark = ("UTC", "Z") if is_local else (None, "")

    def read(reader: Reader) -> int:
        found = reader.int64()
        return sql_moment(found, reader.int32() if precision > COMPACT_TIMESTAMP else 0)

    def write(out: Writer, value: int) -> None:
        millis, nanos = millis_and_nanos(value, precision)
        out.int64(millis)
        if precision > COMPACT_TIMESTAMP:
            out.int32(nanos)

    return Temporal(name, pa.timestamp("ns", zone), read, lambda value: _nanos_text(value) + mark, write)


def sql_moment(millis: int, nanos: int) -> int:
    """Return nanoseconds since 1970, from ms and the nanoseconds within the ms."""
    return millis * 1_000_000 + nanos


def millis_and_nanos(value: int, precision: int) -> tuple[int, int]:
    """Return ms and the nanoseconds within the ms. Raises ValueError for nanoseconds beyond the precision."""
    millis, nanos = divmod(value, 1_000_000)
    if nanos and precision <= COMPACT_TIMESTAMP:
        raise ValueError(f"it has {nanos} ns within the ms, but a timestamp of precision {precision} has whole ms only")
    return millis, nanos
