"""The process of a student's cells: its limits, the calls to it, and those that come back.

What the process sends is data: values, and numbers of objects that it was given. It is decoded without running anything
of it. A process that ends, sends something else or takes too long raises `StudentError`.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from kit.course.classroom.checking import NotYet
from kit.course.grading.surfaces import CONTEXT, ENUMS, EQUAL, FUNCTIONS, VALUES, Surface, offers, surface_of
from kit.stream.settings.parts import PartError

CHILD = Path(__file__).with_name("child.py")
CPU_SECONDS = 120
"""The CPU time of a student's process, for all checks of a lab."""
SILENT_SECONDS = 120
"""The time after which a process that does not answer is considered stuck: it sleeps or waits."""
WAIT_SECONDS = 300
"""The time for which a student's process is waited for in all: it may answer, and each time after a while."""
MOST_EXPLORATIONS = 30
"""The number of explorations that the code of a lab may ask for; each takes the grader's own time."""
MOST_OFFERED = 5_000
"""The number of calls of the kit's functions by the code of a lab."""
MEMORY = 2 << 30
MOST_BYTES = 20_000_000
"""The most bytes of one message."""


class StudentError(Exception):
    """An error of the student's code, or the end of its process; `where` is the function and line."""

    def __init__(self, text: str, where: str = "Your code") -> None:
        super().__init__(text)
        self.where = where


@dataclass(frozen=True)
class Given:
    """An object for the student's process with a surface of its own."""

    value: Any
    surface: Surface


class Table:
    """The grader's objects that one part knows, by number; number 0 is the part itself."""

    def __init__(self, part: object = None, surface: Surface | None = None) -> None:
        self.items: list[tuple[Any, Surface | None]] = [(part, surface)]
        self._numbers: dict[object, int] = {}

    def number_of(self, value: Any, surface: Surface) -> int:
        """Return the number of an object, which is added if it is new."""
        key = (type(value), value) if isinstance(value, EQUAL) else id(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.items)
            self.items.append((value, surface))
        return self._numbers[key]

    def known(self, value: Any, number: int) -> None:
        """Record that this object has this number."""
        self._numbers[(type(value), value) if isinstance(value, EQUAL) else id(value)] = number

    def item(self, number: object) -> tuple[Any, Surface | None]:
        """Return an object with its surface. Raises StudentError for a number that was not given."""
        if not isinstance(number, int) or not 0 <= number < len(self.items):
            raise StudentError("the process named an object that it was not given")
        return self.items[number]

    def cut(self, length: int) -> None:
        """Forget the objects beyond this number."""
        del self.items[length:]
        self._numbers = {key: number for key, number in self._numbers.items() if number < length}


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Student:
    """A process with a student's cells; close it, or use it in a `with` statement."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"},
            preexec_fn=_limited,  # noqa: PLW1509  a grader has one thread
            start_new_session=True,
        )
        self._reported: set[str] = set()
        self._unread = b""
        self._free: list[int] = []
        self._table = Table()
        """The objects of calls that belong to no part."""
        self._raised: BaseException | None = None
        self._depth = 0
        self._waited = 0.0
        self._offered: Counter[str] = Counter()
        self._request(self._table, "offer", offers())

    def __enter__(self) -> Student:
        return self

    def __exit__(self, *given: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    # --- calls to the process ---------------------------------------------------------------------------------------

    def run(self, code: str, name: str) -> None:
        """Run a cell. Raises StudentError if it fails."""
        self._request(self._table, "run", code, name)

    def value(self, name: str) -> Any:
        """Return a global value of the student's. Raises StudentError if there is none, or if it is not plain."""
        return self._decoded(self._table, self._request(self._table, "global", name)[0])

    def new(self, table: Table, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> int:
        """Make a part, and return its number in the process."""
        found = self._request(table, "new", name, self._encoded(table, list(given)), self._encoded(table, dict(named)))
        return int(found[0])

    def call(self, table: Table, part: int, path: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a method of a part; what it does to lists in place is done here as well."""
        values = self._encoded(table, list(given))
        found, changed = self._request(table, "call", part, path, values, self._encoded(table, dict(named)))
        for place, value in changed.items():
            mine = given[int(place)]
            if isinstance(mine, list):
                mine[:] = self._decoded(table, value)
        return self._decoded(table, found)

    def get(self, table: Table, part: int, path: str) -> Any:
        """Return an attribute of a part."""
        return self._decoded(table, self._request(table, "get", part, path)[0])

    def apply(self, function: int | str, *given: Any) -> Any:
        """Call a function of the student's."""
        length = len(self._table.items)
        try:
            found = self._request(self._table, "apply", function, self._encoded(self._table, list(given)))
            return self._decoded(self._table, found[0])
        finally:
            if self._depth:
                self._table.cut(length)

    def copy(self, table: Table, part: int) -> tuple[int, list[tuple[Any, Surface | None]]]:
        """Copy a part; return the copy's number, and the objects that it knows."""
        number, order = self._request(table, "copy", part)
        return number, [table.item(each) for each in order]

    def digest(self, table: Table, part: int) -> tuple[str, list[Any]]:
        """Return the state of a part as text, with the objects that it knows, except itself."""
        text, order = self._request(table, "digest", part)
        return text, [value for value, _ in map(table.item, order)][1:]

    def free(self, part: int) -> None:
        """Forget a part, with the next message."""
        self._free.append(part)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _request(self, table: Table, *message: Any) -> list[Any]:
        """Send a request and serve the calls that come back, until it is answered."""
        if self._free and message[0] != "free":
            numbers, self._free = self._free, []
            self._request(table, "free", numbers)
        self._send(message)
        self._depth += 1
        try:
            while True:
                what, *given = self._receive()
                if what == "value":
                    self._raise_what_was_raised()
                    return given
                if what == "raise":
                    self._raise_what_was_raised()
                    raise _error(*given)
                self._serve(table, what, given)
        finally:
            self._depth -= 1

    def _raise_what_was_raised(self) -> None:
        """Raise what a call of the part's has led to, also if the part has caught it."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _serve(self, table: Table, what: str, given: list[Any]) -> None:
        try:
            answer = self._done(table, what, given)
        except (StudentError, OSError):
            raise
        except Exception as error:
            if isinstance(error, NotYet | PartError) and self._raised is None:
                self._raised = error
            self._send(("raise", str(error)))
        else:
            self._send(("value", self._encoded(table, answer)))

    def _done(self, table: Table, what: str, given: list[Any]) -> Any:
        """Do what the part has asked for, if it may."""
        if what == "offer":
            name, values, named = (self._decoded(table, each) for each in given)
            self._count(name)
            return FUNCTIONS[name](*values, **named)
        value, surface = table.item(given[0])
        name = given[1]
        if surface is None or name not in {"attribute": surface.attributes, "do": surface.methods}.get(what, ()):
            raise StudentError(f"{name!r} is not a name that a part may use")
        if what == "attribute":
            if name == "[]":
                return list(value)
            found = getattr(value, name)
            return Given(found, CONTEXT) if name == "context" else found
        values, named = self._decoded(table, given[2]), self._decoded(table, given[3])
        return (getattr(value, name) if name else value)(*values, **named)

    def _count(self, name: str) -> None:
        """Count a call of a function of the kit. Raises StudentError, and ends the process, after too many."""
        self._offered[name] += 1
        most = MOST_EXPLORATIONS if name == "explore" else MOST_OFFERED
        if self._offered[name] > most:
            self._process.kill()
            raise StudentError(f"Your code has called {name} more than {most} times.")

    def _send(self, message: Sequence[Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _receive(self) -> list[Any]:
        assert self._process.stdout is not None
        file = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            began = time.monotonic()
            left = WAIT_SECONDS - self._waited
            if left <= 0 or not select.select([file], [], [], min(SILENT_SECONDS, left))[0]:
                self._process.kill()
                seconds = SILENT_SECONDS if left > SILENT_SECONDS else WAIT_SECONDS
                raise StudentError(f"Your code has not answered for {seconds} s. Does it sleep or wait?")
            self._waited += time.monotonic() - began
            data = os.read(file, 1 << 16)
            if not data:
                raise self._ended()
            self._unread += data
            if len(self._unread) > MOST_BYTES:
                self._process.kill()
                raise StudentError(f"Your code has sent more than {MOST_BYTES:,} bytes at once.")
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            found = json.loads(line)
            assert isinstance(found, list)
            assert found
        except (ValueError, AssertionError, RecursionError):
            self._process.kill()
            raise StudentError("Your code has written to the grader's pipe.") from None
        return found

    def _ended(self) -> StudentError:
        code = self._process.wait()
        if code < 0:
            return StudentError(f"Your code was stopped: it took more than {CPU_SECONDS} s of CPU time, or it crashed.")
        return StudentError("Your code has ended its process (`exit` or `os._exit`).")

    # --- values -----------------------------------------------------------------------------------------------------

    def _encoded(self, table: Table, value: Any) -> Any:
        if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
            return value
        if isinstance(value, Given):
            return self._reference(table, value.value, value.surface)
        if isinstance(value, bytes):
            return ["b", base64.b64encode(value).decode()]
        if isinstance(value, Enum) and type(value).__name__ in ENUMS:
            return ["e", type(value).__name__, value.name]
        if isinstance(value, Counter):
            return ["k", [[self._encoded(table, key), count] for key, count in value.items()]]
        if isinstance(value, Mapping):
            return ["d", [[self._encoded(table, key), self._encoded(table, each)] for key, each in value.items()]]
        if (isinstance(value, tuple) and type(value) is tuple) or isinstance(value, list | set | frozenset):
            tag = "t" if isinstance(value, tuple) else "l" if isinstance(value, list) else "s"
            return [tag, [self._encoded(table, each) for each in value]]
        name = type(value).__name__
        if name in VALUES and not isinstance(value, Exception):
            return ["c", name, [[each, self._encoded(table, getattr(value, each))] for each in VALUES[name][1]]]
        return self._reference(table, value, surface_of(value))

    def _reference(self, table: Table, value: Any, surface: Surface) -> Any:
        fields = {name: self._encoded(table, getattr(value, name)) for name in surface.values}
        made = ["r", table.number_of(value, surface), surface.name, fields]
        if surface.name not in self._reported:
            self._reported.add(surface.name)
            made.append(surface.description)
        return made

    def _decoded(self, table: Table, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        try:
            return self._made(table, *value)
        except StudentError:
            raise
        except (TypeError, ValueError, KeyError, LookupError) as error:
            raise StudentError(f"the process sent a value that cannot be read: {error}") from None

    def _made(self, table: Table, tag: str, given: Any, *more: Any) -> Any:
        if tag == "r":
            return table.item(given)[0]
        if tag == "e":
            return ENUMS[given][more[0]]
        if tag == "b":
            return base64.b64decode(given)
        if tag == "f":
            return lambda *values: self.apply(given, *values)
        if tag == "d":
            return {self._decoded(table, key): self._decoded(table, each) for key, each in given}
        if tag == "c":
            return VALUES[given][0](**{name: _hashable(self._decoded(table, each)) for name, each in more[0]})
        if tag == "x":
            return Foreign(given)
        made = [self._decoded(table, each) for each in given]
        return {"l": list, "t": tuple, "s": set}[tag](made)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Foreign:
    """An object of the student's that is not data; only its type is known."""

    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind} object>"


def _error(kind: str, text: str, where: str) -> Exception:
    """Return the error of the student's code, of the type that a check expects."""
    if kind == "NotImplementedError":
        return StudentError(f"{where}, is not written yet.", where)
    if kind == "ValueError":
        found = ValueError(text)
        found.where = where  # type: ignore[attr-defined]
        return found
    return StudentError(f"Your code raised {kind} in {where}: {text}", where)
