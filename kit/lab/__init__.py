"""The lab: a whole job in one process, one step at a time, forward and back."""

from kit.lab.comparing import compare_modes, run_modes, union_growth
from kit.lab.errors import LabError, LabWarning
from kit.lab.lab import Lab
from kit.lab.play import Play, plays
from kit.lab.play import open_play as _open_play
from kit.lab.play import save_play as _save_play
from kit.lab.play_doors import plays_with as _plays_with
from kit.lab.ready_jobs import ready_job, ready_jobs
from kit.lab.schedulers import Adversarial, Fair, First, Random, Slow
from kit.lab.step import Step
from kit.lab.swarm import Swarm, swarm

__all__ = [
    "Adversarial",
    "Fair",
    "First",
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

_plays_with(_open_play, _save_play)


def __dir__() -> list[str]:
    """What Tab offers: the names below, and nothing that this file happens to need."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
