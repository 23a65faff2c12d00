"""Our files read by Flink's own classes, and our restores compared with Flink's: `make interop`.

The files have two sources: checkpoints and savepoints that jobs in the lab write, and random metadata in every version
that Flink reads. Flink's `Checkpoints.loadCheckpointMetadata` reads each file, and its report is compared with what we
wrote. Then Flink writes what it read, and we read that and compare again. For the lab's checkpoints Flink also
opens every file they refer to. Flink also restores savepoints that the kit changed (`tests.interop.surgery`),
continues a job that the kit continued on Spark (`tests.interop.bridge`), and writes values of many types, which the kit
reads (`tests.interop.value_types`).
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from kit.core.metadata import CheckpointMetadata, MetadataVersion, read_metadata, write_metadata
from kit.core.metadata.versions import V2, V3, V4, V5, V6
from scripts.flink import VERSION, FlinkMissing, fetch, run_java
from tests.core.metadata import strategies as some
from tests.core.metadata.truth import describe, differences, file_contents
from tests.interop import bridge, restoring, surgery, value_types
from tests.interop.jobs import lab_directories

READER = Path(__file__).with_name("ReadMetadata.java")
VERSIONS = (V2, V3, V4, V5, V6)
"""What Flink reads from 2.1 on; earlier ones do not know every version and handle."""


@dataclass(frozen=True)
class Written:
    """One `_metadata` that we wrote: its description, its directory, and its content."""

    what: str
    directory: Path
    metadata: CheckpointMetadata

    def says(self) -> dict[str, Any]:
        """Return the content in Flink's terms; relative paths start from the present directory of the files."""
        text = json.dumps(describe(self.metadata))
        says: dict[str, Any] = json.loads(text.replace(some.BASE, f"file:{self.directory}"), parse_int=_as_long)
        return says


def _as_long(digits: str) -> int:
    """Java's longs go round, also where they are sums."""
    return (int(digits) + 2**63) % 2**64 - 2**63


def random_metadata(version: MetadataVersion, count: int, seed_: int) -> list[CheckpointMetadata]:
    """The same random metadata for the same seed."""
    found: list[CheckpointMetadata] = []

    @seed(seed_)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(some.metadata(version))
    def collect(metadata: CheckpointMetadata) -> None:
        found.append(metadata)

    collect()
    return found


def written_at_random(folder: Path, count: int, seed_: int) -> Iterator[Written]:
    """Random metadata in every version."""
    for version in VERSIONS:
        for number, metadata in enumerate(random_metadata(version, count, seed_)):
            directory = folder / f"v{version.number}-{number}"
            directory.mkdir()
            (directory / "_metadata").write_bytes(write_metadata(metadata, version))
            yield Written(f"random V{version.number}", directory, metadata)


def written_by_the_lab(folder: Path) -> Iterator[Written]:
    """Every checkpoint and savepoint that jobs in the lab leave, on a real disk."""
    for directory in lab_directories(folder):
        metadata, _ = read_metadata((directory / "_metadata").read_bytes(), f"file:{directory}")
        yield Written("lab", directory, metadata)


def compare(written: Written, answer: dict[str, Any]) -> Iterator[str]:
    """Everything in which Flink and we differ."""
    if "error" in answer:
        yield f"Flink does not read it: {answer['error']}"
        return
    ours = written.says()
    yield from differences(answer["read"], ours, files_in_order=True)
    again, _ = read_metadata(base64.b64decode(answer["written"]), f"file:{written.directory}")
    theirs = json.loads(json.dumps(describe(again)), parse_int=_as_long)
    yield from (f"written by Flink: {each}" for each in differences(theirs, ours, files_in_order=True))
    found = {file["path"].removeprefix("file:") for file in file_contents(answer["read"])}
    wanted = set(written.metadata.files()) if written.what == "lab" else set()
    yield from (f"Flink does not find {path}" for path in wanted if path.removeprefix("file:") not in found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="random files in each version")
    parser.add_argument("--seed", type=int, default=1, help="of the random files")
    options = parser.parse_args()
    try:
        fetch()
    except FlinkMissing as missing:
        print(f"interop: {missing}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        files = [
            *written_by_the_lab(Path(folder)),
            *written_at_random(Path(folder), options.count, options.seed),
        ]
        lines = "".join(f"{file.directory}/_metadata\t{file.directory}\n" for file in files)
        answers = [json.loads(line) for line in run_java(READER, lines=lines).split("\n") if line]
        wrong = 0
        for file, answer in zip(files, answers, strict=True):
            for difference in compare(file, answer):
                wrong += 1
                print(f"{file.what}, {file.directory.relative_to(folder)}: {difference}")
        cases = restoring.run_with_flink(Path(folder) / "restores")
        for difference in restoring.disagreements(Path(folder) / "restores" / "savepoints", cases):
            wrong += 1
            print(difference)
    counted = ", ".join(f"{count} {what}" for what, count in Counter(file.what for file in files).items())
    print(
        f"Flink {VERSION} read {len(files)} files of ours ({counted}) and restored {len(cases)} savepoints: "
        f"{wrong or 'no'} differences"
    )
    return 1 if any([surgery.main(), bridge.main(), value_types.main(), wrong]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
