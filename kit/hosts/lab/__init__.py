"""The lab: a whole job in one process, one step at a time, forward and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.hosts.lab.errors import Interrupted as Interrupted
    from kit.hosts.lab.errors import LabError as LabError
    from kit.hosts.lab.errors import LabWarning as LabWarning
    from kit.hosts.lab.jobs.ready_jobs import ready_job as ready_job
    from kit.hosts.lab.jobs.ready_jobs import ready_jobs as ready_jobs
    from kit.hosts.lab.lab import Lab as Lab
    from kit.hosts.lab.scenarios.scenario import Scenario as Scenario
    from kit.hosts.lab.scenarios.scenario import list_scenarios as list_scenarios
    from kit.hosts.lab.scenarios.scenario import open_scenario as open_scenario
    from kit.hosts.lab.scenarios.scenario import save_scenario as save_scenario
    from kit.hosts.lab.step import Step as Step
    from kit.hosts.lab.world.schedulers import Adversarial as Adversarial
    from kit.hosts.lab.world.schedulers import Fair as Fair
    from kit.hosts.lab.world.schedulers import First as First
    from kit.hosts.lab.world.schedulers import Random as Random
    from kit.hosts.lab.world.schedulers import Slow as Slow

_offer(__name__)
