"""How values look that are drawn further up in this package.

The values need not know what draws them. `kit.draw` says where it is, and it is imported with the first to be drawn.
"""

from __future__ import annotations

from kit.lazily import Later

CAPTION = Later("caption a record")
"""Says as one line of text what a record of a trace says happened."""
DRAW_STAGE = Later("draw a stage")
"""Draws the chains of a stage as SVG."""
DRAW_SPACE_TIME = Later("draw a space-time diagram")
"""Draws what a space-time diagram shows as SVG."""
