"""The time, memory and disk traffic of this process, as the kernel counts them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """Time in seconds, bytes that the disk read and wrote for this process, and its memory."""

    wall_s: float
    cpu_s: float
    read_bytes: int
    written_bytes: int

    def since(self, earlier: Usage) -> Usage:
        """Return what was used after `earlier`."""
        return Usage(
            self.wall_s - earlier.wall_s,
            self.cpu_s - earlier.cpu_s,
            self.read_bytes - earlier.read_bytes,
            self.written_bytes - earlier.written_bytes,
        )


def usage() -> Usage:
    """Return what this process used so far. Reads from the page cache are not counted."""
    counts = _numbers("io")
    return Usage(time.monotonic(), time.process_time(), counts["read_bytes"], counts["write_bytes"])


def resident_bytes() -> int:
    """Return the memory of this process, without pages of files."""
    return _numbers("status")["RssAnon"] * 1024


def _numbers(name: str) -> dict[str, int]:
    pairs = (line.split(":", 1) for line in Path("/proc/self", name).read_text().splitlines())
    return {key: int(value.split()[0]) for key, value in pairs if value.split() and value.split()[0].isdigit()}
