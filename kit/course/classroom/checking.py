"""The decorator of checks: a check tests a student's part and returns what it has tried, or raises `NotYet`.

Other errors from the student's code are explained too: the message names the method that raised, and says so if a
method is not written yet. The lab is kept at the moment at which it went wrong and opens in the stepper; its picture
stays in the notebook that the student submits.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from functools import wraps

from IPython.core.getipython import get_ipython
from IPython.display import display

from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.stream.settings.parts import PartError
from widgets.pictures.stepper import Stepper

WIDTH = 100
_UNWRITTEN = re.compile(r": ([^:\n]+): NotImplementedError")


class NotYet(AssertionError):
    """The part is not right yet: what it did, what was expected, and why. `lab` is at that moment, if there is one."""

    def __init__(self, text: str, lab: Lab | None = None) -> None:
        super().__init__("\n".join(_filled(line) for line in text.splitlines()))
        self.text = text
        self.lab = lab

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows instead of a traceback through code that is not the student's."""
        return ["Not yet.", *str(self).splitlines()]


def _filled(line: str) -> str:
    """Return a line that fits; the steps of a run stay indented."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, WIDTH, subsequent_indent=indent)


class Passed:
    """A check that has passed; it shows what was tried."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Passed: {self.text}"


_last: list[Lab] = []
"""The lab of the last check that failed, if it had one."""


def counterexample() -> Lab:
    """Return the lab of the last check that failed, at the moment at which it went wrong.

    Step it, go back, ask it why. Raises NotYet if no check has failed in a lab.
    """
    if not _last:
        raise NotYet("No check has failed in a lab so far: there is no counterexample to look at.")
    return _last[0]


def check(function: Callable[..., str]) -> Callable[..., Passed]:
    """Make a check from a function that returns what it has tried, or raises NotYet."""

    @wraps(function)
    def checked(*given: object, **named: object) -> Passed:
        try:
            return Passed(function(*given, **named))
        except NotYet as found:
            wrong = found
        except Exception as error:
            wrong = NotYet(said_of(error))
        _last.clear()
        if wrong.lab is not None:
            _last.append(wrong.lab)
            if get_ipython() is not None:
                display(Stepper(wrong.lab))  # type: ignore[no-untyped-call]
        raise wrong from None

    return checked


def said_of(error: BaseException) -> str:
    """Return the explanation of an error from the student's code."""
    for each in _chain(error):
        if isinstance(each, NotImplementedError):
            return f"{_where(each)}, is not written yet."
    root = list(_chain(error))[-1] if isinstance(error, PartError) else error
    message = next((str(each) for each in _chain(error) if type(each).__name__ == "StudentError"), None)
    if message is not None:
        return message
    unwritten = _UNWRITTEN.search(str(error))
    if unwritten is not None:  # the job reports a hook's exception as text, without the exception itself
        return f"Something that the job calls is not written yet: {unwritten[1]}."
    if isinstance(error, LabError):
        return f"The job did not get to its end: {error}"
    return f"Your code raised {type(root).__name__} in {_where(root)}: {root}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    now: BaseException | None = error
    while now is not None:
        yield now
        now = now.__cause__ or now.__context__


def _where(error: BaseException) -> str:
    """Return the student's function in which the error was raised, with its line."""
    at = error.__traceback__
    name = str(getattr(error, "where", "Your code"))
    while at is not None:
        module = str(at.tb_frame.f_globals.get("__name__"))
        if not module.startswith(("kit.", "widgets.")) and "site-packages" not in at.tb_frame.f_code.co_filename:
            name = f"`{at.tb_frame.f_code.co_name}`, line {at.tb_lineno} of its cell"
        at = at.tb_next
    return name
