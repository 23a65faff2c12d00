"""The failures of a job: their cause, and the detection of a cause that recurs.

A function that always raises makes the job go back to its checkpoint, only to meet the same row again. Such a job is
not restarted forever: when the same cause has failed it `REPEATS` times, without a completed checkpoint in between, it
fails for good. A user-chosen restart strategy that counts its restarts is left to count.

Only failures that the job's own code, data or settings bring about have a cause here. These are an exception in a task,
in an operator coordinator or in a master hook, and a snapshot that cannot be written. A lost worker, a checkpoint that
expires and an outage (`kit.core.protocol.outages`: a connection that breaks, a disk that is full) have none: they may
pass, and the restart strategy alone decides.

Flink restarts a job with periodic checkpoints forever, with growing delays, unless configured otherwise.
"""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from dataclasses import dataclass

from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.tasks import vertex_of
from kit.stream.settings.job_settings import ExponentialDelay, FixedDelay, JobSettings, NoRestart

REPEATS = 3
KIT = __file__[: -len("machines/job/failures.py")]
"""The path prefix of the kit's own files."""
MOST_COUNTED = 100
"""The largest number of attempts that counts as a limit: above it, a strategy restarts forever."""

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)
_BEGINS = "Traceback (most recent call last):\n"
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n"
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|^<frozen")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The root cause of a failure, according to its traceback.

    `kind` is the type of the exception that was raised first and `text` its last line. `place` is the last frame in the
    user's own code, None if there is none, and `innermost` is the last frame of all.
    """

    kind: str
    text: str
    place: Frame | None
    innermost: Frame | None

    @classmethod
    def of(cls, traceback: str, error: str = "") -> Raised:
        """Read a traceback; `error` replaces one that is missing."""
        text = traceback.partition(_CAUSED)[0].rstrip() or error
        frames = [Frame(found["file"], int(found["line"]), found["function"]) for found in _FRAME.finditer(text)]
        places = [frame for frame in frames if not _is_foreign(frame.file)]
        last = text.rpartition(_BEGINS)[2]
        headline = next((line for line in last.splitlines() if not line.startswith(" ")), "")
        return cls(
            headline.partition(":")[0],
            text.rpartition("\n")[2],
            places[-1] if places else None,
            frames[-1] if frames else None,
        )


@dataclass(frozen=True, slots=True)
class FailureCause:
    """The part of a failure that stays the same when it recurs: its origin and its error."""

    who: str
    what: str

    @classmethod
    def of_task(cls, message: TaskStateChanged) -> FailureCause | None:
        """Return the cause of a task's failure, or None for an outage. All subtasks of a vertex count as one."""
        if message.may_pass:
            return None
        raised = Raised.of(message.traceback, message.error)
        frame = raised.place or raised.innermost
        what = _without_numbers(raised.text) if frame is None else f"{raised.kind} {frame}"
        return cls(vertex_of(message.task), what)

    @classmethod
    def of_text(cls, who: str, error: str, *, may_pass: bool) -> FailureCause | None:
        """Return the cause of another failure, from its error alone, or None for an outage."""
        return None if may_pass else cls(who, _without_numbers(error))


class RepeatedFailures:
    """A counter of how often each cause has failed the job since its latest checkpoint."""

    def __init__(self, settings: JobSettings) -> None:
        self._is_counting = not is_left_to_count(settings)
        self._counts: Counter[FailureCause] = Counter()
        self._latest_id: int | None = None

    def is_one_too_many(self, cause: FailureCause | None, latest_id: int | None) -> bool:
        """Count a failure with this latest checkpoint; return True at the `REPEATS`-th of its cause."""
        if not self._is_counting or cause is None:
            return False
        if latest_id != self._latest_id:
            self._counts.clear()
            self._latest_id = latest_id
        self._counts[cause] += 1
        return self._counts[cause] >= REPEATS

    def __repr__(self) -> str:
        most = max(self._counts.values(), default=0)
        return f"RepeatedFailures({most} of {REPEATS})" if self._is_counting else "RepeatedFailures(not counting)"


def is_left_to_count(settings: JobSettings) -> bool:
    """Return True if the user has limited the number of restarts."""
    strategy = settings.restart
    if isinstance(strategy, FixedDelay):
        counts = strategy.attempts <= MOST_COUNTED
    elif isinstance(strategy, ExponentialDelay):
        counts = strategy.attempts_before_reset <= MOST_COUNTED
    else:
        counts = isinstance(strategy, NoRestart)
    return counts and not settings.restart_is_default


def repeated_error(error: str) -> str:
    """Return the job's error after it failed with `error` once too often."""
    return (
        f"{error}\n"
        f"The job has failed {REPEATS} times in the same way with no checkpoint completed in between, so it is not "
        "restarted again. To try for longer, choose a restart strategy that counts: "
        "restart=FixedDelay(attempts=20, delay_ms=10_000)."
    )


def _is_foreign(file: str) -> bool:
    """Return True for a file of the kit, of Python or of an installed package."""
    return file.startswith((KIT, *_LIBRARIES)) or _LIBRARY.search(file) is not None


def _without_numbers(text: str) -> str:
    """Return a text without the parts that vary: ids, attempts, and file names made from them."""
    return _WORD.sub(lambda word: "#" if any(map(str.isdigit, word[0])) else word[0], text)
