"""The commands `ls`, `show`, `state`, `in-flight`, `doctor` and `course`; other modules of this package have the rest.

Exit codes: 0 for success; 1 if a checkpoint cannot be restored (`ls`, `show`), is damaged (`verify`), or the check-up
failed; 2 for an invalid argument, or if nothing could be read; 3 if a job can be restored, but loses state or repeats
rows (`check`), or if a part was not read (`verify`). Errors go to standard error, in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Optional

import typer

from kit.cli.printing import as_json, as_table, as_tables, for_programs, progress_line
from kit.core.extras import PROJECT
from kit.core.state.errors import StateError
from kit.snapshots.checkpoints import Checkpoint, Checkpoints, open_checkpoint, open_checkpoints
from kit.version import __version__

NOT_RESTORABLE, FAILED, COSTS = 1, 2, 3

app = typer.Typer(
    name="kit",
    help="Open checkpoints and savepoints, of Apache Flink or of the kit, without a JVM.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Path = Annotated[
    str, typer.Argument(help="A checkpoint's directory or _metadata, local or a URI such as s3://bucket/x")
]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object for each row, one per line.")]
Parquet = Annotated[Optional[str], typer.Option("--parquet", help="Write the rows to this file instead.")]  # noqa: UP045
OperatorName = Annotated[str, typer.Argument(help="The operator's uid, its name, or its id in hexadecimal.")]
Limit = Annotated[int, typer.Option(help="Print at most this number of rows; 0 for all.")]
Uids = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(envvar="KIT_UIDS", help="The job's uids, as in a,b. Tables then show them for Flink before 2.0 too."),
]
Follow = Annotated[bool, typer.Option("--follow", help="Read files outside the checkpoint's own directories too.")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"{PROJECT} {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options of `kit` itself, before those of its commands."""


class Table(StrEnum):
    """The tables of a checkpoint that `show` prints."""

    OPERATORS = "operators"
    SUBTASKS = "subtasks"
    STATES = "states"
    HANDLES = "handles"
    KEY_GROUPS = "key-groups"
    OPERATOR_STATE = "operator-state"
    CHANNEL_STATE = "channel-state"
    FILES = "files"
    MASTER_STATE = "master-state"
    PROPERTIES = "properties"


@contextmanager
def errors() -> Iterator[None]:
    """Print an error of the kit in one line, and exit with status 2."""
    try:
        yield
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        raise
    except (StateError, KeyError, OSError, TypeError, ValueError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        typer.echo(f"kit: {text}", err=True)
        raise typer.Exit(FAILED) from None


@app.command(epilog="Example: kit ls /checkpoints/d0b5c2/ --json")
def ls(path: Path, as_lines: Json = False, parquet: Parquet = None, follow: Follow = False) -> None:
    """List checkpoints: which can be restored, and why not.

    Exits with 1 if one of them cannot be restored. Files outside their directories are checked only with --follow.
    """
    with errors(), all_checkpoints(path, follow) as found:
        frame = found.to_pandas()
    if not len(frame):
        typer.echo(f"kit: no checkpoint or savepoint is in {path!r} or below it", err=True)
        raise typer.Exit(FAILED)
    if not for_programs(frame, parquet, as_lines=as_lines):
        as_table(frame.drop(columns="problem"), found.title)
        for row in frame[frame["problem"] != ""].itertuples():
            typer.echo(f"{row.directory}: {row.problem}")
        _print_orphans(found)
    if not frame["restorable"].all():  # null counts as true: it was not checked
        raise typer.Exit(NOT_RESTORABLE)


@contextmanager
def all_checkpoints(path: str, follow: bool) -> Iterator[Checkpoints]:
    """Open a directory of checkpoints. A terminal shows how many are read, as they are needed."""
    with progress_line() as show:
        yield open_checkpoints(path, follow=follow, progress=lambda read, of: show(f"{read:,} of {of:,} directories"))


def _print_orphans(found: Checkpoints) -> None:
    orphans = found.orphans
    if len(orphans):
        size = int(orphans["bytes"].sum())
        files = "1 file" if len(orphans) == 1 else f"{len(orphans)} files"
        as_table(orphans, f"{files}, {size:,} B, that no checkpoint here refers to (nothing is deleted)")
        warn_in_progress(found)


def warn_in_progress(found: Checkpoints) -> None:
    """Warn that a job may still be writing files that no checkpoint refers to."""
    for directory in found.in_progress:
        typer.echo(
            f"kit: {directory} has no _metadata: a job may still be writing this checkpoint, so no checkpoint refers "
            "to its files yet, including those in shared. Delete nothing while a job runs, or leave out new files with "
            "--older-than",
            err=True,
        )


@app.command(epilog="Example: kit show /savepoints/savepoint-d0b5c2-1a2b3c4d5e6f --table states")
def show(
    path: Path,
    table: Annotated[Optional[Table], typer.Option("--table", "-t", help="Print this table only.")] = None,  # noqa: UP045
    as_lines: Json = False,
    parquet: Parquet = None,
    html: Annotated[Optional[str], typer.Option(help="Write a page to browse to this file.")] = None,  # noqa: UP045
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Show the operators and states of a checkpoint.

    Exits with 1 if a file that it refers to is missing or truncated, or if its states cannot be read.
    """
    with errors():
        checkpoint = opened(path, follow, uids)
        chosen = Table.OPERATORS if table is None and (as_lines or parquet is not None) else table
        frames = _frames(checkpoint, chosen)
        problems = [each for each in checkpoint.files["problem"] if each]
        if not problems and "states" in frames:
            states = checkpoint.states
            problems = [f"{row.operator}: {row.error}" for row in states[states["error"] != ""].itertuples()]
        if html is not None:
            from kit.draw.page.checkpoint_page import export_checkpoint

            typer.echo(export_checkpoint(checkpoint, html))
    if html is None and not for_programs(next(iter(frames.values())), parquet, as_lines=as_lines):
        as_tables(checkpoint.title, frames)
        if not checkpoint.operators["uid"].any() and not checkpoint.operators["name"].any():
            typer.echo(_NO_NAMES)
    for problem in problems[:3]:
        typer.echo(f"kit: {problem}", err=True)
    if problems:
        raise typer.Exit(NOT_RESTORABLE)


def opened(path: str, follow: bool, uids: str | None) -> Checkpoint:
    """Open a checkpoint with the uids of the option `--uids`. Raises the same errors as `open_checkpoint`."""
    named = [each.strip() for each in (uids or "").split(",") if each.strip()]
    return open_checkpoint(path, follow=follow, uids=named)


_NO_NAMES = """Flink before 2.0 stores no names of operators, only ids, which are hashes of their uids.
You can name an operator by its uid: kit state PATH UID STATE. With --uids, the tables show the uids."""


def _frames(checkpoint: Checkpoint, table: Table | None) -> dict[str, Any]:
    if table is None:
        operators = checkpoint.operators[["operator", "parallelism", "max_parallelism", "subtasks", "bytes"]]
        return {"operators": operators, "states": checkpoint.states.drop(columns="error")}
    if table is Table.PROPERTIES:
        frame = checkpoint.properties.rename("value").rename_axis("property").reset_index()
        return {table.value: frame.astype({"value": str})}
    return {table.value: getattr(checkpoint, table.value.replace("-", "_"))}


@app.command(epilog="Example: kit state /savepoints/savepoint-d0b5c2-1a2b3c4d5e6f word-count total --key hello")
def state(
    path: Path,
    operator: OperatorName,
    name: Annotated[str, typer.Argument(help="The state's name.")],
    key: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only this key: 42, UA, 2026-01-31; a key of several fields as JSON, '[\"UA\", 7]'."),
    ] = None,
    key_group: Annotated[Optional[list[int]], typer.Option(help="Read this key group only (repeatable).")] = None,  # noqa: UP045
    where: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Only rows that meet this: 'value.total >= 100', 'map_key != null' (repeatable)."),
    ] = None,
    limit: Limit = 20,
    as_lines: Json = False,
    parquet: Parquet = None,
    follow: Follow = False,
) -> None:
    """Print the values of a state. --json and --parquet write all rows of the key or the chosen key groups.

    Only as many key groups are read as --limit needs. With --key, only that of the key is read, unless only a Java
    class knows how such keys are hashed.
    """
    with errors():
        checkpoint = open_checkpoint(path, follow=follow)
        wanted = None if key is None else checkpoint.key_from_text(operator, name, key)
        groups, conditions = key_group or None, where or ()
        if as_lines and parquet is None:
            for table in _tables(checkpoint, operator, name, wanted, groups, conditions):
                as_json(table)
        elif parquet is not None or limit == 0:
            found = checkpoint.state(operator, name, key=wanted, key_groups=groups, where=conditions)
            if not for_programs(found, parquet, as_lines=False):
                as_table(found, f"{operator}, {name}: {found.num_rows:,} rows")
        else:
            page = checkpoint.page(
                operator,
                name,
                key=wanted,
                key_groups=groups,
                where=conditions,
                rows=limit + 1,
                most_read=sys.maxsize,
            )
            is_all = page.rows.num_rows <= limit
            title = f"{page.rows.num_rows:,} rows" if is_all else f"the first {limit:,} rows"
            as_table(page.rows.slice(0, limit), f"{operator}, {name}: {title}")
            if not is_all:
                typer.echo("... and more; --limit 0 prints all")


def _tables(
    checkpoint: Checkpoint, operator: str, name: str, key: Any, groups: list[int] | None, where: Sequence[str]
) -> Iterator[Any]:
    """Yield the rows of a state: of keyed state key group by key group, so that memory is that of one."""
    if key is None:
        try:
            yield from checkpoint.stream(operator, name, key_groups=groups, where=where)
        except KeyError:  # operator state, or none: nothing was yielded
            pass
        else:
            return
    yield checkpoint.state(operator, name, key=key, key_groups=groups, where=where)


@app.command(
    "in-flight", epilog='Example: kit in-flight /checkpoints/d0b5c2/chk-7 join --record "Tuple2<Long, String>"'
)
def in_flight(
    path: Path,
    operator: OperatorName,
    record: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The type of the records, which is not in a checkpoint: Long, Tuple2<Long, String>, ..."),
    ] = None,
    limit: Limit = 20,
    as_lines: Json = False,
    parquet: Parquet = None,
    follow: Follow = False,
) -> None:
    """Print the records in flight at an operator. Without --record, they are shown as bytes.

    A record belongs to the operator in whose input or output it begins.
    """
    with errors():
        found = open_checkpoint(path, follow=follow).in_flight(operator, record)
        if not for_programs(found, parquet, as_lines=as_lines):
            _print_rows(found, f"{operator}: {found.num_rows:,} elements in flight", limit)


def _print_rows(found: Any, title: str, limit: int) -> None:
    as_table(found.slice(0, limit or None), title)
    if limit and found.num_rows > limit:
        typer.echo(f"... and {found.num_rows - limit:,} more; --limit 0 prints all")


@app.command(context_settings={"ignore_unknown_options": True})
def doctor(arguments: Annotated[Optional[list[str]], typer.Argument()] = None) -> None:  # noqa: UP045
    """Check what the kit needs on this machine.

    --lab checks only what the lab needs; --start-spark also starts Spark.
    """
    from kit.checkup import main as check

    raise typer.Exit(check(["doctor", *(arguments or ())]))


@app.command(context_settings={"ignore_unknown_options": True})
def course(arguments: Annotated[Optional[list[str]], typer.Argument(metavar="DIRECTORY")] = None) -> None:  # noqa: UP045
    """Copy the notebooks and the labs of the course."""
    from kit.course.material import main as copy

    raise typer.Exit(copy(["course", *(arguments or ())]))
