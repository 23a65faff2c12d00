"""A JobMaster whose cluster was stopped fails for good, whatever its phase, and is not deployed again."""

from __future__ import annotations

import pytest

from kit.core.protocol import commands, events
from kit.machines.job.status import JobStatus, Phase
from tests.machines.job.harness import JobHarness
from tests.machines.job.test_leadership import PHASES

STOPPED = events.ClusterStopped(error="the cluster was stopped")
ENDING_ANYWAY = {
    Phase.FINISHING: JobStatus.FINISHED,
    Phase.FAILING: JobStatus.FAILED,
    Phase.CANCELLING: JobStatus.CANCELED,
}


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_job_whose_cluster_was_stopped_ends_at_once(phase: Phase) -> None:
    job = PHASES[phase]()
    assert job.master.phase is phase
    job.take(commands.StartEpoch)
    job.give(STOPPED)
    job.answer_all()
    job.wait(1_000_000)
    assert job.status is ENDING_ANYWAY.get(phase, JobStatus.FAILED)
    assert (job.master.error == STOPPED.error) is (phase not in ENDING_ANYWAY)
    assert job.take(commands.StartEpoch) == []
    assert job.master.epoch == 1


def test_a_job_that_has_not_begun_fails_too() -> None:
    job = JobHarness(store="filesystem", directory="/c")
    job.give(events.StartJob())
    job.give(STOPPED)
    assert job.status is JobStatus.FAILED
    assert job.master.error == STOPPED.error
