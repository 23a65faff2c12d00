"""The lab: a whole job in one process, one step at a time, forward and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.hosts.lab.errors import Interrupted, LabError, LabWarning
    from kit.hosts.lab.jobs.ready_jobs import ready_job, ready_jobs
    from kit.hosts.lab.lab import Lab
    from kit.hosts.lab.scenarios.links import link_of, open_link
    from kit.hosts.lab.scenarios.scenario import Scenario, list_scenarios, open_scenario, save_scenario
    from kit.hosts.lab.step import Step
    from kit.hosts.lab.world.schedulers import Adversarial, Fair, First, Random, Slow

_offer(
    __name__,
    {
        "kit.hosts.lab.errors": ["Interrupted", "LabError", "LabWarning"],
        "kit.hosts.lab.lab": ["Lab"],
        "kit.hosts.lab.scenarios.links": ["link_of", "open_link"],
        "kit.hosts.lab.scenarios.scenario": ["Scenario", "list_scenarios", "open_scenario", "save_scenario"],
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
    "Random",
    "Scenario",
    "Slow",
    "Step",
    "link_of",
    "list_scenarios",
    "open_link",
    "open_scenario",
    "ready_job",
    "ready_jobs",
    "save_scenario",
]
