"""The lab: a whole job in one process, one step at a time, forward and back."""

from kit.lab.errors import LabError, LabWarning
from kit.lab.lab import Lab, Step

__all__ = ["Lab", "LabError", "LabWarning", "Step"]
