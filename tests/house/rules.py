"""The rules of imports: the layers of the packages, and what the protocol must not use.

The rules are data (`FLOORS`, `REFUSED`, `FREE`, `DOORS`); `violations` checks one source file. It reads
the syntax tree, so an import inside a function counts as much as one at the top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath

# From the bottom up: a floor imports only floors below it. `kit` is kit/__init__.py, which exports the public names.
FLOORS = (
    "kit.core.extras",
    "kit.core.lazily",
    "kit.core",
    "kit.stream",
    "kit.machines",
    "kit.hosts",
    "kit.verify",
    "kit.course",
    "kit.core.display",
    "kit.core.state",
    "kit.core.arguments",
    "kit.core.protocol",
    "kit.core.trace",
    "kit.core.metadata",
    "kit.filesystems",
    "kit.stream.backend",
    "kit.stream.operators",
    "kit.stream.connectors",
    "kit.stream.settings",
    "kit.stream.graph",
    "kit.stream.api",
    "kit.machines.channel",
    "kit.machines.task",
    "kit.machines.restore",
    "kit.machines.coordinator",
    "kit.machines.job",
    "kit.restore_check",
    "kit.files",
    "kit.glossary",
    "kit.course.reading",
    "kit.run",
    "kit.advice",
    "kit.snapshots",
    "kit.why",
    "kit.hosts.spark",
    "pyspark_checkpoint",
    "kit.hosts.lab",
    "kit.draw",
    "kit.verify.swarm",
    "kit.verify.explore",
    "kit.course.comparing",
    "kit.course.missions",
    "kit.course.bank",
    "kit.course.material",
    "checkpoint_kit.collisions",
    "kit.version",
    "kit.checkup",
    "widgets.runs",
    "widgets.base",
    "widgets.pictures",
    "widgets.panels",
    "widgets.explorer",
    "widgets",
    "kit.tracebacks",
    "kit.displays",
    "kit",
    "kit.cli",
    "kit.__main__",
    "checkpoint_kit",
    "kit.course.classroom",
    "kit.course.grading",
)

# The pure part: an event in, commands out.
PROTOCOL = FLOORS[: FLOORS.index("kit.files")]

# Dotted names by what they are; a name stands for all below it, a call of a builtin is `builtins.<name>`.
REFUSED = {
    "Spark": {"pyspark", "py4j"},
    "threads": {"threading", "_thread", "concurrent", "multiprocessing", "asyncio", "queue", "sched", "contextvars"},
    "sockets": {"socket", "socketserver", "selectors", "select", "ssl", "http", "urllib", "requests", "pyarrow.flight"},
    "clocks": {
        "time",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "datetime.date.today",
        "pandas.Timestamp.now",
        "pandas.Timestamp.today",
    },
    "chance": {"random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "numpy.random"},
    "processes": {"subprocess", "signal", "ctypes", "os.fork", "os.kill"},
    "widgets": {"ipywidgets", "anywidget", "IPython", "traitlets", "tqdm"},
    "ZooKeeper": {"kazoo"},
    "pictures": {"matplotlib", "graphviz", "pygraphviz"},
    "files": {
        "builtins.open",
        "sqlite3",
        "io.open",
        "io.FileIO",
        "os",
        "shutil",
        "tempfile",
        "glob",
        "mmap",
        "pathlib.Path",
        "pathlib.PosixPath",
        "pyarrow.fs",
        "pyarrow.OSFile",
        "pyarrow.memory_map",
        "pyarrow.dataset",
        "obstore",
    },
    "the file layer": {"kit.filesystems"},
    "imports at run time": {"importlib", "runpy", "builtins.__import__"},
}
# Pure parts of refused modules.
HARMLESS = {"os.PathLike", "os.fspath", "urllib.parse"}

# What each floor may touch although it is refused elsewhere; `None` is everything.
FREE: dict[str, set[str] | None] = {
    **{floor: set() for floor in PROTOCOL},
    "kit.core.lazily": {"imports at run time"},
    "kit.filesystems": {"files", "the file layer"},
    "kit.stream.connectors": {"the file layer"},  # a connector names files; the layer opens them
    "kit.files": {"files", "the file layer"},
    "kit.glossary": {"files"},
    "kit.course.reading": set(),
    "kit.run": set(),
    "kit.advice": {"files", "sockets"},
    "kit.snapshots": {"files", "the file layer"},
    "kit.draw": {"files", "pictures"},
    "kit.why": set(),
    "kit.hosts.spark": None,
    "pyspark_checkpoint": {"Spark"},
    "checkpoint_kit.collisions": {"imports at run time"},
    "checkpoint_kit": set(),
    "kit.version": {"imports at run time"},
    "kit.hosts.lab": set(REFUSED) - {"Spark", "ZooKeeper"},
    "kit.verify.swarm": set(REFUSED) - {"Spark", "ZooKeeper"},
    "kit.verify.explore": {"clocks", "widgets", "the file layer"},
    "kit.hosts": set(),
    "kit.verify": set(),
    "kit.course": set(),
    "kit.course.comparing": set(),
    "kit.course.missions": set(),
    "kit.course.bank": set(),
    "kit.displays": set(),
    "kit.tracebacks": {"files"},
    "kit.checkup": {"files", "processes", "widgets", "imports at run time"},
    "kit.course.material": {"files", "processes"},
    "kit": set(),
    "kit.cli": {"files", "clocks"},  # the age of a file is counted from now
    "kit.__main__": set(),
    **{floor: set(REFUSED) - {"Spark", "ZooKeeper"} for floor in FLOORS if floor.startswith("widgets")},
    "widgets.runs": {"files"},
    "kit.course.classroom": {"widgets", "chance", "files"},  # its searches choose by seed; recorded cases are files
    "kit.course.grading": {"files", "processes", "imports at run time", "sockets", "widgets", "clocks"},  # a process
}
# The single files through which bytes come and go.
DOORS = {
    "kit/core/trace/json_lines.py": {"files"},
    "kit/files/stores/zookeeper.py": {"ZooKeeper"},
    "kit/hosts/notebook_output.py": {"files"},  # it reads a variable of the environment
}
# Never imported by what we ship.
OUTSIDE = {"tests", "benchmarks", "examples", "scripts", "notebooks"}


@dataclass
class Names(ast.NodeVisitor):
    """The dotted names a file imports and uses, with their lines."""

    package: str
    imported: list[tuple[int, str]] = field(default_factory=list)
    used: list[tuple[int, str]] = field(default_factory=list)
    known_as: dict[str, str] = field(default_factory=dict)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported.append((node.lineno, alias.name))
            first = alias.name.partition(".")[0]
            self.known_as[alias.asname or first] = alias.name if alias.asname else first

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            parents = self.package.split(".")
            source = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
        for alias in node.names:
            name = source if alias.name == "*" else f"{source}.{alias.name}"
            self.imported.append((node.lineno, name))
            self.known_as[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.known_as:
            self.used.append((node.lineno, ".".join([self.known_as[inner.id], *reversed(parts)])))
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id not in self.known_as:
            self.used.append((node.lineno, f"builtins.{node.func.id}"))
        self.generic_visit(node)


def names_in(path: str, source: str) -> Names:
    """Collect the names in a file; imports first, since a function may use names that are defined below it."""
    tree = ast.parse(source)
    names = Names(package=".".join(PurePosixPath(path).parent.parts))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.visit(node)
    found = Names(package=names.package, known_as=names.known_as)
    found.visit(tree)
    return found


def module_of(path: str) -> str:
    """Return the dotted name of the module in this file, with `/` as the separator."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def covers(general: str, name: str) -> bool:
    """Return True if `name` is `general` or below it."""
    return name == general or name.startswith(general + ".")


@cache
def floor_of(name: str) -> str | None:
    """Return the most specific floor that a dotted name is on; None if the name is not the kit's."""
    return max((floor for floor in FLOORS if covers(floor, name)), key=len, default=None)


@cache
def kind_of(name: str) -> str | None:
    """Return why a name is forbidden in the protocol, as a key of `REFUSED`, or None."""
    if any(covers(harmless, name) for harmless in HARMLESS):
        return None
    return next((kind for kind, roots in REFUSED.items() if any(covers(root, name) for root in roots)), None)


def violations(path: str, source: str) -> Iterator[str]:
    """Check one file, and yield one line for each violation, with the place, the import and the reason."""
    module = module_of(path)
    home = floor_of(module)
    if home is None or (home == "kit" and module != "kit"):
        yield f"{path}: {module} is on no floor: give it a place in FLOORS (tests/house/rules.py)"
        return
    names = names_in(path, source)
    for line, name in names.imported:
        target = floor_of(name)
        if target is not None and FLOORS.index(target) > FLOORS.index(home):
            yield f"{path}:{line}: {home} imports {name}, which is above it"
        if name.partition(".")[0] in OUTSIDE:
            yield f"{path}:{line}: imports {name}, which is not shipped"
    allowed = FREE[home]
    if allowed is None:
        return
    allowed = allowed | DOORS.get(path, set())
    for line, name in dict.fromkeys(names.imported + names.used):
        kind = kind_of(name)
        if kind is not None and kind not in allowed:
            yield f"{path}:{line}: {name}: {home} does without {kind}"
