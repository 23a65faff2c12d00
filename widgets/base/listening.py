"""The base of all widgets here. It delivers the kernel's messages even if the page loads the module late."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import anywidget
import traitlets


@cache
def listening(module: str) -> str:
    """Return the module for a page that may be busy; it must end in `export default { ... };`."""
    head, found, exported = module.rpartition("export default ")
    if not found:
        raise ValueError("the module has no default export: expected it to end in `export default { ... };`")
    script = (Path(__file__).parent / "listening.js").read_text(encoding="utf-8")
    return f"{script}{head}export default listening({exported.strip().removesuffix(';')});\n"


class ListeningWidget(anywidget.AnyWidget):
    """A widget whose `_esm` is the result of `listening`."""

    comm_name = traitlets.Unicode("").tag(sync=True)
    """The name of the widget's own comm, under which the page finds its model."""

    def __init__(self, **traits: Any) -> None:
        name = uuid4().hex
        super().__init__(**{"model_id": name, "comm_name": name, **traits})
