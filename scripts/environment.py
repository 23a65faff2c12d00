"""Write environment.yml (conda, Binder) from uv.lock: the same versions.

Conda brings Python and Java. Everything else is installed by pip, pinned to the versions of the lock for Python 3.11 on
Linux.
Run by `make lock`; tests/house/test_environment.py compares the two.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "checkpoint-kit"

# What Binder runs: the markers in uv.lock are evaluated for it.
TARGET = {
    "python_version": "3.11",
    "python_full_version": "3.11.14",
    "implementation_name": "cpython",
    "implementation_version": "3.11.14",
    "platform_python_implementation": "CPython",
    "platform_machine": "x86_64",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "os_name": "posix",
    "sys_platform": "linux",
    "extra": "",
}

LEFT_OUT = {"docs", "classroom"}
"""Extras that nobody needs where notebooks are run."""

HEADER = """\
# For conda and Binder. Written from uv.lock by `make lock`: do not edit.
name: checkpoint-kit
channels:
  - conda-forge
dependencies:
  - python=3.11
  - openjdk=17
  - pip
  - pip:
      - -e .
"""


def applies(entry: dict[str, Any]) -> bool:
    """Tell whether a dependency counts on the target."""
    return "marker" not in entry or Marker(entry["marker"]).evaluate(TARGET)


def chosen(packages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pick, of each package, the version the lock means for the target."""
    by_name = {}
    for package in packages:
        markers = package.get("resolution-markers", [])
        if not markers or any(Marker(marker).evaluate(TARGET) for marker in markers):
            by_name[package["name"]] = package
    return by_name


def pins(lock: dict[str, Any]) -> dict[str, str]:
    """Give name -> version of all that the project needs at run time, with the extras for it."""
    packages = chosen(lock["package"])
    project = packages[PROJECT]
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    extras = [entries for name, entries in project["optional-dependencies"].items() if name not in LEFT_OUT]
    waiting = [*project["dependencies"], *(entry for entries in extras for entry in entries)]
    while waiting:
        entry = waiting.pop()
        if not applies(entry) or entry["name"] == PROJECT:  # one extra may name others, which are all here
            continue
        package = packages[entry["name"]]
        found[entry["name"]] = package["version"]
        for extra in ("", *entry.get("extra", [])):
            if (entry["name"], extra) not in seen:
                seen.add((entry["name"], extra))
                optional = package.get("optional-dependencies", {})
                waiting += optional.get(extra, []) if extra else package.get("dependencies", [])
    return dict(sorted(found.items()))


def environment_yml(lock: dict[str, Any]) -> str:
    """Give the text of environment.yml."""
    return HEADER + "".join(f"      - {name}=={version}\n" for name, version in pins(lock).items())


if __name__ == "__main__":
    text = environment_yml(tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8")))
    (ROOT / "environment.yml").write_text(text, encoding="utf-8")
