"""Sorted runs: immutable files of entries in the order of their codes, in blocks of 4,096 bytes.

A block has the columns of its 39 entries side by side (codes, sums, last values), so that one read of the device finds
a key with its whole row. In memory a run keeps the first code of each block (the fence keys) and a Bloom filter of ten
bits a key. A code selects one 64-bit word of the filter by its upper bits, so sorted look-ups walk through it.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from benchmarks.disk_state.entries import LAST, Codes, Entries, no_entries

BLOCK_BYTES, BLOCK_ENTRIES = 4096, 39
_WORDS = BLOCK_BYTES // 8
_LASTS = 2 * BLOCK_ENTRIES
_FLAGS, _COUNT = _WORDS - 2, _WORDS - 1
GAP_BLOCKS = 4
"""Blocks that are read although nobody asked for them, instead of a second read: as long as four of them take."""
RANGE_BLOCKS = 256
PIECE_BLOCKS = 2048
_FILTER_BITS, _BITS_A_KEY = 10, 4
READERS = 8


class Buffer:
    """Memory for blocks, aligned as direct I/O needs it, and its columns."""

    def __init__(self, blocks: int) -> None:
        self.memory = mmap.mmap(-1, blocks * BLOCK_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self.memory)
        self.words = np.frombuffer(self.memory, np.uint64).reshape(-1, _WORDS)
        self.codes, self.sums = self.words[:, :BLOCK_ENTRIES], self.words[:, BLOCK_ENTRIES:_LASTS].view(np.int64)
        strides = BLOCK_BYTES, LAST.itemsize
        self.lasts = np.ndarray((blocks, BLOCK_ENTRIES), LAST, self.memory, _LASTS * 8, strides)
        self.flags, self.counts = self.words[:, _FLAGS], self.words[:, _COUNT]

    def fill(self, entries: Entries) -> int:
        """Write entries into blocks; return the number of these. The last one repeats its last code as padding."""
        rows = len(entries)
        blocks = -(-rows // BLOCK_ENTRIES)
        whole, rest = divmod(rows, BLOCK_ENTRIES)
        self.counts[:blocks] = BLOCK_ENTRIES
        flags = np.zeros((blocks, BLOCK_ENTRIES), np.uint64)
        for column, given in ((self.codes, entries.codes), (self.sums, entries.sums), (self.lasts, entries.lasts)):
            column[:whole] = given[: whole * BLOCK_ENTRIES].reshape(whole, BLOCK_ENTRIES)
            if rest:
                column[whole, :rest] = given[-rest:]
                column[whole, rest:] = given[-1]
        flags.reshape(-1)[:rows] = entries.full
        self.flags[:blocks] = (flags << np.arange(BLOCK_ENTRIES, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
        if rest:
            self.counts[whole] = rest
        return blocks

    def at(self, blocks: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> Entries:
        """Return the entries at these places of blocks."""
        full = (self.flags[blocks] >> places.view(np.uint64)) & np.uint64(1)
        chosen = blocks, places
        return Entries(self.codes[chosen], full.astype(np.bool_), self.sums[chosen], self.lasts[chosen])

    def all(self, blocks: int) -> Entries:
        """Return all entries of the first blocks."""
        used = np.arange(BLOCK_ENTRIES, dtype=np.uint64) < self.counts[:blocks, np.newaxis]
        return self.at(*np.nonzero(used))


class SortedRun:
    """A finished file. Its descriptor is closed with the last reference, so a merge may delete a file that is read."""

    def __init__(self, path: str, descriptor: int, fences: Codes, filter_words: Codes, entries: int) -> None:
        self.path = path
        self.fences = fences
        self.entries = entries
        self._descriptor = descriptor
        self._filter = filter_words

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def bytes_in_memory(self) -> int:
        """The size of the fence keys and of the filter."""
        return self.fences.nbytes + self._filter.nbytes

    def find(self, codes: Codes, buffer: Buffer, readers: ThreadPoolExecutor) -> tuple[npt.NDArray[np.int64], Entries]:
        """Return which of some ascending codes are in the run, and their entries."""
        maybe = np.flatnonzero(may_contain(self._filter, codes))
        wanted = codes.take(maybe)
        blocks = np.maximum(np.searchsorted(self.fences, wanted, side="right") - 1, 0)
        rows, found = [maybe[:0]], [no_entries()]
        for begin, end, read in self._pieces(blocks, buffer, readers):
            place = np.searchsorted(buffer.codes[:read].reshape(-1), wanted[begin:end])
            place = np.minimum(place, read * BLOCK_ENTRIES - 1)
            here, offsets = np.divmod(place, BLOCK_ENTRIES)
            hit = np.flatnonzero(buffer.codes[here, offsets] == wanted[begin:end])
            rows.append(maybe[begin:end][hit])
            found.append(buffer.at(here[hit], offsets[hit]))
        names = ("codes", "full", "sums", "lasts")
        return np.concatenate(rows), Entries(*(np.concatenate([getattr(f, n) for f in found]) for n in names))

    def _pieces(
        self, blocks: npt.NDArray[np.int64], buffer: Buffer, readers: ThreadPoolExecutor
    ) -> Iterator[tuple[int, int, int]]:
        """Read the blocks of ascending look-ups into the buffer, a piece at a time.

        Yield the first and last look-up of each piece, and the number of blocks read. Blocks that are close together
        are read at once, so that many look-ups become one pass over the file.
        """
        if not len(blocks):
            return
        apart = (np.diff(blocks) > GAP_BLOCKS) | (np.diff(blocks // RANGE_BLOCKS) > 0)
        firsts = np.append(0, np.flatnonzero(apart) + 1)
        ends = np.append(firsts[1:], len(blocks))
        starts = blocks[firsts]
        sizes = blocks[ends - 1] + 1 - starts
        at = 0
        while at < len(firsts):
            upto = np.cumsum(sizes[at : at + PIECE_BLOCKS])
            last = at + int(np.searchsorted(upto, PIECE_BLOCKS, side="right"))
            self._read(buffer, starts[at:last], upto[: last - at] - sizes[at:last], sizes[at:last], readers)
            yield int(firsts[at]), int(ends[last - 1]), int(upto[last - at - 1])
            at = last

    def _read(self, buffer: Buffer, starts: np.ndarray, places: np.ndarray, sizes: np.ndarray, readers: object) -> None:
        jobs = list(zip(starts.tolist(), places.tolist(), sizes.tolist(), strict=True))
        if len(jobs) < READERS:
            self._read_some(buffer, jobs)
        else:
            list(readers.map(lambda some: self._read_some(buffer, some), [jobs[n::READERS] for n in range(READERS)]))

    def _read_some(self, buffer: Buffer, jobs: list[tuple[int, int, int]]) -> None:
        view, descriptor = buffer.view, self._descriptor
        for start, place, size in jobs:
            part = view[place * BLOCK_BYTES : (place + size) * BLOCK_BYTES]
            if os.preadv(descriptor, [part], start * BLOCK_BYTES) != len(part):
                raise OSError(f"{self.path} is shorter than its fence keys say")

    def between(self, low: int, high: int | None, buffer: Buffer) -> Entries:
        """Return the entries from the code `low` up to, and without, `high`."""
        begin = max(int(np.searchsorted(self.fences, np.uint64(low), side="right")) - 1, 0)
        end = len(self.fences) if high is None else int(np.searchsorted(self.fences, np.uint64(high)))
        if end <= begin:
            return no_entries()
        for start in range(begin, end, RANGE_BLOCKS):
            self._read_some(buffer, [(start, start - begin, min(RANGE_BLOCKS, end - start))])
        entries = buffer.all(end - begin)
        first, last = np.searchsorted(entries.codes, np.uint64(low)), len(entries)
        if high is not None:
            last = np.searchsorted(entries.codes, np.uint64(high))
        return entries[int(first) : int(last)]


class RunWriter:
    """Writes a run: entries in ascending order, in any number of chunks."""

    def __init__(self, path: str, most_entries: int, *, direct: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if direct else 0)
        self._path = path
        self._descriptor = os.open(path, flags, 0o600)
        self._filter = np.zeros(max(1, most_entries * _FILTER_BITS // 64), np.uint64)
        self._fences: list[Codes] = []
        self._blocks = self.entries = 0
        self.disk_s = 0.0
        self._buffer = Buffer(RANGE_BLOCKS)

    @property
    def bytes_written(self) -> int:
        """The size of the file so far."""
        return self._blocks * BLOCK_BYTES

    def add(self, entries: Entries) -> None:
        """Write entries above all earlier ones."""
        at_once = RANGE_BLOCKS * BLOCK_ENTRIES
        for begin in range(0, len(entries), at_once):
            some = entries[begin : begin + at_once]
            blocks = self._buffer.fill(some)
            self._fences.append(self._buffer.codes[:blocks, 0].copy())
            started = time.perf_counter()
            os.pwritev(self._descriptor, [self._buffer.view[: blocks * BLOCK_BYTES]], self._blocks * BLOCK_BYTES)
            self.disk_s += time.perf_counter() - started
            self._blocks += blocks
            add_to_filter(self._filter, some.codes)
        self.entries += len(entries)

    def finish(self) -> SortedRun:
        """Wait until the file is on the disk, and return it as a run."""
        started = time.perf_counter()
        os.fdatasync(self._descriptor)
        self.disk_s += time.perf_counter() - started
        return SortedRun(self._path, self._descriptor, np.concatenate(self._fences), self._filter, self.entries)


def add_to_filter(words: Codes, codes: Codes) -> None:
    """Set the bits of ascending codes."""
    at = _word_of(len(words), codes)
    starts = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    words[at[starts]] |= np.bitwise_or.reduceat(_bits_of(codes), starts)


def may_contain(words: Codes, codes: Codes) -> npt.NDArray[np.bool_]:
    """Return False for codes that were not added."""
    bits = _bits_of(codes)
    return (words.take(_word_of(len(words), codes)) & bits) == bits


def _word_of(words: int, codes: Codes) -> npt.NDArray[np.int64]:
    return (((codes >> np.uint64(32)) * np.uint64(words)) >> np.uint64(32)).astype(np.int64)


def _bits_of(codes: Codes) -> Codes:
    bits = np.zeros(len(codes), np.uint64)
    for number in range(_BITS_A_KEY):
        bits |= np.uint64(1) << ((codes >> np.uint64(6 * number)) & np.uint64(63))
    return bits
