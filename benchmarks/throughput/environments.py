"""The environments of the peers: one for each below a cache directory, made once, from the package index.

An environment that cannot be made raises `PeerError` with the reason in one line. A directory is renamed into place
when it is complete, so an interrupted one is made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from benchmarks.throughput.measured import PeerError

FLINK = "2.3.0"
BYTEWAX = "0.21.1"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def default_cache() -> Path:
    """KIT_BENCH_CACHE, or a directory of ours among the user's caches."""
    given = os.environ.get("KIT_BENCH_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kit-benchmarks"


def run(command: Sequence[str | Path], what: str) -> None:
    """Run a command of a set-up; PeerError with the last line that it said."""
    try:
        called = [str(part) for part in command]
        done = subprocess.run(called, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{what}: {error}") from error
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise PeerError(f"{what}: {said[-1][:200] if said else f'exit {done.returncode}'}")


def made(directory: Path, make: Callable[[Path], None]) -> Path:
    """A directory that `make` fills, unless it is there."""
    if not directory.exists():
        part = directory.with_name(directory.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        print(f"setting up {directory.name} ...", flush=True)
        make(part)
        part.rename(directory)
    return directory


@lru_cache(maxsize=1)
def _uv() -> str:
    found = shutil.which("uv") or shutil.which(str(ROOT / ".uv" / "bin" / "uv"))
    if found is None:
        raise PeerError("uv is not there to make an environment with: run scripts/setup.sh")
    certificates = "/etc/ssl/certs/ca-certificates.crt"
    if os.access(certificates, os.R_OK):
        os.environ.setdefault("SSL_CERT_FILE", certificates)
    return found


def python_with(directory: Path, *packages: str) -> Path:
    """The Python of an environment that has these packages."""

    def make(part: Path) -> None:
        run([_uv(), "venv", "--quiet", "--relocatable", "--python", sys.executable, part], "making an environment")
        run([_uv(), "pip", "install", "--quiet", "--python", part / "bin" / "python", *packages], " ".join(packages))

    return made(directory, make) / "bin" / "python"


def flink_jars(cache: Path) -> str:
    """Flink's own jars, as a class path."""

    def make(part: Path) -> None:
        package = f"apache-flink-libraries=={FLINK}"
        run([_uv(), "pip", "install", "--quiet", "--no-deps", "--target", part, package], package)

    return os.pathsep.join(map(str, sorted((made(cache / f"flink-{FLINK}", make) / "pyflink" / "lib").glob("*.jar"))))


def flink_classes(cache: Path) -> Path:
    """`flink/*.java`, compiled: newer than the sources. Raises PeerError without a Java compiler."""
    sources = sorted((HERE / "flink").glob("*.java"))
    directory = cache / "flink-classes"
    jar = cache / "flink-classes" / "peer.jar"
    if directory.exists() and (not jar.exists() or jar.stat().st_mtime < max(path.stat().st_mtime for path in sources)):
        shutil.rmtree(directory)

    def make(part: Path) -> None:
        for tool in ("javac", "jar"):
            if shutil.which(tool) is None:
                raise PeerError(f"{tool} is not there: install a JDK (apt-get install default-jdk-headless)")
        part.mkdir()
        run(["javac", "-nowarn", "-cp", flink_jars(cache), "-d", part, *sources], "javac")
        run(["jar", "cf", part / "peer.jar", "-C", part, "."], "jar")

    made(directory, make)
    return jar
