"""The setup by `make` on an empty machine: the script itself, with programs that only record their calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT

BASH = shutil.which("bash") or "bash"
NEEDED = ["bash", "cat", "chmod", "cksum", "dirname", "head", "ln", "mkdir", "rm", "sed"]
"""What the script takes from any machine."""

UV = """
if [ "$1" = venv ]; then
  mkdir -p .venv/bin && ln -sf "{python}" .venv/bin/python && ln -sf "{python}" .venv/bin/python3
fi
"""
PIP = """
case "$*" in
  *"pip install"*--target*) mkdir -p .uv/bin && printf '%s' "$FAKE_UV" > .uv/bin/uv && chmod +x .uv/bin/uv ;;
  *"import uv"*) exit 1 ;;
esac
"""
JAVA = 'echo "openjdk version \\"{major}.0.1\\"" >&2\n'
APT = """
if [ "$1" = install ]; then
  printf '%s' "$FAKE_JAVA" > "$FAKES/java" && chmod +x "$FAKES/java"
fi
"""


class Machine:
    """A project of two files, and a PATH with nothing but what a test puts there."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        (self.project / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "setup.sh", self.project / "scripts")
        for name in ("pyproject.toml", "uv.lock"):
            (self.project / name).write_text("first")
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.calls = directory / "calls"
        for name in NEEDED:
            (self.programs / name).symlink_to(shutil.which(name) or name)

    def has(self, name: str, does: str = "") -> None:
        """Put a program there, which notes its arguments."""
        path = self.programs / name
        path.write_text(self.noting(name, does))
        path.chmod(0o755)

    def noting(self, name: str, does: str) -> str:
        return f'#!{BASH}\necho "{name} $*" >> {self.calls}\n{does}'

    def make(self, *needs: str, environment_first: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the script as make does, the environment's programs being the first on the PATH."""
        first = [str(self.project / ".venv" / "bin")] if environment_first else []
        return subprocess.run(
            [BASH, "scripts/setup.sh", *needs],
            cwd=self.project,
            env={
                "PATH": os.pathsep.join([*first, str(self.programs)]),
                "FAKES": str(self.programs),
                "FAKE_JAVA": self.noting("java", JAVA.format(major=17)),
                "FAKE_UV": self.noting("uv", UV.format(python=sys.executable)),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def called(self, *words: str) -> list[str]:
        """The calls so far that contain all these words."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line for line in lines if all(word in line for word in words)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.has("python3", PIP)
    made.has("id", "echo 0\n")
    return made


def test_uv_is_installed_once(machine: Machine) -> None:
    """This also holds if an environment exists, is the first on the PATH, and must be created again."""
    assert "installing uv into .uv" in machine.make().stderr
    assert len(machine.called("uv sync")) == 1
    assert machine.make().stderr == ""
    assert len(machine.called("uv sync")) == 1
    for change in ("second", "third"):
        (machine.project / "uv.lock").write_text(change)
        again = machine.make()
        assert again.returncode == 0, again.stderr
        assert "installing" not in again.stderr
    assert len(machine.called("uv sync")) == 3
    assert len(machine.called("pip install")) == 1


def test_root_gets_java(machine: Machine) -> None:
    machine.has("uv", UV.format(python=sys.executable))
    machine.has("apt-get", APT)
    ended = machine.make("java")
    assert ended.returncode == 0, ended.stderr
    assert "installing default-jre-headless with apt-get" in ended.stderr
    assert machine.called("apt-get install", "default-jre-headless") != []
    assert machine.make("java").stderr == ""
    assert len(machine.called("apt-get install")) == 1


def test_root_gets_a_newer_java(machine: Machine) -> None:
    machine.has("uv", UV.format(python=sys.executable))
    machine.has("apt-get", APT)
    machine.has("java", JAVA.format(major=11))
    assert machine.make("java").returncode == 0
    assert len(machine.called("apt-get install")) == 1


def test_others_are_told_what_to_ask_for(machine: Machine) -> None:
    machine.has("id", "echo 1000\n")
    machine.has("apt-get", APT)
    machine.has("java", JAVA.format(major=11))
    ended = machine.make("java")
    assert ended.returncode == 1
    assert "Java 17 or newer is needed and java is 11: as root, apt-get install default-jre-headless" in ended.stderr
    assert machine.called("apt-get") == []


def test_java_is_left_alone_where_it_is_new_enough(machine: Machine) -> None:
    machine.has("uv", UV.format(python=sys.executable))
    machine.has("apt-get", APT)
    machine.has("java", JAVA.format(major=21))
    assert machine.make("java").returncode == 0
    assert machine.called("apt-get") == []
