"""A Spark session that is stopped while a job runs in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_job_whose_session_is_stopped_fails_and_says_so(tmp_path: Path) -> None:
    moments = ("runs", "restarts")
    command = [sys.executable, "-m", "tests.hosts.spark.stopped_session", str(tmp_path), *moments]
    came = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert came.returncode == 0, came.stderr
    seen = json.loads(came.stdout.splitlines()[-1])
    assert list(seen) == list(moments)
    for moment, found in seen.items():
        assert found.pop("error").startswith("its Spark session was stopped while the job ran"), moment
        assert found == {
            "ended": True,
            "cancelled": "FAILED",
            "status": "FAILED",
            "workers": [],
            "python": [],
            "running": False,
            "rest": "FINISHED",
        }, moment
    assert "Traceback" not in came.stderr
    assert "AttributeError" not in came.stderr
