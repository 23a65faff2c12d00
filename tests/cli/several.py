"""What `kit` prints about several checkpoints of Flink: `python -m tests.cli.several` writes `several.txt` again.

The checkpoints have many operators, subtasks, states and files each; in their directory, two are damaged and some files
are left over. Long outputs are there as their ends and a checksum. After a change, read the output of `git diff`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

import kit
from kit.cli.commands import Table
from kit.cli.editing import app
from tests.flink_data import value_cases, values
from tests.stored_parts import Part, store

STORED = Path(__file__).with_suffix(".txt")
VERSION = value_cases()[-1][0]
SHOWN = ("rocksdb-incremental", "savepoint-canonical")
"""The checkpoints of which everything is printed."""
COMPARED = (("rocksdb-incremental", "rocksdb-incremental-rescaled"), ("savepoint-canonical", "checkpoint-hashmap"))
MOST_ROWS = 12
"""Of longer outputs, the ends and a checksum are stored."""


def parts() -> Iterator[Part]:
    """Each command with what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _printed(Path(folder))


def _printed(folder: Path) -> Iterator[Part]:
    job = directory_of_several(folder)
    for arguments in (["ls"], ["size"], ["size", "--incremental"], ["orphans"]):
        yield _ran(folder, arguments[0], job, *arguments[1:], "--json")
    yield _ran(folder, "ls", job)
    shutil.rmtree(job / "chk-3")
    yield _ran(folder, "orphans", job, "--json")
    for name in SHOWN:
        path = folder / name
        for table in Table:
            yield _ran(folder, "show", path, "--table", table.value, "--json")
        yield _ran(folder, "size", path, "--json")
        yield from _checks(folder, kit.open_checkpoint(path))
    yield from _states(folder, SHOWN[0])
    for before, after in COMPARED:
        yield _ran(folder, "diff", folder / before, folder / after, "--subtasks", "--json")


def directory_of_several(folder: Path) -> Path:
    """Copy all checkpoints, and some of them into one directory, with two damaged and files that belong to none."""
    for source in values(VERSION).iterdir():
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("truth*"))
    job = folder / "job"
    for number, name in (
        (7, "rocksdb-incremental"),
        (12, "rocksdb-incremental-rescaled"),
        (3, SHOWN[1]),
        (4, SHOWN[1]),
    ):
        shutil.copytree(folder / name, job / f"chk-{number}")
    shutil.copytree(folder / SHOWN[1], job / "savepoint-1")
    metadata = job / "chk-3" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-100])
    max((job / "chk-4").glob("[!_]*"), key=lambda each: each.stat().st_size).unlink()
    (job / "chk-9").mkdir()
    for place in ("chk-7/left-over", "chk-9/unfinished", "shared/x", "shared/y"):
        (job / place).parent.mkdir(exist_ok=True)
        (job / place).write_bytes(place.encode())
    return job


def _states(folder: Path, name: str) -> Iterator[Part]:
    """The values of all states: of keyed ones, those in two key groups."""
    checkpoint, lines = kit.open_checkpoint(folder / name), []
    for each in checkpoint.states.drop_duplicates(["operator", "name"]).itertuples():
        path = (folder / name, each.operator, each.name)
        groups = ("--key-group", 3, "--key-group", 100) if each.key else ()
        lines.append(f"{each.operator} {each.name}: {_digest(_ran(folder, 'state', *path, *groups, '--json')[1])}")
    yield f"{name}: values", lines


def _checks(folder: Path, checkpoint: kit.Checkpoint) -> Iterator[Part]:
    """Checks against jobs without some operators, with others, and with other numbers of subtasks."""
    path, uids = Path(checkpoint.directory), list(dict.fromkeys(checkpoint.operators["uid"].dropna()))
    own = [argument for uid in uids for argument in ("--uid", f"{uid}=2")]
    yield _ran(folder, "check", path, "--parallelism", 3, "--json")
    yield _ran(folder, "check", path, *own[4:], "--uid", "new=1", "--uid", "newer=5", "--json")
    yield _ran(folder, "check", path, *own[:-4], "--allow-non-restored-state", "--json")
    yield _ran(folder, "check", path, *own, "--max-parallelism", 64)
    for uid in uids[:3]:
        yield _ran(folder, "plan", path, uid, "-p", 2, "-p", 3, "-p", 7, "--json")


def _ran(folder: Path, command: str, *arguments: object) -> Part:
    """Run a command: its name with its arguments, and its exit code and output without the folder's own path."""
    words = [command, *map(str, arguments)]
    found = CliRunner().invoke(app, words, terminal_width=200)
    lines = (found.stdout + found.stderr).replace(str(folder), "").splitlines()
    shown = lines if len(lines) <= MOST_ROWS else [*lines[:5], f"({_digest(lines)})", *lines[-5:]]
    return f"kit {' '.join(words).replace(str(folder), '')}: {found.exit_code}", shown


def _digest(lines: list[str]) -> str:
    if not lines:
        return "none"
    ends = [json.dumps(each, ensure_ascii=True)[:120] for each in (lines[0], lines[-1])]
    return f"{len(lines)} lines, {zlib.crc32(chr(10).join(lines).encode()):08x}, {ends[0]} to {ends[1]}"


if __name__ == "__main__":
    store(STORED, parts())
