"""How values look that are drawn further up in this room: `shown(stage)` is a picture, `shown(record)` a caption.

What draws a kind of value registers itself here, so that the value need not know it. `kit.draw` imports all that do.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any


@singledispatch
def shown(thing: Any) -> str:
    """The picture of a value as SVG, or its caption as text; TypeError for what nothing draws."""
    raise TypeError(f"nothing in kit.draw shows a {type(thing).__name__}")
