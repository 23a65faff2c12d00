"""Processes that the kernel killed because memory ran out.

The kernel sends SIGKILL without any notice: the driver sees only the closed connection of such a worker. But the kernel
counts these kills for each control group and for the machine. A count that has grown since the epoch began reveals the
cause. For other machines there is only Spark's own report: exit code 137 is 128 + SIGKILL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
)
"""Files with a line "oom_kill <count>": of the control group (its second version, its first), and of the machine."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
NO_LIMIT_BYTES = 1 << 50
"""The value above which a limit means no limit: the first version of control groups cannot express it otherwise."""

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_KILLED = re.compile(r"\bexit(?:ed with)? (?:code|status):? 137\b|\bSIGKILL\b", re.IGNORECASE)


class OomKills:
    """The out-of-memory kills on this machine since this object was created."""

    def __init__(self, counters: Sequence[Path] = COUNTERS, limits: Sequence[Path] = LIMITS) -> None:
        self._counters, self._limits = counters, limits
        self._before = self._counts()

    def explain(self) -> str:
        """Return the end of a sentence about a process that died; "" if the kernel has killed none."""
        if not any(now > before for now, before in zip(self._counts(), self._before, strict=True)):
            return ""
        limit = next(filter(None, map(_limit, self._limits)), "")
        return (
            f"; the kernel has ended a process of this machine meanwhile (SIGKILL) because memory ran out{limit}: give "
            "the workers more memory, or the job smaller state or batches"
        )

    def _counts(self) -> list[int]:
        return [int(found[1]) if (found := _COUNT.search(_read(path))) else 0 for path in self._counters]

    def __repr__(self) -> str:
        return f"OomKills({sum(self._counts()) - sum(self._before)})"


def killed_by(report: str) -> str:
    """Return the end of a sentence that explains exit code 137 in Spark's report; "" if the report has none."""
    if not _KILLED.search(report):
        return ""
    return " (exit code 137 is SIGKILL: as a rule the kernel or the cluster ended it because memory ran out)"


def _limit(path: Path) -> str:
    text = _read(path).strip()
    if not text.isdecimal() or int(text) >= NO_LIMIT_BYTES:
        return ""
    return f" (the limit is {int(text) / (1 << 20):,.0f} MiB)"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
