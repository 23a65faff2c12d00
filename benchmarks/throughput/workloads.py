"""The workloads: their rows, their results, and the checksums of these. Only numpy is needed.

A row is a function of its number, the same in every system and language: `scatter` is splitmix64, its upper 63 bits.

    W1   sum and count by key: 100,000 keys
    W1r  the same, 5 million keys spread over 64 bits.
    W2   words counted: the English text of Python's own documentation, lines of a file.
    W3   sum by key and tumbling window of a second of event time; 10,000 keys. Rows are up to 2 s out of order, within
         the delay of watermarks: no row is dropped, and a window fires once.
    W4   two streams joined by key, pairs at most a second of event time apart; 100,000 keys, one pair a row.
    W5   a Python function for each row, with keyed state: the running total of its key, emitted with each row.
    W6   a Python function for each row, without state
    W7   sum, count and ten last values by key, 2 million spread keys: state of four times the memory that slots may use
         for it. Each key occurs once before the rows that are spread evenly. The kit and Flink keep it on disk.
    W7z  the same, but with keys after Zipf's law (exponent 1.1), which within an octave of ranks are equally frequent

Results are compared by a checksum that does not depend on the order of the rows: the sum of `fold` of each row.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("W1", "W1r", "W2", "W3", "W4", "W5", "W6", "W7", "W7z")
WHAT = {
    "W1": "keyed sum, 100,000 keys",
    "W1r": "keyed sum, 5 million spread keys",
    "W2": "word count",
    "W3": "tumbling windows by key",
    "W4": "keyed join of two streams",
    "W5": "Python function per row, keyed state",
    "W6": "Python function per row",
    "W7": "state on disk, even keys",
    "W7z": "state on disk, Zipf keys",
}

KEYS, SPREAD_KEYS, WINDOW_KEYS, WIDE_KEYS = 100_000, 5_000_000, 10_000, 2_000_000
ON_DISK = ("W7", "W7z")
ROWS_ON_DISK = 2 * WIDE_KEYS
"""Of all peers, whatever they take: each key once, and as many rows again."""
LAST_VALUES = 10
STATE_MEMORY_MB = 26
"""For each of two slots: a fourth of the 104 bytes of each key of W7."""
OCTAVES = (
    130_296_209,
    229_994_871,
    314_013_513,
    388_531_740,
    456_332_351,
    518_805_605,
    576_732_505,
    630_612_038,
    680_805_204,
    727_600_650,
    771_245_361,
    811_959_397,
    849_943_242,
    885_381_698,
    918_446_144,
    949_295_987,
    978_079_734,
    1_004_935_838,
    1_029_993_431,
    1_053_372_974,
    1_073_741_824,
)
"""Of 2 ** 30 rows of W7z, how many have a rank below 2, 4, 8, ..."""
VALUES = 100
WINDOW_MS, DISORDER_MS = 1_000, 2_000
WINDOW_ROWS_PER_MS = 200
JOIN_ROWS_PER_MS, JOIN_WITHIN_MS = 50, 1_000
START_MS = 10_000
"""Event time of row 0, were it in order."""
WORDS_PER_FILE = 1_000_000
FOLD = np.uint64(0x9E3779B97F4A7C15)

_CHUNK = 1 << 20
_MASK = (1 << 64) - 1
Columns = dict[str, Any]


# --- rows ------------------------------------------------------------------------------------------------------------


def scatter(numbers: Any) -> Any:
    """splitmix64 of each number, without its lowest bit: int64, 0 or more."""
    mixed = numbers.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    shifted = mixed >> np.uint64(30)
    mixed ^= shifted
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(mixed, np.uint64(27), out=shifted)
    mixed ^= shifted
    mixed *= np.uint64(0x94D049BB133111EB)
    np.right_shift(mixed, np.uint64(31), out=shifted)
    mixed ^= shifted
    mixed >>= np.uint64(1)
    return mixed.view(np.int64)


def spread(scattered: Any) -> Any:
    """The key of W1r: one of 5 million, anywhere in 64 bits."""
    return scatter(scattered % SPREAD_KEYS) * 2 - (1 << 62)


def wide_key(number: Any) -> Any:
    """The key of W7 with this number, anywhere in 64 bits."""
    return scatter(number) * 2 - (1 << 62)


def ranks(scattered: Any) -> Any:
    """Ranks from 0 on, after Zipf's law by octaves: the lower 30 bits choose the octave, the others the rank in it."""
    octave = np.searchsorted(np.array(OCTAVES), scattered & ((1 << 30) - 1), side="right")
    first = np.int64(1) << np.minimum(octave, len(OCTAVES) - 1)
    size = np.minimum(first, WIDE_KEYS + 1 - first)
    return first - 1 + (scattered >> 30) % size


def _even(scattered: Any) -> Any:
    return scattered % WIDE_KEYS


def columns(workload: str, numbers: Any) -> Columns:
    """The columns of the rows with these numbers; of W4 "W4-left" and "W4-right" are the sides."""
    if workload in ("W4-left", "W4-right"):
        scattered = scatter(numbers * 2 + (workload == "W4-right"))
        return {"key": scattered % KEYS, "value": numbers % VALUES, "at": START_MS + numbers // JOIN_ROWS_PER_MS}
    scattered = scatter(numbers)
    if workload == "W1r":
        return {"key": spread(scattered), "value": numbers % VALUES}
    if workload in ON_DISK:
        key = np.where(numbers < WIDE_KEYS, numbers, (ranks if workload == "W7z" else _even)(scattered))
        last = {f"last_{number}": numbers + number for number in range(LAST_VALUES)}
        return {"key": wide_key(key), "value": numbers % VALUES, **last}
    if workload == "W3":
        at = START_MS + numbers // WINDOW_ROWS_PER_MS - (scattered >> 32) % DISORDER_MS
        return {"key": scattered % WINDOW_KEYS, "value": numbers % VALUES, "at": at}
    key = scattered % KEYS
    return {"key": key, "value": key % VALUES + 1 if workload == "W5" else numbers % VALUES}


def text(directory: Path, files: int) -> list[Path]:
    """`files` files of a million words, all the same text, below a directory that may hold them already."""
    directory.mkdir(parents=True, exist_ok=True)
    first = directory / "text-0000.txt"
    if not first.exists():
        lines = _lines()
        first.with_suffix(".part").write_text("".join(line + "\n" for line in lines))
        first.with_suffix(".part").rename(first)
    paths = [directory / f"text-{number:04d}.txt" for number in range(files)]
    for path in paths[1:]:
        if not path.exists():
            path.hardlink_to(first)
    return paths


def _lines() -> list[str]:
    """A million words in lines of ten, lower case, one blank between two."""
    from pydoc_data.topics import topics

    words = re.findall("[a-z]+", " ".join(topics[name] for name in sorted(topics)).lower())
    words = (words * (WORDS_PER_FILE // len(words) + 1))[:WORDS_PER_FILE]
    return [" ".join(words[at : at + 10]) for at in range(0, WORDS_PER_FILE, 10)]


# --- what comes out --------------------------------------------------------------------------------------------------


def fold(*values: Any) -> Any:
    """One number for each row of these columns (uint64)."""
    folded = np.zeros(len(values[0]), np.uint64)
    for column in values:
        folded += np.asarray(column).astype(np.int64).view(np.uint64)
        folded *= FOLD
    return folded ^ (folded >> np.uint64(32))


def checksum(*values: Any) -> int:
    """Of all rows of these columns: 0 to 2 ** 64 - 1."""
    return int(fold(*values).sum(dtype=np.uint64))


def added(*checksums: int) -> int:
    """The checksum of all rows of several parts; parts may be signed, as Java has them."""
    return sum(checksums) & _MASK


def word_checksum(counts: dict[str, int]) -> int:
    """Of words and how often each was seen."""
    return checksum([zlib.crc32(word.encode()) for word in counts], list(counts.values()))


@lru_cache(maxsize=64)
def expected(workload: str, rows: int) -> int:
    """Return the checksum of the result for the first `rows` rows."""
    return _EXPECTED[workload](rows)


def _chunks(rows: int) -> Iterator[Any]:
    for start in range(0, rows, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, rows))


def _totals(keys: int, rows: int) -> tuple[Any, Any]:
    """Sum of the values and number of rows, by number of the key."""
    totals, counts = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    for numbers in _chunks(rows):
        key = scatter(numbers) % keys
        totals += np.bincount(key, numbers % VALUES, keys).astype(np.int64)
        counts += np.bincount(key, minlength=keys)
    return totals, counts


def _sums(rows: int) -> int:
    totals, counts = _totals(KEYS, rows)
    seen = np.flatnonzero(counts)
    return checksum(seen, totals[seen], counts[seen])


def _spread_sums(rows: int) -> int:
    totals, counts = _totals(SPREAD_KEYS, rows)
    seen = np.flatnonzero(counts)
    return checksum(scatter(seen) * 2 - (1 << 62), totals[seen], counts[seen])


def _wide_sums(workload: str, rows: int) -> int:
    totals, counts = np.zeros(WIDE_KEYS, np.int64), np.zeros(WIDE_KEYS, np.int64)
    for numbers in _chunks(rows):
        drawn = (ranks if workload == "W7z" else _even)(scatter(numbers))
        key = np.where(numbers < WIDE_KEYS, numbers, drawn)
        totals += np.bincount(key, numbers % VALUES, WIDE_KEYS).astype(np.int64)
        counts += np.bincount(key, minlength=WIDE_KEYS)
    seen = np.flatnonzero(counts)
    return checksum(wide_key(seen), totals[seen], counts[seen])


@lru_cache(maxsize=1)
def _words() -> Counter[str]:
    return Counter(word for line in _lines() for word in line.split(" "))


def _word_counts(rows: int) -> int:
    assert rows % WORDS_PER_FILE == 0, f"{rows} words are no whole number of files"
    return word_checksum({word: count * (rows // WORDS_PER_FILE) for word, count in _words().items()})


def _windows(rows: int) -> int:
    last = (START_MS + rows // WINDOW_ROWS_PER_MS) // WINDOW_MS + 1
    totals = np.zeros(last * WINDOW_KEYS, np.int64)
    counts = np.zeros(last * WINDOW_KEYS, np.int64)
    for numbers in _chunks(rows):
        made = columns("W3", numbers)
        entry = made["at"] // WINDOW_MS * WINDOW_KEYS + made["key"]
        low = int(entry.min())
        here = np.bincount(entry - low)
        counts[low : low + len(here)] += here
        totals[low : low + len(here)] += np.bincount(entry - low, made["value"]).astype(np.int64)
    seen = np.flatnonzero(counts)
    return checksum(seen % WINDOW_KEYS, seen // WINDOW_KEYS * WINDOW_MS, totals[seen], counts[seen])


def _pairs(rows: int) -> int:
    """Rows of the right stand by (key, time); those of each left row are a range of them."""
    left, right = (columns(side, np.arange(rows // 2)) for side in ("W4-left", "W4-right"))
    horizon = int(left["at"][-1]) + 2 * JOIN_WITHIN_MS
    place = right["key"] * horizon + right["at"]
    order = np.argsort(place, kind="stable")
    place, values = place[order], right["value"][order]
    at = left["key"] * horizon + left["at"]
    low = np.searchsorted(place, at - JOIN_WITHIN_MS, "left")
    high = np.searchsorted(place, at + JOIN_WITHIN_MS, "right")
    counts = high - low
    rows_of = np.repeat(np.arange(len(low)), counts)
    partner = np.arange(len(rows_of)) - np.repeat(np.cumsum(counts) - counts, counts) + low[rows_of]
    return checksum(left["key"][rows_of], left["value"][rows_of], values[partner])


def _running_totals(rows: int) -> int:
    """All values of a key are equal, so its totals are the same in whichever order its rows come."""
    keys = np.sort(columns("W5", np.arange(rows))["key"])
    turn = np.arange(rows) - np.searchsorted(keys, keys, "left") + 1
    return checksum(keys, turn * (keys % VALUES + 1))


def function(key: int, value: int) -> tuple[int, int]:
    """The function that W6 calls with each row."""
    return key, (key * 31 + value) % 1_000


def _mapped(rows: int) -> int:
    parts = []
    for numbers in _chunks(rows):
        made = columns("W6", numbers)
        parts.append(checksum(*function(made["key"], made["value"])))
    return added(*parts)


_EXPECTED = {
    "W1": _sums,
    "W1r": _spread_sums,
    "W2": _word_counts,
    "W3": _windows,
    "W4": _pairs,
    "W5": _running_totals,
    "W6": _mapped,
    "W7": lambda rows: _wide_sums("W7", rows),
    "W7z": lambda rows: _wide_sums("W7z", rows),
}


def text_mark() -> str:
    """Return a mark of the text, which differs if Python's documentation does."""
    return hashlib.sha256("\n".join(_lines()).encode()).hexdigest()[:12]
