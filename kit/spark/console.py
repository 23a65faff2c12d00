"""What a job says to the person who waits for it: single lines, and lines that change, on standard error.

A terminal or a notebook shows one line that changes; anywhere else (a log file, a pipe) each new text is a line.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from kit.host.onlooker import in_notebook, progress_is_off

PATIENCE_S = 1.0
"""What takes less than this is not worth a word."""
EVERY_S = 0.5


def changes_lines() -> bool:
    """Whether a line on standard error can be written over."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def say(text: str) -> None:
    """One line."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be nobody to read it
        print(text, file=sys.stderr, flush=True)  # noqa: T201


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

    def show(self, what: str, detail: str) -> None:
        elapsed_s = time.monotonic() - self._begun_s
        if what != self._what:
            if self._last and self._changes:
                _write(f"{self._over(f'{self._what}: done [{elapsed_s:.0f} s]')}\n")
            self._what, self._last, self._begun_s = what, "", time.monotonic()
        elif what and elapsed_s >= PATIENCE_S:
            if self._changes:
                _write(self._over(f"{what}{detail and ': '}{detail} [{elapsed_s:.0f} s]"))
            elif not self._last:
                self._last = what
                say(f"{what} ...")

    def _over(self, text: str) -> str:
        """`text` in place of what the line was."""
        written = "\r" + text.ljust(len(self._last))
        self._last = text
        return written


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
