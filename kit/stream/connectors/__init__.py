"""The sources and sinks of records: files, collections and generators; sinks that publish in two phases."""

from kit.stream.connectors.data_frames import (
    DataFrameSource,
    DataFrameStreamSource,
)
from kit.stream.connectors.file_sources import (
    CsvSource,
    ParquetSource,
    TextSource,
)
from kit.stream.connectors.files import (
    CommitError,
)
from kit.stream.connectors.memory_sources import (
    CollectionSource,
    GeneratorSource,
)
from kit.stream.connectors.rolling import (
    RollingPolicy,
)
from kit.stream.connectors.sink import (
    CollectSink,
    ParquetSink,
    Sink,
    SinkSpec,
)
from kit.stream.connectors.tailed_files import (
    TailSource,
)
from kit.stream.connectors.watched_directory import (
    DirectorySource,
)

__all__ = [
    "CollectSink",
    "CollectionSource",
    "CommitError",
    "CsvSource",
    "DataFrameSource",
    "DataFrameStreamSource",
    "DirectorySource",
    "GeneratorSource",
    "ParquetSink",
    "ParquetSource",
    "RollingPolicy",
    "Sink",
    "SinkSpec",
    "TailSource",
    "TextSource",
]
