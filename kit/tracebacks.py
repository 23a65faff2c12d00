"""Short tracebacks in IPython and Jupyter: the user's own lines and the message, without the kit's frames.

A mistake is often noticed deep inside the kit. A notebook would then show dozens of lines of the kit between the
user's line and the message. Importing the kit in IPython registers a handler with the shell that leaves them out:

- An error that the kit raises shows the user's frames, the number of frames that are left out, and the message.
- Frames of user functions that the kit has called are shown, also those of an error's cause.
- An unexpected error, which the kit does not raise itself, is shown in full: a report of a bug needs its frames.

`%tb` shows the full traceback of the last error. `get_ipython().set_custom_exc((), None)` removes the handler. If the
shell already has a handler that the user set, that one stays.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

KIT = Path(__file__).parent
_PACKAGES = (str(KIT), str(KIT.parent / "widgets"))
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_RAISING = ("RAISE_VARARGS", "RERAISE")


def install() -> None:
    """Register the handler with the running IPython shell, if there is one and it has no handler."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception, KeyboardInterrupt), show)


def show(
    shell: Any, kind: type[BaseException], error: BaseException, traceback: TracebackType, tb_offset: int | None = None
) -> None:
    """Show an error in a notebook, as IPython calls the handlers of errors."""
    frames = list(_frames(traceback))
    if not is_shortened(error, frames):
        shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)
        return
    chain = list(_chain(error))
    full = [each.__traceback__ for each in chain]
    try:
        for each in chain:
            each.__traceback__ = without_our_frames(each.__traceback__)
        lines = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=0)
    finally:
        for each, traceback_of_each in zip(chain, full, strict=True):
            each.__traceback__ = traceback_of_each
    hidden = sum(not _is_users(each.tb_frame) for each in frames[1:])
    left_out = "1 frame is" if hidden == 1 else f"{hidden} frames are"
    lines.insert(-1, f"[{left_out} left out, outside your code; %tb shows all]")
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, traceback
    shell._showtraceback(kind, error, lines)


def is_shortened(error: BaseException, frames: list[TracebackType]) -> bool:
    """Return True for an error that the kit has raised, or for an interrupt of the kit.

    `frames` begins with IPython's own frame.
    """
    if hasattr(error, "_render_traceback_") or isinstance(error, SyntaxError | AssertionError | BaseExceptionGroup):
        return False
    if not any(_is_ours(each.tb_frame) for each in frames):
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    last = frames[-1]
    code = last.tb_frame.f_code.co_code
    return _is_users(last.tb_frame) or (_is_ours(last.tb_frame) and dis.opname[code[last.tb_lasti]] in _RAISING)


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback with the user's frames only; None if it has none."""
    kept = None
    for each in reversed(list(_frames(traceback))):
        if _is_users(each.tb_frame):
            kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that are shown with it."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGES)


def _is_users(frame: FrameType) -> bool:
    """Return True for a frame of a cell, or of a module that is neither the kit's nor installed."""
    file = frame.f_code.co_filename
    return file.startswith("<ipython-input") or not file.startswith((*_PACKAGES, *_INSTALLED, "<"))
