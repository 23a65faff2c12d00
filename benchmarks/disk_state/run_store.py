"""Design (a): sorted runs of the kit's own, merged in the background."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.disk_state.entries import Codes, Entries, merged, no_entries
from benchmarks.disk_state.sorted_run import BLOCK_BYTES, PIECE_BLOCKS, READERS, Buffer, RunWriter, SortedRun
from kit.stream.backend.spill.merging import MOST_RUNS, to_merge

MERGE_BLOCKS = 1024
"""Blocks of all inputs together that are merged at a time: 4 MB."""


class RunStore:
    """Runs, the newest first. `merge_mb_s` bounds the rate at which merges write; without it nothing is merged."""

    accumulates = True

    def __init__(self, directory: Path, *, direct: bool, merge_mb_s: float | None = None) -> None:
        self._directory = directory
        self._direct = direct
        self._runs: tuple[SortedRun, ...] = ()
        self._numbers = 0
        self._buffer = Buffer(PIECE_BLOCKS)
        self._readers = ThreadPoolExecutor(READERS)
        self._changed = threading.Condition()
        self._closed = False
        self._failure: Exception | None = None
        self.merges = self.flushed_bytes = self.merged_bytes = 0
        self.waited_s = self.disk_write_s = 0.0
        self._merger = threading.Thread(target=self._merge_on, args=(merge_mb_s,), daemon=True)
        if merge_mb_s is not None:
            self._merger.start()

    def memory_bytes(self) -> int:
        """Return what the runs keep in memory, and the buffer of look-ups."""
        return sum(run.bytes_in_memory for run in self._runs) + PIECE_BLOCKS * BLOCK_BYTES

    def described(self) -> str:
        """Return the runs as one phrase."""
        megabytes = f"flushed {self.flushed_bytes / 1e6:.0f} MB, merges wrote {self.merged_bytes / 1e6:.0f} MB"
        return f"{len(self._runs)} runs, {self.merges} merges, {megabytes}"

    def read(self, codes: Codes) -> Entries:
        """Return the entry of each of some distinct, ascending codes; without one it is a delta of zero."""
        result = no_entries(len(codes))
        result.codes[:] = codes
        left, has_last = np.arange(len(codes)), np.zeros(len(codes), np.bool_)
        for run in self._runs:
            if not len(left):
                break
            rows, found = run.find(codes.take(left), self._buffer, self._readers)
            at = left[rows]
            result.sums[at] += found.sums
            newest = np.flatnonzero(~has_last[at])
            result.lasts[at[newest]] = found.lasts[newest]
            has_last[at] = True
            result.full[at] |= found.full
            left = left[~result.full[left]]
        return result

    def write(self, chunks: Iterable[Entries], most_entries: int) -> None:
        """Add a run of entries in ascending order."""
        run, disk_s = self._written(chunks, most_entries)
        self.disk_write_s += disk_s
        self.flushed_bytes += len(run.fences) * BLOCK_BYTES
        started = time.monotonic()
        with self._changed:
            self._runs = (run, *self._runs)
            self._changed.notify_all()
            while self._merger.is_alive() and len(self._runs) > 2 * MOST_RUNS:
                self._changed.wait(0.1)
            if self._failure is not None:
                raise self._failure
        self.waited_s += time.monotonic() - started

    def load(self, chunks: Iterable[Entries], most_entries: int) -> None:
        """Set the entries of an empty store."""
        self._runs = (self._written(chunks, most_entries)[0],)

    def checkpoint(self, directory: Path) -> None:
        """Give the files of all runs a second name. They are on the disk already."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        with self._changed:  # a merge deletes its inputs under the same lock
            for run in self._runs:
                os.link(run.path, directory / Path(run.path).name)

    def scan(self) -> Iterator[Entries]:
        """Yield all entries."""
        with self._changed:
            runs = self._runs
        yield from _merged_pieces(runs, oldest=True)

    def close(self) -> None:
        """Stop merging."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._merger.is_alive():
            self._merger.join()
        self._readers.shutdown()

    def merge(self, megabytes_per_second: float = 0) -> bool:
        """Carry out the merge that is due, if any. Return False if none was."""
        with self._changed:
            runs = self._runs
        chosen = to_merge([run.entries for run in runs])
        if chosen is None:
            return False
        inputs = runs[chosen]
        pieces = _merged_pieces(inputs, oldest=inputs[-1] is runs[-1])
        paced = self._paced(pieces, megabytes_per_second)
        output, _ = self._written(paced, sum(run.entries for run in inputs))
        with self._changed:
            at = self._runs.index(inputs[0])
            self._runs = (*self._runs[:at], output, *self._runs[at + len(inputs) :])
            for run in inputs:
                os.unlink(run.path)
            self._changed.notify_all()
        self.merges += 1
        self.merged_bytes += len(output.fences) * BLOCK_BYTES
        return True

    def _written(self, chunks: Iterable[Entries], most_entries: int) -> tuple[SortedRun, float]:
        with self._changed:
            self._numbers += 1
            path = str(self._directory / f"{self._numbers}.run")
        writer = RunWriter(path, most_entries, direct=self._direct)
        for chunk in chunks:
            writer.add(chunk)
        return writer.finish(), writer.disk_s

    def _paced(self, pieces: Iterable[Entries], megabytes_per_second: float) -> Iterator[Entries]:
        """Pass pieces on at a bounded rate, unless the number of runs already slows down look-ups."""
        started, written = time.monotonic(), 0
        for piece in pieces:
            yield piece
            written += len(piece) * BLOCK_BYTES // 39
            if megabytes_per_second and len(self._runs) < MOST_RUNS and not self._closed:
                time.sleep(max(0.0, started + written / megabytes_per_second / 1e6 - time.monotonic()))

    def _merge_on(self, megabytes_per_second: float) -> None:
        try:
            while not self._closed:
                if not self.merge(megabytes_per_second):
                    with self._changed:
                        self._changed.wait(0.2)
        except Exception as failure:  # raised by the next write
            self._failure = failure


def _merged_pieces(runs: Sequence[SortedRun], *, oldest: bool) -> Iterator[Entries]:
    """Merge runs a range of codes at a time, so that memory stays bounded. Fence keys choose the ranges."""
    bounds = np.sort(np.concatenate([run.fences for run in runs]))[MERGE_BLOCKS::MERGE_BLOCKS]
    bounds = np.unique(bounds).tolist()
    buffer = Buffer(MERGE_BLOCKS + 2 * len(runs))
    for low, high in zip([0, *bounds], [*bounds, None], strict=True):
        parts = [run.between(low, high, buffer) for run in runs]
        if any(map(len, parts)):
            yield merged(parts, oldest=oldest)
