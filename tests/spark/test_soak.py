"""Everything is killed at random for as long as KIT_SOAK_MINUTES says (60): outputs right, nothing grows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tests.spark.soak import FEWEST_JOBS, WARM_UP_JOBS, check_flat

MINUTES = float(os.environ.get("KIT_SOAK_MINUTES", "60"))


def held(threads: int, files: int, memory_mb: int) -> dict[str, object]:
    of = {"threads": threads, "files": files, "memory_mb": memory_mb}
    return {"pid": 1, "python": of, "java": of}


def test_what_grows_is_told() -> None:
    begin = [held(99, 99, 999)] * WARM_UP_JOBS + [held(20, 50, 300)] * (FEWEST_JOBS - WARM_UP_JOBS)
    check_flat(begin)
    for grown in (held(40, 50, 300), held(20, 90, 300), held(20, 50, 500)):
        with pytest.raises(AssertionError, match=r"python: (threads|files|memory_mb) grew from"):
            check_flat([*begin, grown])


@pytest.mark.spark
@pytest.mark.soak
def test_everything_is_killed_at_random(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.soak", str(MINUTES), str(tmp_path)],
        cwd=ROOT,
        timeout=60 * MINUTES + 900,
        check=False,
    )
    assert ran.returncode == 0
