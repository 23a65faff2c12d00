"""The conda environment is the lock by another door, and the lock is the project's."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from scripts.environment import LEFT_OUT, environment_yml, pins
from tests.house.files import ROOT, read

LOCK = tomllib.loads(read("uv.lock"))
PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
WRITTEN = yaml.safe_load(read("environment.yml"))["dependencies"]
PINNED = dict(pin.split("==") for pin in WRITTEN[-1]["pip"] if "==" in pin)


def test_environment_yml_is_what_the_lock_says() -> None:
    assert read("environment.yml") == environment_yml(LOCK), "run `make lock`"


def test_conda_brings_python_and_java_and_pip_the_rest() -> None:
    assert [entry for entry in WRITTEN if isinstance(entry, str)] == ["python=3.11", "openjdk=17", "pip"]
    assert [entry for entry in WRITTEN[-1]["pip"] if "==" not in entry] == ["-e ."]


def test_binder_finds_what_it_goes_by_in_the_root() -> None:
    assert not any((ROOT / name).exists() for name in ("binder", ".binder", "Dockerfile")), "Binder would go by that"
    trusts = ROOT / "postBuild"
    assert trusts.stat().st_mode & 0o111
    assert trusts.read_text("utf-8").startswith("#!")
    (pattern,) = re.findall(r"jupyter trust (\S+)", trusts.read_text("utf-8"))
    assert set(ROOT.glob(pattern)) == set((ROOT / "notebooks").glob("*.ipynb")) != set()


def test_the_dev_container_has_condas_python_and_is_set_up_by_the_same_script() -> None:
    container = json.loads(read(".devcontainer/devcontainer.json"))
    script, *_ = container["postCreateCommand"].split()
    assert (ROOT / script).exists()
    built_on = re.search(
        r"^FROM python:(\d+\.\d+)", read(f".devcontainer/{container['build']['dockerfile']}"), re.MULTILINE
    )
    assert built_on is not None
    assert f"python={built_on[1]}" in WRITTEN


def test_every_pin_is_a_version_the_lock_has() -> None:
    locked = {(package["name"], package.get("version")) for package in LOCK["package"]}
    assert set(PINNED.items()) - locked == set()


def test_all_that_the_project_asks_for_is_pinned_within_its_bounds() -> None:
    extras = [lines for name, lines in PROJECT["optional-dependencies"].items() if name not in LEFT_OUT]
    for line in [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]:
        asked = Requirement(line)
        if asked.name == PROJECT["name"]:  # an extra that names others
            continue
        assert asked.specifier.contains(PINNED[asked.name]), line


def test_the_lock_was_made_for_these_dependencies() -> None:
    (project,) = [package for package in LOCK["package"] if package["name"] == PROJECT["name"]]
    listed = project["metadata"]["requires-dist"]
    locked = {(entry["name"], SpecifierSet(entry.get("specifier", ""))) for entry in listed}
    extras = PROJECT["optional-dependencies"].values()
    asked = map(Requirement, [*PROJECT["dependencies"], *(line for extra in extras for line in extra)])
    wanted = {(requirement.name, requirement.specifier) for requirement in asked}
    assert {each for each in wanted ^ locked if each[0] != PROJECT["name"]} == set(), "run `make lock`"


def made_up_lock() -> dict[str, list[dict[str, object]]]:
    project = {
        "name": "checkpoint-kit",
        "dependencies": [{"name": "a"}, {"name": "win", "marker": "sys_platform == 'win32'"}],
        "optional-dependencies": {"extra": [{"name": "b", "extra": ["fast"]}]},
    }
    a_old = {"name": "a", "version": "1", "resolution-markers": ["python_full_version < '3.11'"]}
    a_new = {"name": "a", "version": "2", "resolution-markers": ["python_full_version >= '3.11'"]}
    b = {
        "name": "b",
        "version": "3",
        "dependencies": [{"name": "a"}],
        "optional-dependencies": {"fast": [{"name": "c"}]},
    }
    rest = [{"name": "c", "version": "4"}, {"name": "win", "version": "5"}, {"name": "unused", "version": "6"}]
    return {"package": [project, a_old, a_new, b, *rest]}


def test_pins_follow_extras_and_markers() -> None:
    assert pins(made_up_lock()) == {"a": "2", "b": "3", "c": "4"}


def test_a_lock_without_the_project_is_refused() -> None:
    with pytest.raises(KeyError, match="checkpoint-kit"):
        pins({"package": []})
