"""The names that Tab offers in a notebook: all public names of a package and no others."""

from __future__ import annotations

import importlib
import tomllib

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import kit
from tests.house.files import ROOT

PACKAGES = ("kit", "kit.draw", "kit.hosts.lab", "kit.hosts.spark", "widgets")


@pytest.fixture(params=["jedi", "dir"])
def shell(request: pytest.FixtureRequest) -> InteractiveShell:
    """A shell that completes as a notebook's kernel does, with jedi and without."""
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    shell.Completer.use_jedi = request.param == "jedi"
    return shell


def offered(shell: InteractiveShell, text: str) -> list[str]:
    """Return the completions that Tab offers behind the text's last dot."""
    with provisionalcompleter():
        return sorted(each.text.removeprefix(".") for each in shell.Completer.completions(text, len(text)))


@pytest.mark.parametrize("package", PACKAGES)
def test_tab_offers_the_public_names_and_no_others(shell: InteractiveShell, package: str) -> None:
    shell.user_ns["package"] = importlib.import_module(package)
    assert offered(shell, "package.") == sorted(shell.user_ns["package"].__all__)


def test_tab_finds_what_is_imported_when_it_is_asked_for(shell: InteractiveShell) -> None:
    shell.user_ns["kit"] = kit
    assert offered(shell, "kit.La") == ["Lab"]
    assert offered(shell, "kit.Spark") == ["SparkJob"]
    assert offered(shell, "kit.create_s") == ["create_session"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_offered_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in dir(module) if not hasattr(module, name)] == []
    assert [name for name in dir(module) if name not in module.__all__ and not name.startswith("__")] == []


def test_what_we_ship_says_that_it_is_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert [name for name in shipped if not (ROOT / name / "py.typed").is_file()] == []
