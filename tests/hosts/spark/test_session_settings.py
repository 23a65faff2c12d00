"""The settings of a session: each of the kit's, those that only some masters get, and the user's over them all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from kit.hosts.spark.session import session_environment, session_settings

HERE = None, "local", "local[3]", "local-cluster[2,1,1024]"
ELSEWHERE = "spark://host:7077", "yarn"


@pytest.mark.parametrize("master", [*HERE, *ELSEWHERE])
def test_a_session_has_the_settings_of_its_master(master: str | None) -> None:
    found = session_settings("lesson", 4, master)
    everywhere = {
        "spark.app.name": "lesson",
        "spark.master": master or "local[6]",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.python.task.killTimeout": "500ms",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 32),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }
    assert everywhere.items() <= found.items()
    assert {"log4j2.properties", "-Darrow"} <= {
        word for word in ("log4j2.properties", "-Darrow") if word in found["spark.driver.extraJavaOptions"]
    }
    here = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.authenticate": "true"}
    assert (here.items() <= found.items()) == (master in HERE)
    assert ("spark.local.dir" in found) == ("spark.executorEnv.PYTHONPATH" in found) == (master in HERE)
    one_executor = master in (None, "local", "local[3]")
    assert ("spark.executor.heartbeatInterval" in found) == ("spark.network.timeoutInterval" in found) != one_executor


def test_workers_import_what_this_process_imports_and_others_read_no_files() -> None:
    found = session_settings("lesson", 4, None)
    entries = found["spark.executorEnv.PYTHONPATH"].split(os.pathsep)
    assert entries[0] == str(Path(__file__).parents[3])
    assert set(entries) >= {os.path.abspath(each) for each in sys.path}
    assert len(entries) == len(set(entries))
    assert stat.S_IMODE(os.stat(found["spark.local.dir"]).st_mode) == 0o700


def test_each_setting_of_the_user_holds() -> None:
    config = {"spark.ui.enabled": "true", "spark.master": "local[9]", "spark.authenticate": "false", "spark.x": "y"}
    for master in (None, "spark://host:7077"):
        found = session_settings("lesson", 4, master, config)
        assert config.items() <= found.items()
        assert found == session_settings("lesson", 4, master) | config


def test_workers_run_this_python_and_only_a_session_on_this_machine_is_bound_to_it() -> None:
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for master in HERE:
        assert session_environment(master) == python | {"SPARK_LOCAL_IP": "127.0.0.1"}
    for master in ELSEWHERE:
        assert session_environment(master) == python
