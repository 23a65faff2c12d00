"""A Spark session that is stopped while a job runs in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("moment", ["runs", "restarts"])
def test_a_job_whose_session_is_stopped_fails_and_says_so(tmp_path: Path, moment: str) -> None:
    command = [sys.executable, "-m", "tests.hosts.spark.stopped_session", str(tmp_path), moment]
    came = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert came.returncode == 0, came.stderr
    seen = json.loads(came.stdout.splitlines()[-1])
    assert seen.pop("error").startswith("its Spark session was stopped while the job ran")
    assert seen == {
        "ended": True,
        "cancelled": "FAILED",
        "status": "FAILED",
        "workers": [],
        "python": [],
        "running": False,
        "rest": "FINISHED",
    }
    assert "Traceback" not in came.stderr
    assert "AttributeError" not in came.stderr
