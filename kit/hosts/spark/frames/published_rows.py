"""The rows of a published file, read by a Python worker of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from kit.filesystems.places import open_path
from kit.stream.connectors.partitions import keys_of


def read_published(path: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a published file in these columns. The path has the values of those that it does not hold."""
    system, inner = open_path(path)
    keys = dict(keys_of(path))
    with system.open_file(inner) as stream, pq.ParquetFile(stream) as file:
        stored = [name for name in columns.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=stored):
            arrays = [
                batch.column(column.name)
                if column.name in stored
                else pa.repeat(pa.scalar(keys[column.name], pa.string()), batch.num_rows)
                for column in columns
            ]
            yield from pa.table(arrays, columns.names).cast(columns, safe=False).to_batches()
