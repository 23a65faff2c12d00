"""Names that are imported when they are first used: no use of a package shows the difference."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from types import ModuleType

import pytest
from pyspark import cloudpickle

import kit
from kit.core.display import display, provide
from kit.core.lazily import Offering
from tests.house.files import ROOT, read, shipped

OFFERING = [
    path
    for path in shipped()
    if path.endswith("__init__.py") and "_offer(" in read(path) and "TYPE_CHECKING" in read(path)
]


def package_of(path: str) -> Offering:
    made = importlib.import_module(path.removesuffix("/__init__.py").replace("/", "."))
    assert isinstance(made, Offering)
    return made


def for_type_checkers(path: str) -> dict[str, str]:
    """Return the names that the package imports `if TYPE_CHECKING`, with their modules."""
    (guarded,) = (node for node in ast.parse(read(path)).body if isinstance(node, ast.If))
    assert ast.unparse(guarded.test) == "TYPE_CHECKING"
    lines = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in lines for alias in line.names}


def in_a_process(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_packages_that_offer_names() -> None:
    assert {
        "kit/__init__.py",
        "kit/draw/__init__.py",
        "kit/hosts/lab/__init__.py",
        "kit/hosts/spark/__init__.py",
    } <= set(OFFERING)


@pytest.mark.parametrize("path", OFFERING)
def test_it_offers_what_type_checkers_see(path: str) -> None:
    package, seen = package_of(path), for_type_checkers(path)
    assert package._homes == seen
    public = {name for name in seen if not name.startswith("__")}
    assert package.__all__ == sorted({*public, *({"show"} if package is kit else ())})


@pytest.mark.parametrize("path", OFFERING)
def test_other_peoples_type_checkers_see_each_name(path: str) -> None:
    """They take an import in a typed package for private, unless it is written `as` itself."""
    (guarded,) = (node for node in ast.parse(read(path)).body if isinstance(node, ast.If))
    imported = [alias for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert [alias.name for alias in imported if alias.asname != alias.name] == []


@pytest.mark.parametrize("path", OFFERING)
def test_each_name_is_what_its_module_defines(path: str) -> None:
    package = package_of(path)
    for name, home in for_type_checkers(path).items():
        assert getattr(package, name) is getattr(importlib.import_module(home), name)
    assert sorted(name for name in dir(package) if not name.startswith("__")) == sorted(package.__all__)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Labb'"):
        _ = package.Labb


def test_star_gives_all_names_and_nothing_else() -> None:
    told = in_a_process("from kit import *; print(*(name for name in dir() if not name.startswith('__')))")
    assert set(told.split()) == set(kit.__all__)


def test_classes_are_pickled_by_where_they_are_defined() -> None:
    assert kit.CheckpointConfig.__module__ == "kit.stream.settings.job_settings"
    config = kit.CheckpointConfig(interval_ms=50)
    assert pickle.loads(pickle.dumps(config)) == config
    assert pickle.loads(pickle.dumps(kit.Lab)) is kit.Lab


def test_a_function_that_uses_the_package_travels_to_spark() -> None:
    def function() -> object:
        return kit.Window

    sent = cloudpickle.dumps(lambda: kit)
    assert pickle.loads(sent)() is kit
    assert pickle.loads(cloudpickle.dumps(function))() is kit.Window


def test_submodules_are_attributes_without_being_imported() -> None:
    code = (
        "import kit\n"
        "print(kit.hosts.lab.Lab.__name__, kit.stream.api.StreamEnvironment.__name__, kit.core.metadata.__name__)"
    )
    assert in_a_process(code) == "Lab StreamEnvironment kit.core.metadata"


def test_a_submodule_does_not_take_the_place_of_a_name() -> None:
    code = (
        "import kit.draw.charts.gantt, kit.verify.swarm.swarm\n"
        "from kit.draw import gantt\n"
        "print(gantt.__module__, kit.draw.gantt is gantt, kit.verify.swarm.swarm.__name__, callable(kit.draw.gantt))"
    )
    assert in_a_process(code) == "kit.draw.charts.gantt True swarm True"


def test_methods_find_what_higher_packages_do_for_them() -> None:
    code = (
        "from kit.stream.api.environment import StreamEnvironment\n"
        "from kit.stream.connectors.memory_sources import CollectionSource\n"
        "from kit.stream.connectors.sink import CollectSink\n"
        "env = StreamEnvironment('job')\n"
        "env.from_source(CollectionSource([{'n': 1}]), uid='numbers').sink_to(CollectSink('out'), uid='out')\n"
        "print(env._repr_svg_()[:4])\n"
        "from kit.hosts.lab.lab import Lab\n"
        "from kit.hosts.lab import open_scenario\n"
        "lab = Lab(env)\n"
        "lab.run()\n"
        "print(type(lab.trace.why('job')).__name__, type(lab.trace.show()).__name__)\n"
        "print(type(open_scenario('late-ack')).__name__, "
        "lab.look.stages[0]._repr_svg_()[:4], str(lab.moment())[:7])"
    )
    assert in_a_process(code).split() == ["<svg", "Why", "Explorer", "Scenario", "<svg", "Moment("]


def test_an_unknown_display_is_named_and_those_that_exist() -> None:
    with pytest.raises(ImportError, match=r"the display 'no_such' is unknown; known are advice_html, answer_dot, "):
        display("no_such")


@pytest.mark.parametrize(
    ("module", "said"), [("kazoo", r"pip install '.*\[zookeeper\]'"), ("elsewhere", "no elsewhere")]
)
def test_a_missing_module_is_explained_and_is_never_its_own_cause(module: str, said: str) -> None:
    def shows(_: object) -> str:
        raise ModuleNotFoundError(f"no {module}", name=module)

    table = ModuleType("displays_of_a_test")
    name = f"shows_with_{module}"
    vars(table).update({name: shows, "__all__": [name]})
    provide(table)
    with pytest.raises(ImportError, match=said) as raised:
        display(name, None)
    assert raised.value.__cause__ is not raised.value
