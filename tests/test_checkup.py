"""The report of `kit.doctor()` if something is missing: each test removes one thing that a check looks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kit
from kit import checkup
from kit.checkup import Check, Checkup, doctor, main
from kit.hosts.spark import temporary


def program(directory: Path, name: str, says: str) -> Path:
    """A program that says this on standard error, as Java does, and nothing else."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on the PATH beside the shell's own; Java is missing."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("sh", "cat"):
        (directory / name).symlink_to(Path("/bin", name))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return directory


def test_all_is_well_where_the_tests_run() -> None:
    found = kit.doctor()
    assert found.ok, repr(found)
    assert found.command == ""
    assert kit.doctor(spark=False).to_pandas()["check"].tolist() == [
        check.of for check in found if check.of not in ("Java", "Spark")
    ]


def test_no_java_is_not_ok_and_needs_one_command(path: Path) -> None:
    found = doctor()
    assert found["Java"].status == "not ok"
    assert "none on the PATH" in found["Java"].found
    assert not found.ok
    assert found.command == found["Java"].mend != ""
    assert repr(found).endswith(f"To mend: {found.command}")
    assert f"To mend: {found.command}" in found._repr_html_().replace("&amp;", "&")
    assert doctor(spark=False).ok


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ('openjdk version "21.0.2" 2024-01-16', "ok"),
        ('openjdk version "17" 2021-09-14', "ok"),
        ('java version "11.0.1" 2018-10-16', "not ok"),
        ('java version "1.8.0_392"', "not ok"),
        ("Error: could not find libjava.so", "not ok"),
    ],
)
def test_javas_version_counts(path: Path, says: str, status: str) -> None:
    program(path, "java", says)
    assert doctor()["Java"].status == status


def test_java_is_looked_for_where_spark_looks(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "java", 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    found = doctor()["Java"]
    assert found.status == "not ok"
    assert str(tmp_path / "jdk") in found.found
    assert found.mend.startswith("unset JAVA_HOME")
    program(tmp_path / "jdk/bin", "java", 'openjdk version "17.0.9"')
    assert doctor()["Java"].status == "ok"


def test_a_package_that_is_missing_or_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = checkup.version
    there = {"anywidget": "", "numpy": "1.0"}
    monkeypatch.setattr(checkup, "version", lambda name: there.get(name, installed(name)))
    found = doctor()
    assert found["packages"].status == "note"
    assert found["packages"].found.startswith("other versions than tested: numpy 1.0 (tested: <3,>=2.0)")
    assert found["widgets"].status == "not ok"
    there["numpy"] = installed("numpy")
    found = doctor()
    assert found["packages"].found == "missing: anywidget (extra widgets)"
    assert found["packages"].mend.endswith("setup.sh"), "in a checkout; elsewhere pip with the extra"
    there["pyarrow"] = ""
    found = doctor()
    assert (found["packages"].status, found["packages"].found) == ("not ok", "missing: pyarrow")
    there |= {"pyarrow": installed("pyarrow"), "numpy": "1.0"}
    there["anywidget"] = installed("anywidget")
    found = doctor()
    assert found["packages"].status == "note"
    assert "numpy 1.0" in found["packages"].found
    assert found.ok


def another_package(directory: Path, *files: str, command: str = "") -> None:
    """Install a package of another project that has these files, and this command."""
    about = directory / "kitchen-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1.0\n")
    (about / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    (about / "entry_points.txt").write_text(f"[console_scripts]\n{command} = kitchen:main\n" if command else "")


def test_another_package_with_a_module_of_the_kits_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor()["names"].status == "ok"
    another_package(tmp_path, "kitchen/kit/__init__.py", "kitchen/kit.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert doctor()["names"].status == "ok", "modules inside another are no collision"
    for number, file in enumerate(("kit/__init__.py", "kit.py")):
        another_package(tmp_path / str(number), file, command="kit")
        monkeypatch.syspath_prepend(tmp_path / str(number))
        found = doctor()
        assert not found.ok
        assert found["names"].found.startswith("kitchen installs the module kit too, in the same place; ")
        assert f"{sys.executable} -m pip uninstall -y kitchen && " in found.command
        monkeypatch.setattr(sys, "path", sys.path[1:])


@pytest.mark.parametrize(
    ("file", "command"), [("a.py", "kit"), ("../../../bin/kit", ""), ("../../Scripts/kit.exe", "")]
)
def test_another_package_with_a_command_of_the_kits_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, command: str
) -> None:
    packages = tmp_path / "lib/python3/site-packages"
    another_package(packages, file, command=command)
    monkeypatch.syspath_prepend(packages)
    found = doctor()
    assert found.ok
    assert found["names"].status == "note"
    assert found["names"].found == "kitchen installs the command kit too; checkpoint-kit is always the kit's"


def test_a_jupyterlab_without_the_extension_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "extension_directories", lambda: [tmp_path])
    found = doctor()["widgets"]
    assert found.status == "not ok"
    assert "@jupyter-widgets/jupyterlab-manager" in found.found
    assert "jupyterlab_widgets" in found.mend
    for name in checkup.EXTENSIONS:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "package.json").touch()
    assert doctor()["widgets"].status == "ok"


def test_graphviz_is_its_program_or_its_library(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "in this process" in doctor()["Graphviz"].found
    monkeypatch.setattr(checkup, "version", lambda name: "")
    assert doctor()["Graphviz"].status == "not ok"
    program(path, "dot", "dot")
    assert doctor()["Graphviz"].status == "ok"


def test_memory_and_disk_that_are_full_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "free_memory_mb", lambda: 200)
    monkeypatch.setattr(checkup, "LEAST_DISK_MB", 10**9)
    found = doctor()
    assert found["machine"].status == "note"
    assert "close other kernels" in found["machine"].found
    assert found["temporary files"].status == "not ok"


def test_what_a_killed_process_left_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(checkup, "SPARK_TRIAL", "print(2)")
    assert doctor()["left over"].status == "ok"
    left = tmp_path / "kit-1-abc"
    left.mkdir()
    (left / "lock").touch()
    alive = temporary.locked_directory("alive-")
    left.mkdir()  # creating a directory removes those of dead processes
    (left / "lock").touch()
    found = doctor()["left over"]
    assert found.status == "note"
    assert str(left) in found.found
    assert alive not in found.found
    temporary.remove_directory(alive)


def test_in_a_kernel_the_front_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not a notebook's kernel" in doctor()["front end"].found
    monkeypatch.setattr("IPython.core.getipython.get_ipython", type("Shell", (), {"kernel": 1}))
    for variable in checkup.FRONT_ENDS:
        monkeypatch.delenv(variable, raising=False)
    assert doctor()["front end"].status == "note"
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    assert doctor()["front end"] == Check("front end", "ok", "JupyterLab or Jupyter Notebook")


def test_spark_is_started_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "SPARK_TRIAL", "import sys; sys.exit('Java gateway process exited')")
    with pytest.raises(KeyError):
        doctor()["Spark starts"]
    found = doctor(start_spark=True)["Spark starts"]
    assert (found.status, found.found) == ("not ok", "Java gateway process exited")
    monkeypatch.setattr(checkup, "SPARK_TRIAL", "print(2)")
    assert doctor(start_spark=True)["Spark starts"].status == "ok"


@pytest.mark.spark
def test_a_session_starts_and_runs_a_barrier_stage() -> None:
    assert checkup.spark_starts().status == "ok"


def test_in_a_shell_the_verdict_is_the_exit_code(path: Path) -> None:
    environment = {"PATH": str(path), "HOME": os.environ.get("HOME", "/")}
    ended = subprocess.run(
        [sys.executable, "-m", "kit", "doctor"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "To mend: " in ended.stdout
    assert main(["doctor", "--lab"]) == 0
    assert main(["nurse"]) == 2


def test_each_command_is_said_once() -> None:
    checks = [Check("a", "not ok", "", "mend"), Check("b", "not ok", "", "mend"), Check("c", "note", "", "other")]
    assert Checkup(checks).command == "mend"
