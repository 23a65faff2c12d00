"""Console output for the person who waits for a job: single lines, and lines that are updated in place.

On a terminal, one line on standard error is updated in place. In a log file or a pipe, each new text is a line of its
own. A notebook shows the lines below the cell: there, standard error would be red although nothing has failed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from kit.hosts.notebook_output import NotebookLine, in_notebook, progress_is_off

PATIENCE_S = 1.0
"""Waits shorter than this are not reported."""
EVERY_S = 0.5


def changes_lines() -> bool:
    """Return True if a line can be overwritten."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def say(text: str) -> None:
    """Print one line."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be closed
        print(text, file=sys.stdout if in_notebook() else sys.stderr, flush=True)


@contextlib.contextmanager
def waiting(text: Callable[[], tuple[str, str]]) -> Iterator[None]:
    """Show what the block waits for, once it has taken `PATIENCE_S`.

    `text` returns what is waited for and how far it is; ("", "") shows nothing. Nothing is shown when TQDM_DISABLE is
    set, as for all other progress: a stored notebook then contains no line that depends on the machine's speed.
    """
    if progress_is_off():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(text, over), name="kit-waiting", daemon=True)
    try:
        thread.start()  # which waits, and may be interrupted
        yield
    finally:
        over.set()
        if thread.is_alive():
            thread.join()


def _show(text: Callable[[], tuple[str, str]], over: threading.Event) -> None:
    line = _Line()
    while not over.wait(EVERY_S):
        line.show(*text())
    line.show("", "")


class _Line:
    """The line that is currently shown, if any."""

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
        """Replace the line with `text`."""
        if in_notebook():
            self._notebook_line.write(text)
        else:
            _to_terminal("\r" + text.ljust(len(self._last)))
        self._last = text

    def _end(self) -> None:
        """End the line, so that later output starts a new one."""
        if in_notebook():
            self._notebook_line = NotebookLine()
        else:
            _to_terminal("\n")


def _to_terminal(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
