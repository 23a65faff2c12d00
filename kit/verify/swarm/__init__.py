"""Random trials of jobs in the lab, and minimal reproductions of those that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.verify.swarm.swarm import Swarm as Swarm
    from kit.verify.swarm.swarm import swarm as swarm

_offer(__name__)
