"""The commands `kit check`, `kit verify`, `kit diff` and `kit advise`, which judge a checkpoint or compare two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from kit.advice import advise as advice_on
from kit.advice import read_flink, save_flink
from kit.cli.commands import COSTS, NOT_RESTORABLE, Follow, Json, Parquet, Uids, app, errors, opened
from kit.cli.commands import Path as CheckpointPath
from kit.cli.printing import as_table, for_programs, progress_line
from kit.files.storage import StateFiles
from kit.restore_check.job_shape import Job
from kit.run.sizes import size_text
from kit.snapshots.checkpoints import Checkpoint, Outside

__all__ = ["advise", "app", "check", "diff", "verify"]

SHARES = ("checkpoints", "repeated", "restarts", "lost")
"""The columns of the table of intervals that are shares of time."""


@app.command(epilog="Example: kit check /savepoints/savepoint-d0b5c2-1a2b3c4d5e6f --parallelism 4 --max-parallelism 64")
def check(
    path: CheckpointPath,
    against: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A checkpoint of the newer version of the job; by default, the job that took this one."),
    ] = None,
    uid: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="An operator of the job: UID=PARALLELISM or UID=PARALLELISM:MAXIMUM (repeatable)."),
    ] = None,
    type_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--type", help="The type of a state of such an operator: UID/STATE=TYPE (repeatable)."),
    ] = None,
    parallelism: Annotated[Optional[int], typer.Option(help="The new parallelism.")] = None,  # noqa: UP045
    max_parallelism: Annotated[Optional[int], typer.Option(help="The new maximum parallelism.")] = None,  # noqa: UP045
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Drop state that has no operator in the job.")
    ] = False,
    retained: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A JSON file of the offsets in the logs: TOPIC, then PARTITION, then [FIRST, END]."),
    ] = None,
    age_ms: Annotated[Optional[int], typer.Option(help="The time since the checkpoint, in ms.")] = None,  # noqa: UP045
    transaction_timeout_ms: Annotated[Optional[int], typer.Option(help="The broker's timeout, in ms.")] = None,  # noqa: UP045
    files: Annotated[
        bool, typer.Option("--files", help="Check whether the files of sources and sinks exist, without opening them.")
    ] = False,
    as_lines: Json = False,
    parquet: Parquet = None,
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Check whether a checkpoint restores to a job.

    Exits with 1 if it does not, and with 3 if it does but state is lost or rows are repeated.
    """
    with errors():
        checkpoint = opened(path, follow, uids)
        job = _job(checkpoint, against, uid, type_)
        offsets = None if retained is None else json.loads(retained.read_text(encoding="utf-8"))
        answer = checkpoint.check(
            job,
            parallelism,
            max_parallelism=max_parallelism,
            allow_non_restored_state=allow_non_restored_state,
            outside=Outside(offsets, transaction_timeout_ms, age_ms, StateFiles().exists if files else None),
        )
    findings = answer.to_pandas()
    if not for_programs(findings, parquet, as_lines=as_lines):
        typer.echo(f"{answer.verdict}.\n")
        for each in answer.shared_findings:
            typer.echo(each)
        typer.echo("")
        as_table(answer.operators.drop(columns=["operator_id", "uid"]), "operators")
    if not answer.restores:
        raise typer.Exit(NOT_RESTORABLE)
    if answer.costs:
        raise typer.Exit(COSTS)


@app.command(epilog="Example: kit verify /checkpoints/d0b5c2/chk-7")
def verify(
    path: CheckpointPath,
    as_lines: Json = False,
    parquet: Parquet = None,
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Read a whole checkpoint, and report damaged and missing files.

    Checksums are compared; in a format without any, the layout is checked. Exits with 1 if something is damaged, and
    with 3 if nothing is, but some files were not read. --json and --parquet have all files, also the sound ones.
    """
    with errors(), progress_line() as show:
        checkpoint = opened(path, follow, uids)
        found = checkpoint.verify(lambda each: show(f"read {each.file}, {size_text(each.size)}"))
    if not for_programs(found.files, parquet, as_lines=as_lines):
        typer.echo(f"{found.title}. {found.verdict}.")
        for each in (*found.damaged, *found.not_read):
            typer.echo(f"{each.result}: {each.operator}, subtask {each.subtask}, {each.kind}: {each.problem}")
    if found.damaged:
        raise typer.Exit(NOT_RESTORABLE)
    if found.not_read:
        raise typer.Exit(COSTS)


@app.command(epilog="Example: kit diff /checkpoints/d0b5c2/chk-7 /checkpoints/d0b5c2/chk-8")
def diff(
    before: CheckpointPath,
    after: CheckpointPath,
    values: Annotated[
        Optional[tuple[str, str]],  # noqa: UP045
        typer.Option(help="Print the rows of this state that differ: OPERATOR NAME.", metavar="OPERATOR NAME"),
    ] = None,
    by_subtask: Annotated[bool, typer.Option("--subtasks", help="Print bytes and rows of each subtask.")] = False,
    as_lines: Json = False,
    parquet: Parquet = None,
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Show which rows of which states changed between checkpoints.

    Exits with 1 if something changed.
    """
    with errors():
        old = opened(before, follow, uids)
        found = old.diff(old.open_other(after))
        states = found.states
        frame = found.values(*values) if values else states[states[["added", "removed", "changed"]].sum(axis=1) > 0]
        if by_subtask:
            frame = found.subtasks.query("grown_bytes != 0 or added + removed + changed > 0")
    if not for_programs(frame, parquet, as_lines=as_lines):
        as_table(frame, found.title, 40)
    if len(frame):
        raise typer.Exit(1)


def _job(
    checkpoint: Checkpoint, against: str | None, uids: list[str] | None, types: list[str] | None
) -> Job | Checkpoint:
    if against is not None and uids:
        raise typer.BadParameter("give --against or --uid, not both")
    if against is not None:
        return checkpoint.open_other(against)
    if not uids:
        if types:
            raise typer.BadParameter("--type needs --uid, which names the operators of the job")
        return checkpoint
    job: dict[str, dict[str, object]] = dict(map(_uid, uids))
    for text in types or ():
        uid, state, name = _type(text)
        if uid not in job:
            raise typer.BadParameter(f"--type {text!r}: --uid {uid}=... is missing")
        states = job[uid].setdefault("states", {})
        assert isinstance(states, dict)
        states[state] = name
    return job


def _type(text: str) -> tuple[str, str, str]:
    place, _, name = text.partition("=")
    uid, _, state = place.partition("/")
    if not (uid and state and name):
        raise typer.BadParameter(f"--type {text!r}: expected UID/STATE=TYPE, as in totals/total=Long")
    return uid, state, name


def _uid(text: str) -> tuple[str, dict[str, object]]:
    name, _, numbers = text.rpartition("=")
    parallelism, _, maximum = numbers.partition(":")
    if not name or not parallelism.isdecimal() or (maximum and not maximum.isdecimal()):
        raise typer.BadParameter(f"--uid {text!r}: expected UID=PARALLELISM or UID=PARALLELISM:MAXIMUM")
    return name, {"parallelism": int(parallelism), "max_parallelism": int(maximum) if maximum else None}


@app.command(epilog="Example: kit advise http://localhost:8081/jobs/e9d67ce7dcd210e3a505af07c79d8241")
def advise(
    job: Annotated[str, typer.Argument(help="The URL of a job of Flink's REST API, or a file that --save wrote.")],
    save: Annotated[Optional[Path], typer.Option(help="Save the answers to this file, to read them elsewhere.")] = None,  # noqa: UP045
    failures_every_s: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Show the best checkpoint interval instead, for one failure in this time (Young, Daly)."),
    ] = None,
    restart_s: Annotated[float, typer.Option(help="The duration of a recovery, for the best interval.")] = 0.0,
    as_lines: Json = False,
    parquet: Parquet = None,
) -> None:
    """Explain why checkpoints of a job on Flink are slow or fail.

    Exits with 1 if there is a remedy.
    """
    with errors():
        answer = advice_on(read_flink(save_flink(job, save) if save is not None else job))
        if failures_every_s is not None:
            intervals = answer.intervals(1_000 * failures_every_s, restart_ms=1_000 * restart_s)
            if not for_programs(intervals, parquet, as_lines=as_lines):
                shares = {name: [f"{share:.2%}" for share in intervals[name]] for name in SHARES}
                title = f"A checkpoint stops processing for {answer.cost_ms:,.0f} ms on average; shares of time"
                as_table(intervals.assign(**shares), title)
            return
    remedies = answer.to_pandas()
    if not for_programs(remedies, parquet, as_lines=as_lines):
        typer.echo(answer)
    if answer.remedies:
        raise typer.Exit(1)
