"""`kit edit`: changes to a checkpoint, written into a new savepoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Optional

import typer

from kit.cli.commands import Follow, Json, Path, Uids, errors, opened
from kit.cli.planning import app
from kit.cli.printing import as_json, as_table
from kit.snapshots.surgery.edit import Edit

__all__ = ["app", "edit"]

Texts = Sequence[str]
EXAMPLES = """Examples:

kit edit OLD --to NEW --rename totals=sums --drop debug

kit edit OLD --to NEW --max-parallelism 256 --dry-run

kit edit OLD --to NEW --delete-key totals=bot --drop-state totals=last-seen
"""


Several = Optional[list[str]]  # noqa: UP045
Rename = typer.Option(help="Give an operator another uid: OLD=NEW; OLD is a uid, a name or an id (repeatable).")
Drop = typer.Option(help="Leave out an operator (repeatable).")
DropState = typer.Option(help="Leave out one state of an operator: OPERATOR=NAME (repeatable).")
DeleteKey = typer.Option(
    help="Delete a key from all states of an operator: OPERATOR=KEY; KEY as `kit state --key` takes it (repeatable)."
)
SetOffset = typer.Option(
    help="Let a source resume at another offset: OPERATOR=SPLIT=OFFSET; Kafka's SPLIT is TOPIC:PARTITION (repeatable)."
)
Relocate = typer.Option(help="Replace OLD with NEW at the start of the files' paths: OLD=NEW (repeatable).")
MaxParallelism = typer.Option(help="Move every key to its key group for this maximum parallelism.")
Canonical = typer.Option("--canonical", help="Write all keyed state in the layout that every state backend reads.")
WithoutInFlight = typer.Option("--without-in-flight", help="Leave out the data in flight of an unaligned checkpoint.")
NoCopy = typer.Option("--no-copy", help="Refer to files where they are instead of copying them.")
DryRun = typer.Option("--dry-run", help="Carry out all changes without writing a file.")


@app.command(epilog=EXAMPLES)
def edit(
    path: Path,
    to: Annotated[str, typer.Option("--to", help="The directory of the new savepoint, which does not exist yet.")],
    rename: Annotated[Several, Rename] = None,
    drop: Annotated[Several, Drop] = None,
    drop_state: Annotated[Several, DropState] = None,
    delete_key: Annotated[Several, DeleteKey] = None,
    set_offset: Annotated[Several, SetOffset] = None,
    max_parallelism: Annotated[Optional[int], MaxParallelism] = None,  # noqa: UP045
    canonical: Annotated[bool, Canonical] = False,
    without_in_flight: Annotated[bool, WithoutInFlight] = False,
    relocate: Annotated[Several, Relocate] = None,
    no_copy: Annotated[bool, NoCopy] = False,
    dry_run: Annotated[bool, DryRun] = False,
    as_lines: Json = False,
    uids: Uids = None,
    follow: Follow = False,
) -> None:
    """Change a checkpoint, and write the result as a new savepoint. The old one is never changed.

    States and keys are changed before operators are renamed, so always use an operator's old name.
    """
    with errors():
        plan = opened(path, follow, uids).edit()
        plan = _keyed(plan, drop or (), drop_state or (), delete_key or (), max_parallelism)
        plan = _with_offsets(plan, set_offset or ())
        plan = plan.to_canonical() if canonical else plan
        plan = plan.without_in_flight() if without_in_flight else plan
        if relocate:
            plan = plan.relocate(dict(_pair("--relocate", each) for each in relocate))
        for old, new in (_pair("--rename", each) for each in rename or ()):
            plan = plan.rename(old, new)
        size = plan.rehearse().state_size if dry_run else plan.write(to, copy=not no_copy).size
    if as_lines:
        as_json(plan.changes)
        return
    as_table(plan.changes, plan.title)
    outcome = "Nothing was written; the savepoint would have" if dry_run else f"Written to {to}:"
    typer.echo(f"\n{outcome} {size:,} B of state.")


def _keyed(plan: Edit, drop: Texts, drop_state: Texts, delete_key: Texts, max_parallelism: int | None) -> Edit:
    for operator in drop:
        plan = plan.drop(operator)
    for operator, name in (_pair("--drop-state", each) for each in drop_state):
        plan = plan.drop(operator, name)
    keys: dict[str, list[Any]] = defaultdict(list)
    for operator, text in (_pair("--delete-key", each) for each in delete_key):
        keys[operator].append(plan.key_from_text(operator, text))
    for operator, several in keys.items():
        plan = plan.delete_keys(operator, several)
    return plan if max_parallelism is None else plan.set_max_parallelism(max_parallelism)


def _with_offsets(plan: Edit, given: Texts) -> Edit:
    offsets: dict[str, dict[Any, int]] = defaultdict(dict)
    for operator, rest in (_pair("--set-offset", each) for each in given):
        split, _, offset = rest.rpartition("=")
        if not (split and offset.isdecimal()):
            raise typer.BadParameter(f"--set-offset {operator}={rest!r}: expected OPERATOR=SPLIT=OFFSET")
        topic, mark, partition = split.rpartition(":")
        offsets[operator][(topic, int(partition)) if mark and partition.isdecimal() else split] = int(offset)
    for operator, several in offsets.items():
        plan = plan.set_offsets(operator, several)
    return plan


def _pair(option: str, text: str) -> tuple[str, str]:
    old, mark, new = text.partition("=")
    if not (old and mark and new):
        raise typer.BadParameter(f"{option} {text!r}: expected two texts separated by =")
    return old, new
