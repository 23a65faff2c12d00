"""The check of a machine for what the kit needs: `kit.doctor()`, or in a shell `python -m kit doctor`.

Each check examines one thing and reports what it found and, if there is a problem, the command that fixes it. Nothing
is started or changed, except with `start_spark`: it starts a session in a separate process, and runs a barrier stage on
it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint_kit.collisions import commands_taken, modules_taken, reinstalling
from kit.core.arguments.checks import flag_given
from kit.core.extras import CORE, PROJECT
from kit.core.html_tables import notebook_html, rows_html
from kit.core.markup import element
from kit.hosts.notebook_output import in_notebook

if TYPE_CHECKING:
    import pandas as pd

OK, NOT_OK, NOTE = "ok", "not ok", "note"
"""A note is informative; everything works."""

OLDEST_PYTHON, OLDEST_JAVA = (3, 11), 17
LEAST_MEMORY_MB, LEAST_DISK_MB = 1_000, 500
EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab_widgets",
    "anywidget": "anywidget",
    "@jupyter-widgets/jupyterlab-sidecar": "sidecar",
}
"""The packages with which JupyterLab shows the explorer: its extension, and the package that contains it."""
FRONT_ENDS = {
    "COLAB_RELEASE_TAG": "Google Colab",
    "DATABRICKS_RUNTIME_VERSION": "Databricks",
    "VSCODE_PID": "VS Code",
    "JPY_SESSION_NAME": "JupyterLab or Jupyter Notebook",
}
"""The environment variable that each sets for its kernels."""
SPARK_TRIAL = (
    "from kit import create_session; spark = create_session('doctor', slots=2); "
    "stage = spark.sparkContext.parallelize(range(2), 2).barrier(); "
    "print(stage.mapPartitions(lambda rows: rows).count()); spark.stop()"
)


@dataclass(frozen=True)
class Check:
    """One check: its subject (`of`), its status ("ok", "not ok", "note"), the finding, and the fix."""

    of: str
    status: str
    found: str
    mend: str = ""


class Checkup(Sequence[Check]):
    """All checks in order: a table, in a notebook as well; `ok` is True if nothing needed is missing or wrong."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)

    def __getitem__(self, which: Any) -> Any:
        """Return a check by its number or by what it checks. Raises KeyError for anything else."""
        if isinstance(which, str):
            return {check.of: check for check in self._checks}[which]
        return self._checks[which]

    def __len__(self) -> int:
        return len(self._checks)

    @property
    def ok(self) -> bool:
        """True if nothing that is needed is missing or wrong."""
        return all(check.status != NOT_OK for check in self._checks)

    @property
    def command(self) -> str:
        """A shell command that fixes all problems; "" if there are none."""
        return " && ".join(dict.fromkeys(check.mend for check in self._checks if check.status == NOT_OK and check.mend))

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per check: what was checked, its status, what was found, and what fixes it."""
        import pandas as pd

        rows = [(check.of, check.status, check.found, check.mend) for check in self._checks]
        return pd.DataFrame(rows, columns=["check", "status", "found", "mend"])

    @property
    def _verdict(self) -> str:
        if self.ok:
            return "All that is needed is there."
        return f"To mend: {self.command}" if self.command else "Not all that is needed is there."

    def __repr__(self) -> str:
        of, status = (max(map(len, column)) for column in zip(*((c.of, c.status) for c in self), strict=True))
        lines = []
        for check in self:
            lines.append(f"{check.of:{of}}  {check.status:{status}}  {check.found}")
            if check.mend and check.status != OK:
                lines.append(f"{'':{of}}  {'':{status}}  -> {check.mend}")
        return "\n".join([*lines, "", self._verdict])

    def _repr_html_(self) -> str:
        rows = []
        for check in self:
            status = element("b", check.status) if check.status == NOT_OK else check.status
            mend = element("code", check.mend) if check.mend and check.status != OK else ""
            rows.append((check.of, status, check.found, mend))
        shown = rows_html(("check", "status", "found", "mend"), rows)
        return notebook_html("", shown, element("p", element("b", self._verdict)))


def doctor(*, spark: bool = True, start_spark: bool = False) -> Checkup:
    """Check what the kit needs: Python, packages, Java and Spark, widgets and front end, leftovers.

    Without `spark`, what only Spark needs is skipped. With `start_spark`, a session is started and a barrier stage run
    on it, which takes seconds.
    """
    return Checkup(list(_checks(flag_given("spark", spark), flag_given("start_spark", start_spark))))


def _checks(spark: bool, start_spark: bool) -> Iterator[Check]:
    yield python()
    yield packages()
    yield names()
    if spark:
        yield java()
        yield spark_package()
    if start_spark:
        yield spark_starts()
    yield widgets()
    yield front_end()
    yield graphviz()
    yield cores_and_memory()
    yield disk()
    yield jobs()
    yield leftovers()


# --- Python and packages ----------------------------------------------------------------------------------------------


def install(*names: str) -> str:
    """Return the command that installs packages here: in a checkout, its setup script."""
    setup = Path(__file__).parents[1] / "scripts" / "setup.sh"
    return str(setup) if setup.exists() else " ".join([sys.executable, "-m pip install", *(names or [PROJECT])])


def python() -> Check:
    """Check that this Python is new enough."""
    found = f"{platform.python_version()} ({sys.executable})"
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Check("Python", OK, found)
    return Check("Python", NOT_OK, f"{found}: {oldest} or newer is needed", f"apt-get install python{oldest}")


def version(name: str) -> str:
    """Return the version of an installed package; "" if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def requirements(extra: str = "") -> dict[str, str]:
    """Return the ranges of versions that the kit, or one of its extras, asks for, by package.

    Empty if the kit is not installed.
    """
    try:
        lines = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in lines:
        wanted, _, marker = (part.strip() for part in line.partition(";"))
        name = re.match(r"[\w.-]+(\[.*\])?", wanted)
        of = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if name and not name[1] and (of[1] if of else "") == extra:
            found[name[0]] = wanted[name.end() :].strip()
    return found


def _fits(found: str, wanted: str) -> bool:
    """Return True if a version is within a range like `>=2.0,<3`."""

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", text)[:4])

    for clause in filter(None, wanted.split(",")):
        limit = numbers(clause)
        there = numbers(found)[: len(limit)] if clause.startswith("==") else numbers(found)
        if clause.startswith("<") and not there < limit:
            return False
        if clause.startswith(">=") and not there >= limit:
            return False
        if clause.startswith("==") and there != limit:
            return False
    return True


EVERYDAY = ("spark", "widgets", "plots")
"""The extras that most users have."""


def packages() -> Check:
    """Check that what the core needs is installed, and which of the everyday extras is missing a package."""
    core = requirements()
    found = version if core else util.find_spec  # imported from its source, the kit has no list of requirements
    missing = [name for name in core or CORE if not found(name)]
    if missing:
        return Check("packages", NOT_OK, f"missing: {', '.join(missing)}", install(*missing))
    if not core:
        return Check("packages", NOTE, "the kit is imported from its source and not installed", install())
    extras = {extra: requirements(extra) for extra in EVERYDAY}
    wanted = core | {name: limits for of in extras.values() for name, limits in of.items()}
    others = [name for name, limits in wanted.items() if version(name) and not _fits(version(name), limits)]
    if others:
        told = ", ".join(f"{name} {version(name)} (tested: {wanted[name]})" for name in others)
        return Check(
            "packages", NOTE, f"other versions than tested: {told}", install(*(f"'{n}{wanted[n]}'" for n in others))
        )
    lacking = {extra: [name for name in of if not version(name)] for extra, of in extras.items()}
    lacking = {extra: names for extra, names in lacking.items() if names}
    if lacking:
        told = "; ".join(f"{', '.join(names)} (extra {extra})" for extra, names in lacking.items())
        return Check("packages", NOTE, f"missing: {told}", install(f"'{PROJECT}[{','.join(lacking)}]'"))
    return Check("packages", OK, f"all {len(wanted)}, as tested")


def names() -> Check:
    """Check that no other package installs a module or a command of the same name as the kit's."""
    others = modules_taken()
    if others:
        told = "; ".join(f"{name} installs the module {', '.join(taken)} too" for name, taken in others)
        mend = reinstalling(name for name, _ in others)
        return Check("names", NOT_OK, f"{told}, in the same place; install one of them in another environment", mend)
    others = commands_taken()
    if others:
        told = "; ".join(f"{name} installs the command {', '.join(taken)} too" for name, taken in others)
        return Check("names", NOTE, f"{told}; {PROJECT} is always the kit's")
    return Check("names", OK, "no other package has the kit's modules or commands")


# --- Java and Spark ---------------------------------------------------------------------------------------------------


def java() -> Check:
    """Check that the Java that Spark would start is new enough."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    mend = "brew install openjdk@17" if sys.platform == "darwin" else "apt-get install -y default-jre-headless"
    if home:
        mend = f"unset JAVA_HOME && {mend}"
    if program is None:
        where = f"JAVA_HOME={home} has none" if home else "there is none on the PATH"
        return Check("Java", NOT_OK, f"{where}; Spark needs {OLDEST_JAVA} or newer, the lab needs none", mend)
    said = _said_by([program, "-version"])
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:
        return Check("Java", NOT_OK, f"{program} does not run: {said.strip()[:120]}", mend)
    if int(found[1]) < OLDEST_JAVA:
        return Check("Java", NOT_OK, f"{program} is {found[1]}; Spark needs {OLDEST_JAVA} or newer", mend)
    return Check("Java", OK, f"{found[1]} ({program})")


def _said_by(command: Sequence[str], timeout_s: float = 20) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ended.stdout + ended.stderr


def spark_package() -> Check:
    """Check that PySpark is installed, and finds its Java classes."""
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return Check("Spark", NOT_OK, "PySpark is not installed", install(f"'{PROJECT}[spark]'"))
    home = os.environ.get("SPARK_HOME")
    if home and Path(home).resolve() != Path(spec.origin).parent.resolve():
        return Check("Spark", NOTE, f"PySpark {version('pyspark')}; SPARK_HOME={home} is another", "unset SPARK_HOME")
    return Check("Spark", OK, f"PySpark {version('pyspark')}")


def spark_starts() -> Check:
    """Start a session in a separate process, and run a barrier stage on it."""
    said = _said_by([sys.executable, "-c", SPARK_TRIAL], timeout_s=180)
    if "2" in said.splitlines():
        return Check("Spark starts", OK, "a session started, and a barrier stage of two ran")
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    return Check("Spark starts", NOT_OK, last.strip()[:200], java().mend)


# --- notebooks and pictures -------------------------------------------------------------------------------------------


def extension_directories() -> list[Path]:
    """Return where a JupyterLab of this environment looks for its extensions."""
    named = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
    own = Path(os.environ.get("JUPYTER_DATA_DIR", Path.home() / ".local/share/jupyter"))
    roots = [*map(Path, filter(None, named)), Path(sys.prefix, "share/jupyter"), own]
    return [root / "labextensions" for root in roots]


def widgets() -> Check:
    """Check the explorer's packages, and the JupyterLab extensions that show it."""
    there = {name: version(name) for name in ("ipywidgets", "anywidget", "jupyterlab")}
    missing = [name for name in ("ipywidgets", "anywidget") if not there[name]]
    if missing:
        return Check("widgets", NOT_OK, f"missing: {', '.join(missing)}", install(f"'{PROJECT}[widgets]'"))
    found = ", ".join(f"{name} {number}" for name, number in there.items() if number)
    if not there["jupyterlab"]:
        return Check("widgets", NOTE, f"{found}; no JupyterLab in this environment", install("jupyterlab"))
    places = extension_directories()
    bare = [name for name in EXTENSIONS if not any((place / name / "package.json").exists() for place in places)]
    if bare:
        lacks = f"{found}; JupyterLab lacks the extension {', '.join(bare)}"
        mend = " ".join([sys.executable, "-m pip install --force-reinstall --no-deps", *(EXTENSIONS[n] for n in bare)])
        return Check("widgets", NOT_OK, lacks, mend)
    return Check("widgets", OK, f"{found}, with its extensions")


def front_end() -> Check:
    """Check which front end shows this kernel's cells, and that it shows the explorer."""
    if not in_notebook():
        return Check("front end", NOTE, "none: this is not a notebook's kernel")
    known = next((name for variable, name in FRONT_ENDS.items() if os.environ.get(variable)), "")
    if known == "Google Colab":
        mend = "from google.colab import output; output.enable_custom_widget_manager()"
        return Check("front end", NOTE, f"{known}: it shows widgets when it is told to, in a cell", mend)
    if known in ("Databricks", ""):
        return Check("front end", NOTE, f"{known or 'one that does not say its name'}: try kit.show()")
    return Check("front end", OK, known)


def graphviz() -> Check:
    """Check that graphs can be drawn by Graphviz: by its program, or in this process."""
    program = shutil.which("dot")
    if program:
        return Check("Graphviz", OK, f"the program {program}")
    if version("pygraphviz"):
        return Check("Graphviz", OK, f"in this process, by pygraphviz {version('pygraphviz')}")
    return Check("Graphviz", NOT_OK, "neither a program dot nor pygraphviz", install(f"'{PROJECT}[widgets]'"))


# --- the machine, and what is left over -------------------------------------------------------------------------------


def free_memory_mb() -> int | None:
    """Return the free memory, considering this container's limit; None if it is unknown."""
    free = []
    try:
        free.append(int(re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[0]) // 1024)
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdigit():
            used = int(Path("/sys/fs/cgroup/memory.current").read_text())
            free.append((int(limit) - used) // 2**20)
    except (OSError, IndexError, ValueError):
        pass
    return min(free, default=None)


def cores_and_memory() -> Check:
    """Check the number of cores, and the free memory."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count()
    free = free_memory_mb()
    found = f"{cores} cores, {'unknown' if free is None else f'{free:,} MB'} of memory free"
    if free is not None and free < LEAST_MEMORY_MB:
        return Check("machine", NOTE, f"{found}: Spark wants {LEAST_MEMORY_MB:,} MB; close other kernels")
    return Check("machine", OK, found)


def disk() -> Check:
    """Check that there is room for temporary files, and that they can be written."""
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free // 2**20
    if not os.access(place, os.W_OK):
        return Check("temporary files", NOT_OK, f"{place} cannot be written", "export TMPDIR=$HOME")
    if free < LEAST_DISK_MB:
        return Check("temporary files", NOT_OK, f"{free} MB are free in {place}", "export TMPDIR=$HOME")
    return Check("temporary files", OK, f"{free:,} MB free in {place}")


def jobs() -> Check:
    """Check for jobs of this process that still run on Spark."""
    from kit.hosts.spark.started_jobs import started

    names = [job.job.name for job in started()]
    if names:
        found = f"{', '.join(names)}: what runs holds its slots"
        return Check("running jobs", NOTE, found, "kit.running().cancel()")
    return Check("running jobs", OK, "none in this process")


def leftovers() -> Check:
    """Check for temporary files of killed processes."""
    from kit.hosts.spark.temporary import left_by_the_dead

    names = [str(path) for path in left_by_the_dead()]
    if names:
        return Check(
            "left over", NOTE, f"of processes that were killed: {', '.join(names)}", f"rm -r {' '.join(names)}"
        )
    return Check("left over", OK, "nothing")


# --- in a shell -------------------------------------------------------------------------------------------------------

USAGE = """usage: python -m kit doctor [--lab | --start-spark]

Checks what the kit needs on this machine, and prints a command that fixes each problem.
  --lab          skip what only Spark needs
  --start-spark  also start a session, and run a barrier stage on it
"""


def main(arguments: Sequence[str]) -> int:
    """Run `python -m kit`: return 0 without problems, 1 with one, 2 for an unknown argument."""
    known = {"--lab", "--start-spark"}
    if arguments[:1] != ["doctor"] or not set(arguments[1:]) <= known or set(arguments[1:]) == known:
        sys.stderr.write(USAGE)
        return 2
    checkup = doctor(spark="--lab" not in arguments, start_spark="--start-spark" in arguments)
    sys.stdout.write(f"{checkup!r}\n")
    return 0 if checkup.ok else 1
