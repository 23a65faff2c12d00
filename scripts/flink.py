"""Apache Flink's own classes, for comparisons: its jars, and small Java programs that use them.

`scripts/setup.sh flink` fetches the jars; FLINK_VERSION chooses another version than the default.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = os.environ.get("FLINK_VERSION", "2.3.0")
BUILD = ROOT / "build" / f"flink-{VERSION}"


class FlinkMissing(Exception):
    """javac or Flink's jars are missing; the message is one line."""


def fetch() -> None:
    """Make sure that the jars are there; raises FlinkMissing."""
    ran = subprocess.run([ROOT / "scripts" / "setup.sh", "flink"], stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise FlinkMissing(ran.stderr.strip().rpartition("\n")[2])


def run_java(source: Path, *arguments: str, lines: str = "", options: Sequence[str] = (), jars: str = "") -> str:
    """Compile a Java file against Flink and run it with `lines` as its input and options for Java; returns its output.

    `jars` is a class path of more than Flink's jars. Raises RuntimeError with what Java said where it does not compile
    or fails.
    """
    classes = BUILD / "classes"
    classes.mkdir(exist_ok=True)
    path = ":".join([f"{BUILD}/pyflink/lib/*", str(classes), *([jars] if jars else [])])
    _run(["javac", "-nowarn", "-cp", path, "-d", str(classes), str(source)])
    return _run(["java", *options, "-cp", path, source.stem, *arguments], lines)


def _run(command: list[str], lines: str = "") -> str:
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", check=False)
    if ran.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{ran.stderr.strip()}")
    return ran.stdout
