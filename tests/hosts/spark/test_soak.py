"""Everything is killed at random for as long as KIT_SOAK_MINUTES says (60): outputs right, nothing grows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.hosts.spark.held import FEWEST_JOBS, WARM_UP_JOBS, Held, check_flat, held
from tests.house.files import ROOT

MINUTES = float(os.environ.get("KIT_SOAK_MINUTES", "60"))
JOBS = WARM_UP_JOBS + FEWEST_JOBS


def life(role: str = "driver", **leaks: int) -> list[list[Held]]:
    """Return the resources of a process that leaks this much per job, with some noise."""
    noise = [0, 3, 1, 4, 1, 0, 2, 3, 0, 1, 4, 2]
    base = {"threads": 20, "files": 50, "memory_mb": 300}
    jobs = []
    for number in range(JOBS):
        values = {name: each + noise[number % 12] + leaks.get(name, 0) * number for name, each in base.items()}
        jobs.append([Held(role, 1, **values)])
    return jobs


@pytest.mark.parametrize("leaks", [{"threads": 1}, {"files": 1}, {"memory_mb": 3}], ids=str)
def test_what_grows_is_told(leaks: dict[str, int]) -> None:
    assert list(check_flat(life())) == ["driver 1"]
    with pytest.raises(AssertionError, match=rf"driver 1: {next(iter(leaks))} grow by"):
        check_flat(life(**leaks))


def test_what_a_process_holds_is_seen(tmp_path: Path) -> None:
    before = held("driver", os.getpid())
    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(open(tmp_path / str(number), "w"))
        over = threading.Event()
        threading.Thread(target=over.wait).start()
        stack.callback(over.set)
        after = held("driver", os.getpid())
    assert before is not None
    assert after is not None
    assert (after.files - before.files, after.threads - before.threads) == (3, 1)
    assert after.memory_mb > 0


def test_a_jvm_has_limits() -> None:
    check_flat(life("executor (Java)", threads=5))
    with pytest.raises(AssertionError, match=r"holds .* threads"):
        check_flat(life("executor (Java)", threads=50))


@pytest.mark.spark
@pytest.mark.soak
def test_everything_is_killed_at_random(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.hosts.spark.soak", str(MINUTES), str(tmp_path)],
        cwd=ROOT,
        timeout=60 * MINUTES + 900,
        check=False,
    )
    assert ran.returncode == 0
