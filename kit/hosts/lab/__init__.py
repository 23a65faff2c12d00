"""The lab: a whole job in one process, one step at a time, forward and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer
from kit.hosts.lab.scenarios import play_doors as _play_doors

if TYPE_CHECKING:
    from kit.hosts.lab.errors import Interrupted, LabError, LabWarning
    from kit.hosts.lab.jobs.ready_jobs import ready_job, ready_jobs
    from kit.hosts.lab.lab import Lab
    from kit.hosts.lab.scenarios.play import Play, plays
    from kit.hosts.lab.step import Step
    from kit.hosts.lab.world.schedulers import Adversarial, Fair, First, Random, Slow

_offer(
    __name__,
    {
        "kit.hosts.lab.errors": ["Interrupted", "LabError", "LabWarning"],
        "kit.hosts.lab.lab": ["Lab"],
        "kit.hosts.lab.scenarios.play": ["Play", "plays"],
        "kit.hosts.lab.jobs.ready_jobs": ["ready_job", "ready_jobs"],
        "kit.hosts.lab.world.schedulers": ["Adversarial", "Fair", "First", "Random", "Slow"],
        "kit.hosts.lab.step": ["Step"],
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
    "plays",
    "ready_job",
    "ready_jobs",
]

_play_doors.OPEN_PLAY.is_at("kit.hosts.lab.scenarios.play", "open_play")
_play_doors.SAVE_PLAY.is_at("kit.hosts.lab.scenarios.play", "save_play")
