"""What a job says to the person who waits for it: single lines, and lines that change.

A terminal shows one line that changes, on standard error; a log file or a pipe gets each new text as a line there. A
notebook has lines below the cell, not its standard error: that is red there, and nothing has failed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from kit.hosts.files.onlooker import NotebookLine, in_notebook, progress_is_off

PATIENCE_S = 1.0
"""What takes less than this is not worth a word."""
EVERY_S = 0.5


def changes_lines() -> bool:
    """Whether a line can be written over."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def say(text: str) -> None:
    """One line."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be nobody to read it
        print(text, file=sys.stdout if in_notebook() else sys.stderr, flush=True)


@contextlib.contextmanager
def waiting(text: Callable[[], tuple[str, str]]) -> Iterator[None]:
    """Meanwhile show what is waited for, once that has taken `PATIENCE_S`.

    `text` says what, and how far it is; ("", "") is nothing. Where TQDM_DISABLE is set nothing is shown, as for every
    other progress: a notebook that is stored then keeps no line that depends on how slow the machine was.
    """
    if progress_is_off():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(text, over), name="kit-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(text: Callable[[], tuple[str, str]], over: threading.Event) -> None:
    line = _Line()
    while not over.wait(EVERY_S):
        line.show(*text())
    line.show("", "")


class _Line:
    """The line that is shown, if one is."""

    def __init__(self) -> None:
        self._changes = changes_lines()
        self._what = self._last = ""
        self._begun_s = 0.0
        self._notebook_line = NotebookLine()

    def show(self, what: str, detail: str) -> None:
        elapsed_s = time.monotonic() - self._begun_s
        if what != self._what:
            if self._last and self._changes:
                self._write(f"{self._what}: done [{elapsed_s:.0f} s]")
                self._end()
            self._what, self._last, self._begun_s = what, "", time.monotonic()
        elif what and elapsed_s >= PATIENCE_S:
            if self._changes:
                self._write(f"{what}{detail and ': '}{detail} [{elapsed_s:.0f} s]")
            elif not self._last:
                self._last = what
                say(f"{what} ...")

    def _write(self, text: str) -> None:
        """`text` in place of what the line was."""
        if in_notebook():
            self._notebook_line.write(text)
        else:
            _to_terminal("\r" + text.ljust(len(self._last)))
        self._last = text

    def _end(self) -> None:
        """What comes next is another line."""
        if in_notebook():
            self._notebook_line = NotebookLine()
        else:
            _to_terminal("\n")


def _to_terminal(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
