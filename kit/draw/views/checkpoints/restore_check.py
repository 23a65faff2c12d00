"""The check of a checkpoint against a job: the verdict, what to do, and the operators of both sides."""

from __future__ import annotations

from kit.draw.view_html import answer, fold, frame, table, view_html
from kit.restore_check import RestoreCheck, Severity

_MEANINGS = {Severity.FAILS: "bad", Severity.WARNS: "waits", Severity.TELLS: ""}


def restore_check_html(check: RestoreCheck) -> str:
    """Show the verdict, the findings with their remedies, and, folded, the operators and who gets what."""
    worst = check.findings[0].severity if check.findings else Severity.TELLS
    listed = [(each.finding, each.whose) for each in check.shared_findings]
    findings = table(
        ("", "operator", "found", "rows", "what to do"),
        [(str(each.severity), whose, each.found, str(each.effect), each.fix) for each, whose in listed],
        [_MEANINGS[each.severity] for each, _ in listed],
    )
    said = [each for each in check.findings if each.flink]
    flink = table(("operator", "Flink fails with"), [(each.operator, each.flink) for each in said])
    return view_html(
        "Will it restore?",
        answer(check.verdict + ".", _MEANINGS[worst] or "good"),
        findings,
        fold("Flink's words", f"{len(said)}", flink) if said else "",
        fold("Operators", f"{len(check.matches)} on both sides", frame(check.operators)),
        fold("Who gets what", f"{len(check.assignments)} rows", frame(check.assigned)) if check.assignments else "",
    )
