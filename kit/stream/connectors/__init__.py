"""The sources and sinks of records: files, collections and generators; sinks that publish in two phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.stream.connectors.data_frames import DataFrameSource as DataFrameSource
    from kit.stream.connectors.data_frames import DataFrameStreamSource as DataFrameStreamSource
    from kit.stream.connectors.file_sources import CsvSource as CsvSource
    from kit.stream.connectors.file_sources import ParquetSource as ParquetSource
    from kit.stream.connectors.file_sources import TextSource as TextSource
    from kit.stream.connectors.memory_sources import CollectionSource as CollectionSource
    from kit.stream.connectors.memory_sources import GeneratorSource as GeneratorSource
    from kit.stream.connectors.output_directory import CommitError as CommitError
    from kit.stream.connectors.rolling import RollingPolicy as RollingPolicy
    from kit.stream.connectors.sink import CollectSink as CollectSink
    from kit.stream.connectors.sink import ParquetSink as ParquetSink
    from kit.stream.connectors.sink import Sink as Sink
    from kit.stream.connectors.sink import SinkSpec as SinkSpec
    from kit.stream.connectors.tailed_files import TailSource as TailSource
    from kit.stream.connectors.watched_directory import DirectorySource as DirectorySource

_offer(__name__)
