"""The lab: a whole job in one process, one step at a time, forward and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lab import play_doors as _play_doors
from kit.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.lab.comparing import compare_modes, run_modes, union_growth
    from kit.lab.errors import Interrupted, LabError, LabWarning
    from kit.lab.lab import Lab
    from kit.lab.play import Play, plays
    from kit.lab.ready_jobs import ready_job, ready_jobs
    from kit.lab.schedulers import Adversarial, Fair, First, Random, Slow
    from kit.lab.step import Step
    from kit.lab.swarm import Swarm, swarm

_offer(
    __name__,
    {
        "kit.lab.comparing": ["compare_modes", "run_modes", "union_growth"],
        "kit.lab.errors": ["Interrupted", "LabError", "LabWarning"],
        "kit.lab.lab": ["Lab"],
        "kit.lab.play": ["Play", "plays"],
        "kit.lab.ready_jobs": ["ready_job", "ready_jobs"],
        "kit.lab.schedulers": ["Adversarial", "Fair", "First", "Random", "Slow"],
        "kit.lab.step": ["Step"],
        "kit.lab.swarm": ["Swarm", "swarm"],
    },
)

__all__ = [
    "Adversarial",
    "Fair",
    "First",
    "Interrupted",
    "Lab",
    "LabError",
    "LabWarning",
    "Play",
    "Random",
    "Slow",
    "Step",
    "Swarm",
    "compare_modes",
    "plays",
    "ready_job",
    "ready_jobs",
    "run_modes",
    "swarm",
    "union_growth",
]

_play_doors.OPEN_PLAY.is_at("kit.lab.play", "open_play")
_play_doors.SAVE_PLAY.is_at("kit.lab.play", "save_play")
