"""Reports about checkpoints as HTML: contents, differences, storage, checks before a restore, plans and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.html_tables import frame_html, rows_html
from kit.draw.panel import panel
from kit.draw.view_html import answer, fold, view_html, words
from kit.run.sizes import size_text

if TYPE_CHECKING:  # a plan or advice is shown without the decoders of state, which take a second to import
    from kit.advice import Advice, ParallelismPlan
    from kit.restore_check import RestoreCheck
    from kit.snapshots.checkpoints.checkpoint import Checkpoint
    from kit.snapshots.checkpoints.difference import CheckpointDiff
    from kit.snapshots.checkpoints.directory import Checkpoints
    from kit.snapshots.checkpoints.storage import Storage
    from kit.snapshots.checkpoints.verification import Verification

COLUMNS = ("operator", "name", "parallelism", "max_parallelism", "subtasks", "bytes", "written_bytes")
_PHASES = {
    "start_delay_ms": "start delay",
    "alignment_ms": "alignment",
    "sync_ms": "synchronous part",
    "async_ms": "asynchronous part",
}


def checkpoint_html(found: Checkpoint | Checkpoints) -> str:
    """Show the operators and states of a checkpoint, or the checkpoints of a directory with the files nobody uses."""
    from kit.snapshots.checkpoints.directory import Checkpoints

    if isinstance(found, Checkpoints):
        parts: list[str] = [frame_html(found.to_pandas())]
        files = found.orphans
        title = f"Files that no checkpoint here refers to: {len(files)}, {int(files['bytes'].sum()):,} B"
    else:
        operators = found.operators[[name for name in COLUMNS if name in found.operators]]
        parts = [f"<h4>Operators</h4>{frame_html(operators)}", f"<h4>States</h4>{frame_html(found.states)}"]
        files = found.files.loc[found.files.problem != "", ["file", "bytes", "problem"]]
        title = "Files that are missing"
    if len(files):
        parts.append(f"<h4>{title}</h4>{frame_html(files)}")
    return panel(found.title, *parts, under=found.directory)


def checkpoint_diff_html(diff: CheckpointDiff) -> str:
    """Show the states that changed and the operators that grew; what did not change is folded."""
    states, operators = diff.states, diff.operators
    differ = states[(states[["added", "removed", "changed"]].sum(axis="columns") > 0) | (states["error"] != "")]
    grown = int(operators["grown_bytes"].sum())
    rows = ", ".join(f"{int(states[change].sum()):,} {change}" for change in ("added", "removed", "changed"))
    moved = operators[operators["change"] != "unchanged"]
    subtasks = diff.subtasks
    changed = subtasks[(subtasks[["grown_bytes", "added", "removed", "changed"]] != 0).any(axis="columns")]
    return view_html(
        diff.title,
        answer(f"Rows of state: {rows}. All state together {'grew' if grown >= 0 else 'shrank'} by {abs(grown):,} B."),
        fold("States", f"{len(differ)} of {len(states)} differ", frame_html(differ), is_open=len(differ) > 0),
        fold("Subtasks", f"{len(changed)} of {len(subtasks)} differ", frame_html(changed)),
        fold("Operators", f"{len(moved)} of {len(operators)} differ", frame_html(moved.drop(columns="operator_id"))),
    )


def storage_html(storage: Storage) -> str:
    """Show the largest states, the classes of files, the requests, and the settings that would save some."""
    states, files, savings = storage.states, storage.files, storage.savings
    largest = states.iloc[0] if len(states) else None
    said = "No operator has state."
    if largest is not None:
        what = f"{largest['operator']}, {largest['state'] or largest['kind']}"
        said = f"The largest is {what}: {size_text(int(largest['bytes']))}, {largest['share']:.0%} of all state."
    requests = ", ".join(f"{many:,} {what}" for what, many in storage.requests.items())
    states = states.assign(share=[f"{share:.1%}" for share in states["share"]])
    about = "Settings that would save files"
    saving = fold(about, f"{len(savings)}", frame_html(savings), is_open=True) if len(savings) else ""
    return view_html(
        storage.title,
        answer(said),
        frame_html(states),
        fold("Files", f"{requests} of an object store", frame_html(files)),
        saving,
    )


def verification_html(found: Verification) -> str:
    """Show the verdict, what is damaged or was not read, and, folded, all files."""
    rows = [*found.damaged, *found.not_read]
    problems = rows_html(
        ("", "operator", "subtask", "state", "problem"),
        [(str(each.result), each.operator, str(each.subtask), each.kind, each.problem) for each in rows],
        marks=["bad" if each.result == "damaged" else "waits" for each in rows],
    )
    files = found.files.drop(columns="problem")
    return view_html(
        f"{found.title}: verified",
        answer(f"{found.verdict}.", "bad" if found.damaged else "waits" if found.not_read else "good"),
        problems if rows else "",
        fold("Files", f"{files['file'].nunique()}", frame_html(files)),
    )


def restore_check_html(check: RestoreCheck) -> str:
    """Show the verdict, the findings with their remedies, and, folded, the operators and who gets what."""
    from kit.restore_check import Severity

    meanings = {Severity.FAILS: "bad", Severity.WARNS: "waits", Severity.TELLS: ""}
    worst = check.findings[0].severity if check.findings else Severity.TELLS
    listed = [(each.finding, each.whose) for each in check.shared_findings]
    findings = rows_html(
        ("", "operator", "found", "rows", "what to do"),
        [(str(each.severity), whose, each.found, str(each.effect), each.fix) for each, whose in listed],
        marks=[meanings[each.severity] for each, _ in listed],
    )
    said = [each for each in check.findings if each.flink]
    flink = rows_html(("operator", "Flink fails with"), [(each.operator, each.flink) for each in said])
    many = len(check.assignments)
    assigned = fold("Who gets what", f"{many} rows", frame_html(check.assigned)) if many else ""
    return view_html(
        "Will it restore?",
        answer(check.verdict + ".", meanings[worst] or "good"),
        findings,
        fold("Flink's words", f"{len(said)}", flink) if said else "",
        fold("Operators", f"{len(check.matches)} on both sides", frame_html(check.operators)),
        assigned,
    )


def plan_html(plan: ParallelismPlan) -> str:
    """Show the recommendation, the candidates, the hottest key groups and keys."""
    groups = plan.hot_groups()
    groups = groups.assign(share=[f"{share:.2%}" for share in groups["share"]])
    keys = rows_html(("key", "share"), [(str(key), f"{share:.2%}") for key, share in plan.keys])
    return view_html(
        "Parallelism and its maximum",
        answer(plan.verdict),
        frame_html(plan.table),
        fold("Hottest key groups", f"of {len(plan.loads[plan.recommended_max_parallelism]):,}", frame_html(groups)),
        fold("Largest keys", f"{len(plan.keys)}", keys) if plan.keys else "",
    )


def advice_html(advice: Advice) -> str:
    """Show the verdict, the share of each phase, and the remedies."""
    shares = [
        (name, f"{advice.shares[phase]:.0%}", "█" * round(30 * advice.shares[phase])) for phase, name in _PHASES.items()
    ]
    remedies = rows_html(
        ("symptom", "where", "what the figures say", "what to do", "Flink's page"),
        [(each.symptom, each.where, each.told, each.do, each.page) for each in advice.remedies],
    )
    return view_html(
        f"Checkpoints of {advice.name}",
        answer(advice.verdict, "waits" if advice.remedies else "good"),
        rows_html(("phase of the slowest subtasks", "share", ""), shares) if any(advice.shares.values()) else "",
        remedies or words("Nothing to do."),
    )
