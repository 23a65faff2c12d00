"""The views that there are, in the order of the explorer's tabs: each answers one question about a run."""

from __future__ import annotations

from kit.draw.barriers import VIEW as BARRIERS
from kit.draw.chains import VIEW as CHAINS
from kit.draw.checkpoint_life import VIEW as LIFE
from kit.draw.snapshot_contents import snapshot_view
from kit.draw.view import View

VIEWS: tuple[View, ...] = (
    CHAINS,
    BARRIERS,
    LIFE,
    View("snapshot", "Snapshot", "What does a checkpoint hold, and in which bytes of which file?", snapshot_view),
)
