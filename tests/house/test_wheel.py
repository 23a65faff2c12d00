"""The wheel alone is enough: it is built, put into an environment that has never seen this directory, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from kit.core.extras import CORE, EXTRAS
from kit.course.material import copy_course
from tests.house.files import ROOT, read, shipped, tracked
from tests.house.rules import names_in
from tests.house.test_readme import IN_THE_LAB
from tests.snapshots.written import longs

COMES_WITH = {"IPython": "anywidget", "traitlets": "anywidget"}
"""What a dependency that we declare cannot be without."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose `kit` comes from the wheel.

    Nothing is downloaded: a path file adds this environment's packages, but not the project or its source. (An editable
    install is a path file as well, and Python does not follow path files in a directory that was added by one.)
    """
    directory = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    built = run([sys.executable, "-c", build, str(directory)], ROOT)
    venv.create(directory / "venv", with_pip=False)
    inside = directory / "venv" / "bin" / "python"
    packages = Path(run([str(inside), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], directory))
    run([sys.executable, "-m", "zipfile", "-e", str(directory / built.splitlines()[-1]), str(packages)], directory)
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    return inside


def run(command: list[str], directory: Path) -> str:
    """Run a command, which must not fail, and return what it prints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(command, cwd=directory, env=clean, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_the_readmes_first_example_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    said = run(
        [str(python), "-c", f"{IN_THE_LAB}\nimport kit, widgets\nprint(kit.__file__, widgets.__file__, lab.position)"],
        tmp_path,
    )
    kit, widgets, position = said.splitlines()[-1].split()
    assert [Path(name).is_relative_to(python.parents[1]) for name in (kit, widgets)] == [True, True]
    assert int(position) > 0


WITHOUT_EXTRAS = """
import sys

finders, blocked = list(sys.meta_path), {blocked}

class Missing:
    # finds all modules and packages but the blocked ones, which look as if they were not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            return None
        return next((spec for each in finders if (spec := each.find_spec(name, path, target))), None)

    def find_distributions(self, *context):
        names = {{name.lower() for name in blocked}}
        for each in finders:
            for found in getattr(each, "find_distributions", lambda *_: ())(*context):
                if found.metadata["Name"].lower().replace("-", "_") not in names:
                    yield found

sys.meta_path[:] = [Missing()]
"""


def test_the_lab_runs_with_the_core_alone(python: Path, tmp_path: Path) -> None:
    blocked = {*EXTRAS, "tqdm", "jupyterlab"}
    code = (
        WITHOUT_EXTRAS.format(blocked=blocked)
        + IN_THE_LAB
        + "lab.run(); print(lab.why('job')); print(lab.output('out').groupby('letter')['total'].last().tolist())\n"
        + "kit = __import__('kit'); kit.create_session()"
    )
    ended = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1] == str([sum(range(rest, 40, 3)) for rest in range(3)])
    assert "ImportError: pyspark is not installed: pip install 'checkpoint-kit[spark]'" in ended.stderr


def test_the_command_needs_no_extra(python: Path, tmp_path: Path) -> None:
    savepoint = longs(tmp_path / "savepoint", np.arange(5))
    blocked = {*EXTRAS, "tqdm", "jupyterlab"}
    code = f"{WITHOUT_EXTRAS.format(blocked=blocked)}\nfrom kit.__main__ import main\nmain()"
    said = run([str(python), "-c", code, "state", str(savepoint), "sums", "total"], tmp_path)
    assert said.startswith("sums, total: 5 rows")
    assert run([str(python), "-c", code, "check", str(savepoint)], tmp_path).startswith("Checkpoint 1 restores")


EACH_COMMAND = """
import contextlib
from kit.__main__ import main

for line in sys.stdin.read().splitlines():
    sys.argv = ["kit", *line.split()]
    print("$", line)
    with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
        main()
"""
COMMANDS = """--help
doctor
doctor --lab
ls {0}
show {0}
show {0} --html {0}.html
state {0} sums total
in-flight {0} sums
check {0}
diff {0} {0}
size {0}
orphans {0}
plan {0} sums -p 2
edit {0} --to {0}-new
advise {0}.json
course {0}-course"""


def said_by_each_command(python: Path, savepoint: Path, blocked: set[str]) -> dict[str, str]:
    """Return what each command prints, by its name, if some modules cannot be imported. No command ends in an error."""
    code = WITHOUT_EXTRAS.format(blocked=blocked) + EACH_COMMAND
    given = COMMANDS.format(savepoint)
    ended = subprocess.run(
        [str(python), "-c", code], cwd=savepoint.parent, input=given, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    parts = [part.partition("\n") for part in f"\n{ended.stdout}".split("\n$ ")[1:]]
    assert [line for line, _, _ in parts] == given.splitlines()
    return {line.replace(str(savepoint), "savepoint"): text.strip() for line, _, text in parts}


def test_each_command_works_without_an_extra_or_names_it(python: Path, tmp_path: Path) -> None:
    savepoint = longs(tmp_path / "savepoint", np.arange(5))
    said = said_by_each_command(python, savepoint, {*EXTRAS, "tqdm", "jupyterlab"})
    assert said["show savepoint --html savepoint.html"] == (
        "kit: graphviz is not installed: pip install 'checkpoint-kit[plots]'"
    )
    others = [line for line in said if "--html" not in line and not line.startswith("doctor")]
    assert [line for line in others if "is not installed" in said[line]] == []
    assert "not a notebook's kernel" in said["doctor"]
    to_mend = {line: said[line].rpartition("To mend: ")[2] for line in ("doctor", "doctor --lab")}
    assert "checkpoint-kit[spark]" in to_mend["doctor"]
    assert "checkpoint-kit[widgets]" in to_mend["doctor"]
    assert re.fullmatch(r"\S+ -m pip install 'checkpoint-kit\[widgets\]'", to_mend["doctor --lab"])
    assert said["state savepoint sums total"].startswith("sums, total: 5 rows")
    assert said["edit savepoint --to savepoint-new"].endswith("B of state.")
    assert said["advise savepoint.json"].startswith("kit: ")


def test_each_command_names_what_the_core_lacks(python: Path, tmp_path: Path) -> None:
    savepoint = longs(tmp_path / "savepoint", np.arange(5))
    said = said_by_each_command(python, savepoint, {*EXTRAS, *CORE})
    for line in ("doctor", "doctor --lab"):
        missing = f"missing: {', '.join(CORE).replace('_', '-')}"
        assert missing in " ".join(said[line].split()), said[line]
    assert re.match(r"\d+ files copied to ", said.pop("course savepoint-course"))
    for line in said.keys() - {"doctor", "doctor --lab"}:
        assert said[line] == "kit: typer is not installed: pip install checkpoint-kit", line


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from kit import *", "spark"),
        ("import pyspark_checkpoint", "spark"),
        ("import kit; kit.show()", "widgets"),
        ("from widgets import Monitor", "widgets"),
        ("from kit.draw import gantt; gantt(None)", "plots"),
        (f"{IN_THE_LAB}\nlab._repr_svg_()", "plots"),
        (f"{IN_THE_LAB}\nlab.why('job').dot()", "plots"),
        (f"{IN_THE_LAB}\nlab.show(tab=True)", "widgets"),
    ],
)
def test_python_names_the_extra_that_is_missing(python: Path, tmp_path: Path, code: str, extra: str) -> None:
    full = f"{WITHOUT_EXTRAS.format(blocked={*EXTRAS, 'tqdm'})}\n{code}"
    ended = subprocess.run([str(python), "-c", full], cwd=tmp_path, capture_output=True, text=True, check=False)
    last = ended.stderr.splitlines()[-1]
    assert re.fullmatch(rf"ImportError: \w+ is not installed: pip install 'checkpoint-kit\[{extra}\]'", last), last


def test_the_version_is_that_of_the_package(python: Path, tmp_path: Path) -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert run([str(python), "-m", "kit", "--version"], tmp_path) == f"checkpoint-kit {version}"
    assert run([str(python), "-c", "import kit; print(kit.__version__)"], tmp_path) == version
    assert f"\n## {version}" in read("CHANGELOG.md")


def test_the_command_has_a_second_name(python: Path, tmp_path: Path) -> None:
    code = "from importlib.metadata import entry_points as e; print({p.value for p in e(name='checkpoint-kit')})"
    assert run([str(python), "-c", code], tmp_path) == "{'checkpoint_kit.__main__:main'}"
    assert run([str(python), "-m", "checkpoint_kit", "--version"], tmp_path).startswith("checkpoint-kit ")


@pytest.mark.parametrize("module", ["kit", "widgets"])
def test_the_second_name_says_who_has_overwritten_a_module(python: Path, tmp_path: Path, module: str) -> None:
    packages = next(python.parents[1].glob("lib/*/site-packages"))
    about = packages / "kitchen-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"{module}/__init__.py,,\n")
    first = packages / module / "__init__.py"
    ours = first.read_bytes()
    first.write_text("print 'Python 2'")
    try:
        ended = subprocess.run(
            [str(python), "-m", "checkpoint_kit", "doctor"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    finally:
        first.write_bytes(ours)
        shutil.rmtree(about)
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        f"checkpoint-kit: the package kitchen has overwritten the module {module}. Install one of them in another "
    )
    assert " -m pip uninstall -y kitchen && " in ended.stderr


def test_the_glossary_is_read_from_the_wheel(python: Path, tmp_path: Path) -> None:
    said = run(
        [str(python), "-c", "import kit; print(kit.where('SubtaskCheckpointCoordinatorImpl#takeSnapshotSync'))"],
        tmp_path,
    )
    assert said.startswith("takeSnapshotSync: kit.machines.task.subtask_coordinator.SubtaskCheckpointCoordinator.")


def test_the_wheel_has_what_is_no_python(python: Path, tmp_path: Path) -> None:
    installed = Path(run([str(python), "-c", "import kit; print(kit.__path__[0])"], tmp_path)).parent
    shipped = [
        name
        for name in tracked()
        if name.startswith(("kit/", "widgets/", "checkpoint_kit/", "pyspark_checkpoint/")) and not name.endswith(".py")
    ]
    assert shipped != []
    assert [name for name in shipped if not (installed / name).is_file()] == []


def installed_by(extra: str) -> set[str]:
    """The packages that an extra of the wheel installs, with those of the extras that it names."""
    declares = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    found: set[str] = set()
    for line in declares[extra]:
        requirement = Requirement(line)
        others = [installed_by(each) for each in requirement.extras if requirement.name == "checkpoint-kit"]
        found |= set().union(*others) if others else {requirement.name.lower()}
    return found


def test_the_explorer_opens_with_what_the_labs_install(python: Path, tmp_path: Path) -> None:
    packages = installed_by("labs")
    assert "jupyterlab" in packages
    blocked = {module for module in EXTRAS if COMES_WITH.get(module, module) not in packages}
    assert {"pyspark", "matplotlib"} <= blocked
    code = (
        WITHOUT_EXTRAS.format(blocked=blocked)
        + IN_THE_LAB
        + "explorer, dot = lab.show(), lab.why('job').dot()\n"
        + "print(type(explorer).__name__, '<svg' in lab.look.svg(), dot.source[:7])"
    )
    assert run([str(python), "-c", code], tmp_path).splitlines()[-1] == "Explorer True digraph"


def copied(python: Path, directory: Path) -> str:
    """Return what `kit course` prints without any extra."""
    blocked = {*EXTRAS, "tqdm"}
    code = f"{WITHOUT_EXTRAS.format(blocked=blocked)}\nsys.argv = ['kit', 'course', sys.argv[1]]\n"
    return run([str(python), "-c", f"{code}\nfrom kit.__main__ import main\nmain()", str(directory)], directory.parent)


def test_the_wheel_has_the_notebooks_and_the_labs_of_the_course(python: Path, tmp_path: Path) -> None:
    course = tmp_path / "course"
    said = copied(python, course)
    assert said.endswith(f"Open them: jupyter lab {course}")
    notebooks = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.name for path in course.glob("*.ipynb")} == notebooks
    written = {path: path.read_text("utf-8") for path in course.rglob("*.ipynb")}
    labs = [path for path in written if path.is_relative_to(course / "labs")]
    assert len(labs) == len(list((ROOT / "notebooks" / "labs" / "source").iterdir()))
    for path in labs:
        assert "YOUR CODE HERE" in written[path]
        assert "SOLUTION" not in written[path]
        assert "raises-exception" in written[path]
    assert not [path for path in course.rglob("*") if path.name in ("planted_bugs.py", "lost_euro.py", "exam.md")]


def test_what_the_notebooks_read_is_beside_them(python: Path, tmp_path: Path) -> None:
    course = tmp_path / "course"
    copied(python, course)
    sources = [
        "".join(cell["source"])
        for path in course.glob("*.ipynb")
        for cell in json.loads(path.read_text("utf-8"))["cells"]
    ]
    read = {name for text in sources for name in re.findall(r"(?:docs/[\w]+\.pdf|tests/[\w./]+\w)", text)}
    named = {name for text in sources for name in re.findall(r"from ((?:examples|tests)[\w.]*) import", text)}
    assert any(name.startswith("tests/data/flink/checkpoints/") for name in read)
    assert "tests.mutants.table" in named
    assert [name for name in read if not (course / name).exists()] == []
    found = run([str(python), "-c", f"import {', '.join(sorted(named))}; print('found')"], course)
    assert found == "found"


def test_work_of_a_student_is_not_overwritten(python: Path, tmp_path: Path) -> None:
    course = tmp_path / "course"
    copied(python, course)
    lab = course / "labs" / "rescale" / "rescale.ipynb"
    lab.write_text("mine")
    (course / "00-tour.ipynb").unlink()
    said = copied(python, course)
    assert said.startswith(f"1 files copied to {course}; ")
    assert lab.read_text() == "mine"
    assert (course / "00-tour.ipynb").exists()


def test_a_checkout_says_how_to_open_its_notebooks(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="`make lab` opens the notebooks of a checkout"):
        copy_course(tmp_path / "course", tmp_path / "course.zip")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="give the directory to copy the course to"):
        copy_course(tmp_path / "file")


def declared(lines: list[str]) -> set[str]:
    """The packages of some requirements."""
    return {Requirement(line).name.lower() for line in lines}


def test_what_the_wheel_asks_for_is_imported_and_what_it_imports_is_asked_for() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    always = declared(project["dependencies"])
    extras = {
        name
        for extra in ("spark", "widgets", "plots", "zookeeper", "tls", "s3")
        for name in declared(project["optional-dependencies"][extra])
    }
    tops = {name.partition(".")[0] for path in shipped() for _, name in names_in(path, read(path)).imported}
    assert "nbgrader" in declared(project["optional-dependencies"]["classroom"])
    others = tops - {"kit", "widgets", "checkpoint_kit", "nbgrader"} - set(sys.stdlib_module_names)
    packages = packages_distributions()
    imported = {COMES_WITH.get(top, packages[top][0].lower()) for top in others}
    assert sorted((always | extras) - imported) == [], "imported nowhere: no dependency of the wheel"
    assert sorted(imported - always - extras) == [], "imported, and not declared"
