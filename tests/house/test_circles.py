"""No two modules import each other, however indirectly and for whatever reason."""

from __future__ import annotations

from tests.house.circles import circles, imports
from tests.house.files import read, shipped


def test_modules_can_be_read_one_after_another() -> None:
    paths = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in shipped()}
    names = frozenset(paths)
    graph = {
        name: imports(f"{name}.__init__" if path.endswith("__init__.py") else name, read(path), names)
        for name, path in paths.items()
    }
    assert len(graph["kit.machines.coordinator.coordinator"]) > 10
    assert circles(graph) == []


def test_a_circle_is_found_however_it_is_imported() -> None:
    names = frozenset({"kit.a", "kit.b", "kit.c", "kit.d"})
    sources = {
        "kit.a": "from kit.b import x",
        "kit.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c",
        "kit.c": "def f():\n    import kit.a",
        "kit.d": "from kit import a",
    }
    graph = {name: imports(name, source, names) for name, source in sources.items()}
    assert circles(graph) == [["kit.a", "kit.b", "kit.c"]]
    assert circles(graph | {"kit.c": set()}) == []
