"""The commands about storage and keys: `kit size`, `kit orphans`, and `kit plan`."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from typing import Annotated, Optional

import pyarrow.parquet as pq
import typer

from kit.advice import plan_parallelism
from kit.cli.commands import (
    FAILED,
    Follow,
    Json,
    Parquet,
    Path,
    Uids,
    all_checkpoints,
    errors,
    opened,
    warn_in_progress,
)
from kit.cli.judging import app
from kit.cli.printing import as_table, as_tables, for_programs
from kit.core.state.errors import SavepointNotFoundError
from kit.snapshots.checkpoints import Checkpoint, Checkpoints, open_checkpoint

__all__ = ["app", "orphans", "plan", "size"]


@app.command(epilog="Example: kit size /savepoints/savepoint-d0b5c2-1a2b3c4d5e6f")
def size(
    path: Path,
    incremental: Annotated[
        bool,
        typer.Option("--incremental", help="For several checkpoints: show what incremental checkpoints would save."),
    ] = False,
    as_lines: Json = False,
    parquet: Parquet = None,
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Show the size of each state.

    For a directory of several checkpoints, show how they grow. --incremental compares all their values.
    """
    with errors(), ExitStack() as progress:
        try:
            found: Checkpoint | Checkpoints = opened(path, follow, uids)
        except SavepointNotFoundError:
            found = progress.enter_context(all_checkpoints(path, follow))
            if not len(found):
                raise
        if isinstance(found, Checkpoints):
            frame = found.incremental if incremental else found.growth
        elif incremental:
            raise typer.BadParameter(
                f"--incremental compares several checkpoints, and {path!r} is one: give its parent"
            )
        else:
            frame = found.storage.states
    if for_programs(frame, parquet, as_lines=as_lines):
        return
    if isinstance(found, Checkpoints):
        note = "; an incremental checkpoint writes at least the changed bytes" if incremental else ""
        as_table(frame, f"{found.title}{note}")
    else:
        storage = found.storage
        shown = frame.assign(share=[f"{share:.1%}" for share in frame["share"]])
        requests = ", ".join(f"{many:,} {what}" for what, many in storage.requests.items())
        tables = {"states": shown, f"files ({requests} of an object store)": storage.files}
        as_tables(storage.title, {**tables, **({"savings": storage.savings} if len(storage.savings) else {})})


@app.command(epilog="Example: kit orphans /checkpoints/d0b5c2 --json | jq -r .file")
def orphans(
    path: Path,
    older_than: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="List only files that have not changed for this time: 90m, 12h, 7d."),
    ] = None,
    as_lines: Json = False,
    parquet: Parquet = None,
    follow: Follow = False,
) -> None:
    """List the files that no checkpoint in a directory refers to. Nothing is deleted.

    A running job writes files that no checkpoint refers to yet: give --older-than a time
    longer than a checkpoint takes.

    Exits with 1 if such files exist, and with 2 if a checkpoint cannot be read, because its files are then unknown.
    """
    with errors(), all_checkpoints(path, follow) as found:
        unread = [each for each in found.found if each.checkpoint is None and each.has_metadata]
        frame = found.orphans
        if older_than is not None:
            frame = found.orphans_older_than(_age_ms(older_than), time.time_ns() // 1_000_000)
    if unread:
        typer.echo(f"kit: {unread[0].directory}: {unread[0].problem}", err=True)
        raise typer.Exit(FAILED)
    if not for_programs(frame, parquet, as_lines=as_lines):
        total = int(frame["bytes"].sum()) if len(frame) else 0
        as_table(frame, f"{len(frame)} files, {total:,} B, that no checkpoint here refers to")
    warn_in_progress(found)
    if len(frame):
        raise typer.Exit(1)


_AGE = re.compile(r"(\d{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _age_ms(text: str) -> int:
    """Return an age in milliseconds. Raises BadParameter."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"--older-than {text!r}: expected a number and s, m, h or d, as in 12h")
    return int(found[1]) * _UNIT_MS[found[2]]


@app.command(epilog="Example: kit plan /savepoints/savepoint-d0b5c2-1a2b3c4d5e6f word-count -p 4 -p 8")
def plan(
    path: Annotated[str, typer.Argument(help="A checkpoint, or a Parquet file of records or keys.")],
    name: Annotated[str, typer.Argument(help="The operator's uid, or the file's column with the keys.")],
    parallelism: Annotated[list[int], typer.Option("--parallelism", "-p", help="A candidate (repeatable).")],
    max_parallelism: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(help="A candidate for the maximum (repeatable); by default the powers of two from 128."),
    ] = None,
    state: Annotated[Optional[str], typer.Option(help="The state whose keys count; by default the largest.")] = None,  # noqa: UP045
    as_lines: Json = False,
    parquet: Parquet = None,
    follow: Follow = False,
) -> None:
    """Show how evenly keys spread over subtasks.

    Also recommends a maximum parallelism.
    """
    with errors():
        if path.endswith(".parquet"):
            found = plan_parallelism(pq.read_table(path, columns=[name])[name], parallelism, max_parallelism or None)
        else:
            found = open_checkpoint(path, follow=follow).plan(name, parallelism, max_parallelism or None, state=state)
    if not for_programs(found.table, parquet, as_lines=as_lines):
        typer.echo(f"{found.verdict}\n")
        as_table(found.table, "candidates")
        as_table(found.hot_groups(), "hottest key groups")
