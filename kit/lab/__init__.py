"""The lab: a whole job in one process, one step at a time, forward and back."""

from kit.lab.errors import LabError, LabWarning
from kit.lab.lab import Lab, Step
from kit.lab.swarm import Swarm, swarm

__all__ = ["Lab", "LabError", "LabWarning", "Step", "Swarm", "swarm"]


def __dir__() -> list[str]:
    """What Tab offers: the names below, and nothing that this file happens to need."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
