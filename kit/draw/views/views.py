"""The table of views, in the order of the explorer's tabs. Each answers one question about a run."""

from __future__ import annotations

from kit.draw.views.at_risk import VIEW as AT_RISK
from kit.draw.views.barriers import VIEW as BARRIERS
from kit.draw.views.chains import VIEW as CHAINS
from kit.draw.views.checkpoint_life import VIEW as LIFE
from kit.draw.views.checkpoints.shared_state import VIEW as SHARED_STATE
from kit.draw.views.checkpoints.snapshot_contents import VIEW as SNAPSHOT
from kit.draw.views.phase_bars import VIEW as PHASES
from kit.draw.views.rescaling import VIEW as RESCALING
from kit.draw.views.view import View

VIEWS: tuple[View, ...] = (
    CHAINS,
    BARRIERS,
    PHASES,
    LIFE,
    SNAPSHOT,
    AT_RISK,
    RESCALING,
    SHARED_STATE,
)
