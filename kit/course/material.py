"""The course as files of your own: `kit course DIRECTORY` copies the notebooks and the labs from the wheel.

The wheel contains them packed, with the labs as students get them and the data that the notebooks read. A checkout has
no pack: there, `make lab` opens the notebooks themselves.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

PACK = Path(__file__).with_name("course.zip")
USAGE = """usage: python -m kit course DIRECTORY

Copies the notebooks and the labs to a directory of yours. Files that exist there stay as they are.
"""


@dataclass(frozen=True)
class Copied:
    """The files that were copied, and those that existed and stayed as they were, relative to the directory."""

    directory: Path
    new: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        there = f"; {len(self.kept)} existed and were not changed" if self.kept else ""
        return f"{len(self.new)} files copied to {self.directory}{there}. Open them: jupyter lab {self.directory}"


def copy_course(directory: str | PathLike[str], pack: Path = PACK) -> Copied:
    """Copy the course to a directory, which is created if necessary. Files that exist there are not changed.

    Raises FileNotFoundError in a checkout, whose course is not packed; NotADirectoryError if `directory` is a file.
    """
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file: give the directory to copy the course to")
    if not pack.exists():
        raise FileNotFoundError(
            f"this kit does not contain the course, because it is not installed from a wheel ({pack} is missing): "
            "`make lab` opens the notebooks of a checkout"
        )
    new, kept = [], []
    with zipfile.ZipFile(pack) as packed:
        for name in packed.namelist():
            if (target / name).exists():
                kept.append(name)
            else:
                packed.extract(name, target)
                new.append(name)
    return Copied(target, tuple(new), tuple(kept))


def trust(copied: Copied) -> None:
    """Mark the new notebooks as trusted, so JupyterLab shows their pictures before they are run.

    Does nothing where Jupyter is not installed.
    """
    notebooks = [str(copied.directory / name) for name in copied.new if name.endswith(".ipynb")]
    if notebooks:
        subprocess.run([sys.executable, "-m", "jupyter", "trust", *notebooks], capture_output=True, check=False)


def main(arguments: Sequence[str]) -> int:
    """Run `kit course`: return 0 if the course was copied, 1 if it was not, 2 for wrong arguments."""
    if len(arguments) != 2 or arguments[0] != "course" or arguments[1].startswith("-"):
        sys.stderr.write(USAGE)
        return 2
    try:
        copied = copy_course(arguments[1])
    except OSError as error:
        sys.stderr.write(f"kit: {error}\n")
        return 1
    trust(copied)
    sys.stdout.write(f"{copied}\n")
    return 0


__all__ = ["Copied", "copy_course", "main", "trust"]
