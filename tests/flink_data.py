"""Apache Flink's own answers: the vectors and the real checkpoints in tests/data/flink.

`vectors(name)` walks the rows of one vector file, `checkpoints(version)` unpacks the checkpoints one Flink version
wrote, `values(version)` those of which every value is known. `checkpoint_cases()` and `value_cases()` name them, ready
for `pytest.mark.parametrize`: a folder may hold any versions. Set KIT_FLINK_DATA to read another folder of the same
layout (vectors/*.jsonl.gz, checkpoints/VERSION.tar.gz, values/VERSION.tar.gz). A test about one checkpoint in
particular reads it in the repository all the same (`data=HERE`).
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).resolve().parent / "data" / "flink"


def data_dir() -> Path:
    """Return the folder with Flink's answers: KIT_FLINK_DATA when set, else the one in the repository."""
    folder = Path(os.environ.get("KIT_FLINK_DATA") or HERE)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"no folder {folder}: let KIT_FLINK_DATA name one with vectors/ and checkpoints/, or unset it"
        )
    return folder


def vectors(name: str) -> Iterator[dict[str, Any]]:
    """Walk the rows of vectors/<name>.jsonl.gz in file order, each as a dict."""
    folder = data_dir() / "vectors"
    path = folder / f"{name}.jsonl.gz"
    if not path.is_file():
        known = ", ".join(sorted(p.name.removesuffix(".jsonl.gz") for p in folder.glob("*.jsonl.gz")))
        raise FileNotFoundError(f"no vectors named {name!r} in {folder}; there are: {known}")
    with gzip.open(path, "rt", encoding="ascii") as rows:
        for row in rows:
            yield json.loads(row)


def checkpoint_archive(version: str, data: Path | None = None) -> Path:
    """Return the path of the archive of the checkpoints that this version of Flink wrote."""
    path = (data or data_dir()) / "checkpoints" / f"{version}.tar.gz"
    if not path.is_file():
        raise FileNotFoundError(
            f"no checkpoints of Flink {version!r}; there are: {', '.join(checkpoint_versions(data))}"
        )
    return path


def checkpoint_versions(data: Path | None = None) -> list[str]:
    """List the versions of Flink there are checkpoints of, oldest first."""
    found = [p.name.removesuffix(".tar.gz") for p in ((data or data_dir()) / "checkpoints").glob("*.tar.gz")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


@cache
def checkpoint_cases() -> tuple[tuple[str, str], ...]:
    """List every (version, case): `checkpoints(version) / case` is the folder with `_metadata` and `truth.json`."""
    return tuple((version, case) for version in checkpoint_versions() for case in _cases(checkpoint_archive(version)))


def _cases(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        folders = {PurePosixPath(name).parts[1:2] for name in opened.getnames()}
    return [folder[0] for folder in sorted(folders) if folder]


@cache
def value_cases() -> tuple[tuple[str, str], ...]:
    """List every (version, case) of which every value is known: `values(version) / case` is its folder."""
    return tuple((path.name.removesuffix(".tar.gz"), case) for path in _value_archives() for case in _cases(path))


def _value_archives() -> list[Path]:
    """A folder without values of its own leaves those in the repository."""
    own = sorted((data_dir() / "values").glob("*.tar.gz"))
    return own or sorted((HERE / "values").glob("*.tar.gz"))


@cache
def checkpoints(version: str, data: Path | None = None) -> Path:
    """Unpack the checkpoints of one version, once a session, and give their folder.

    The folder is shared by all tests of the process: copy a case before changing it.
    """
    return unpacked(checkpoint_archive(version, data)) / version


@cache
def values(version: str) -> Path:
    """Unpack snapshots of one version of which every value is known (`truth-values.json`), once a session."""
    (path,) = (path for path in _value_archives() if path.name == f"{version}.tar.gz")
    return unpacked(path) / version


def unpacked(path: Path) -> Path:
    """Unpack an archive into a folder that lives as long as the process."""
    folder = Path(tempfile.mkdtemp(prefix="flink-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(path) as archive:
        if not hasattr(tarfile, "data_filter"):  # Python before 3.11.4
            archive.extractall(folder)
        else:
            archive.extractall(folder, filter="data")
    return folder


def values_truth(version: str, case: str) -> dict[str, Any]:
    """Return what Flink says is in a snapshot of `values`."""
    truth: dict[str, Any] = json.loads((values(version) / case / "truth-values.json").read_text())
    return truth


def uids_of(truth: dict[str, Any]) -> dict[str, str]:
    """Map what a snapshot may call each operator to its uid: metadata has names only as of Flink 2, before that ids."""
    operators = truth["operators"].items()
    return {label: uid for uid, each in operators for label in (uid, each["name"], each["operatorId"])}


@cache
def kryo_cases() -> tuple[Path, ...]:
    """Return the folders of snapshots with values of Kryo, or with operators without entries: none if none are there.

    Each has the truth in `truth.json`. The repository has none of them.
    """
    archives = sorted((data_dir() / "kryo").glob("*.tar.gz"))
    return tuple(path for archive in archives for path in sorted(unpacked(archive).glob("*/*")) if path.is_dir())


checkpoints_dir = checkpoints
