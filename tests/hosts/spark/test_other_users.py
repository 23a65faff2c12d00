"""Other users of the machine: the data of a session and its jobs that they can read."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.hosts.spark import preflight
from tests.hosts.spark.other_user import NOBODY

PLAIN = {
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
    "spark.rdd.compress": "false",
    "spark.eventLog.enabled": "true",
}
"""Nothing is compressed, so that the loot can be searched; and Spark writes down its events."""


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user can enter; those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="open-") as directory:
        os.chmod(directory, 0o755)
        for name in ("events", "temporary"):
            os.mkdir(f"{directory}/{name}", 0o755)
            os.chmod(f"{directory}/{name}", 0o755)
        yield Path(directory)


def attacked(place: Path, **settings: str) -> dict[str, Any]:
    """Return what another user found out about a running job, by the way that was used."""
    config = PLAIN | {"spark.eventLog.dir": (place / "events").as_uri()} | settings
    command = [sys.executable, "-m", "tests.hosts.spark.attacked_session", str(place), json.dumps(config)]
    came = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert came.returncode == 0, came.stderr
    told: dict[str, Any] = json.loads(came.stdout.splitlines()[-1])
    if os.getuid() == 0:
        assert told["uid"] == NOBODY
    else:  # the ports are attacked as by anybody else; only files can be read that another user could not read
        print("not root: the attack ran as this user, so files are judged by another test")
        told["found"]["files"] = told["found"]["processes"] = []
    assert told["ports"] >= 3, "Spark's, the driver's and the slots'"
    events = [path for path in place.glob("events/**/*") if path.is_file()]
    assert sum(path.stat().st_size for path in events) > 0
    told["found"]["processes"] = [name for name in told["found"]["processes"] if name in ("secret", "key")]
    return dict(told["found"])


def test_another_user_gets_nothing_of_a_session_of_the_kit(open_place: Path) -> None:
    found = attacked(open_place)
    assert found["blocks"] == []
    assert found["processes"] == []
    # The checkpoints and the output are where the user put them, with the rights that the umask gives.
    assert not {"secret", "key"} & set(found["files"])
    assert "rows" not in found["files"]


def test_in_a_session_without_authentication_the_credentials_are_in_no_block_and_no_file(open_place: Path) -> None:
    """The same attack succeeds there: functions and rows are open, but not what opens the job's own ports."""
    settings = {"spark.authenticate": "false", "spark.local.dir": str(open_place / "local")}
    found = attacked(open_place, **settings)
    assert found["blocks"] == ["function"]
    if os.getuid() == 0:
        assert "rows" in found["files"], "Spark's shuffle files"
    assert not {"secret", "key"} & {*found["files"], *found["processes"]}


def test_directories_of_the_kit_are_private() -> None:
    from kit.hosts.spark.session import _private_directory

    place = Path(_private_directory())
    assert [oct(path.stat().st_mode & 0o777) for path in (place, place.parent)] == ["0o700", "0o700"]


@pytest.mark.parametrize(
    ("master", "line"),
    [("local[4]", '.config("spark.authenticate", "true")'), ("spark://head:7077", "spark.authenticate true")],
)
def test_a_session_that_does_not_authenticate_is_warned_about_once(
    master: str, line: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "_warned", set())

    def session(application: str, **settings: str) -> Any:
        context = SimpleNamespace(applicationId=application, master=master, getConf=lambda: settings)
        return SimpleNamespace(sparkContext=context)

    closed, opened, another = session("a", **{"spark.authenticate": "true"}), session("b"), session("c")
    with caplog.at_level(logging.WARNING, "kit.hosts.spark"):
        for each in (closed, opened, opened, another):
            preflight._warn_if_open(each)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("this Spark session does not authenticate" in text and line in text for text in said)
