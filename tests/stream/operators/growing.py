"""Sources without an end, whose rows a test adds while a job runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kit.stream.operators.sources.source import ReadResult, Source, Split

SCHEMA = pa.schema([("split", pa.string()), ("n", pa.int64()), ("t", pa.int64())])


@dataclass(frozen=True, eq=False)
class Growing(Source):
    """Splits `a`, `b`, ... whose numbers of rows a test sets and changes; row n has the time `10 * n`; only
    those in `ended` end. It declares neither that it is endless nor when it has rows.
    """

    names: str
    rows: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    reads: list[tuple[str, int]] = field(default_factory=list)
    """Split and number of rows of each read."""

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def enumerate_splits(self) -> list[Split]:
        return [{"id": name} for name in self.names]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        name, there = split["id"], self.rows.get(split["id"], 0)
        end = max(position, min(there, position + max_rows))
        rows = [{"split": name, "n": n, "t": 10 * n} for n in range(position, end)]
        self.reads.append((name, len(rows)))
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA) if rows else None
        return ReadResult(batch, end, name in self.ended and end == there)

    def all_rows(self, names: Sequence[str] | None = None) -> Counter[tuple[str, int]]:
        """All rows there are, each once."""
        return Counter((name, n) for name in names or self.names for n in range(self.rows.get(name, 0)))


@dataclass(frozen=True, eq=False)
class Endless(Growing):
    """The same, and it declares both."""

    @property
    def endless(self) -> bool:
        return True

    def has_rows(self, split: Split, position: int) -> bool:
        return split["id"] in self.ended or self.rows.get(split["id"], 0) > position
