"""Design (b): RocksDB through `rocksdict` (a package that the project does not need otherwise)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import rocksdict

from benchmarks.disk_state.entries import LAST, Codes, Entries, no_entries

READERS = 4
_VALUE = np.dtype([("sum", np.int64), ("last", LAST)])
_SCANNED = 1 << 15


def _keys(codes: Codes) -> list[bytes]:
    return codes.astype(">u8").view("V8").tolist()


def _values(entries: Entries) -> list[bytes]:
    values = np.empty(len(entries), _VALUE)
    values["sum"], values["last"] = entries.sums, entries.lasts
    return values.view(f"V{_VALUE.itemsize}").tolist()


class RocksStore:
    """A database with a fourth of the memory: half of it for blocks, filters and index, half for two memtables."""

    accumulates = False
    waited_s = disk_write_s = 0.0

    def __init__(self, directory: Path, memory_bytes: int, *, direct: bool) -> None:
        self._directory = directory
        options = rocksdict.Options(raw_mode=True)
        options.set_compression_type(rocksdict.DBCompressionType.none())  # the values are random bits
        options.set_use_direct_reads(direct)
        options.set_use_direct_io_for_flush_and_compaction(direct)
        options.set_write_buffer_size(memory_bytes // 4)
        options.set_max_write_buffer_number(2)
        options.set_max_background_jobs(2)
        options.set_target_file_size_base(16 << 20)
        options.set_max_bytes_for_level_base(64 << 20)
        table = rocksdict.BlockBasedOptions()
        table.set_bloom_filter(10, False)
        table.set_block_cache(rocksdict.Cache(memory_bytes // 2))
        table.set_cache_index_and_filter_blocks(False)
        options.set_block_based_table_factory(table)
        self._options = options
        self._database = rocksdict.Rdict(str(directory / "db"), options)
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True
        self._checkpoints = rocksdict.Checkpoint(self._database)
        self._readers = ThreadPoolExecutor(READERS)
        self._memory_bytes = memory_bytes

    def memory_bytes(self) -> int:
        """Return the memory that the database may use."""
        return self._memory_bytes

    def described(self) -> str:
        """Return the files of each level as one phrase."""
        levels = [self._database.property_value(f"rocksdb.num-files-at-level{level}") for level in range(7)]
        return f"files by level {' '.join(map(str, levels))}"

    def read(self, codes: Codes) -> Entries:
        """Return the entry of each of some distinct, ascending codes; without one it is a delta of zero."""
        keys, share = _keys(codes), max(1, -(-len(codes) // READERS))
        parts = [keys[at : at + share] for at in range(0, len(keys), share)]
        values = [value for part in self._readers.map(self._database.__getitem__, parts) for value in part]
        result = no_entries(len(codes))
        result.codes[:] = codes
        result.full[:] = [value is not None for value in values]
        found = np.frombuffer(b"".join(filter(None, values)), _VALUE)
        result.sums[result.full], result.lasts[result.full] = found["sum"], found["last"]
        return result

    def write(self, chunks: Iterable[Entries], most_entries: int) -> None:
        """Put entries."""
        for chunk in chunks:
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in zip(_keys(chunk.codes), _values(chunk), strict=True):
                batch.put(key, value)
            self._database.write(batch, self._unlogged)

    def load(self, chunks: Iterable[Entries], most_entries: int) -> None:
        """Set the entries of an empty database, as files of its bottom level."""
        for number, chunk in enumerate(chunks):
            path = str(self._directory / f"{number}.sst")
            writer = rocksdict.SstFileWriter(self._options)
            writer.open(path)
            for key, value in zip(_keys(chunk.codes), _values(chunk), strict=True):
                writer[key] = value
            writer.finish()
            moved = rocksdict.IngestExternalFileOptions()
            moved.set_move_files(True)
            self._database.ingest_external_file([path], moved)

    def checkpoint(self, directory: Path) -> None:
        """Flush the memtable, and give all files a second name."""
        started = time.perf_counter()
        self._database.flush(True)
        self.disk_write_s += time.perf_counter() - started
        shutil.rmtree(directory, ignore_errors=True)
        self._checkpoints.create_checkpoint(str(directory))

    def scan(self) -> Iterator[Entries]:
        """Yield all entries."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for key, value in self._database.items():
            keys.append(key)
            values.append(value)
            if len(keys) == _SCANNED:
                yield _entries(keys, values)
                keys, values = [], []
        if keys:
            yield _entries(keys, values)

    def close(self) -> None:
        """Close the database."""
        self._readers.shutdown()
        self._database.close()


def _entries(keys: list[bytes], values: list[bytes]) -> Entries:
    found = np.frombuffer(b"".join(values), _VALUE)
    codes = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
    return Entries(codes, np.ones(len(keys), np.bool_), found["sum"].copy(), found["last"].copy())
