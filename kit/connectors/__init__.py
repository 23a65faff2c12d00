"""Where records come from and go to: files, collections and generators; sinks that publish in two phases."""

from kit.connectors.file_sources import (
    CsvSource,
    ParquetSource,
    TextSource,
)
from kit.connectors.files import (
    CommitError,
)
from kit.connectors.memory_sources import (
    CollectionSource,
    GeneratorSource,
)
from kit.connectors.sink import (
    CollectSink,
    ParquetSink,
    Sink,
    SinkSpec,
)

__all__ = [
    "CollectSink",
    "CollectionSource",
    "CommitError",
    "CsvSource",
    "GeneratorSource",
    "ParquetSink",
    "ParquetSource",
    "Sink",
    "SinkSpec",
    "TextSource",
]
