"""The advice on a job's checkpoints: where the time goes, as a bar, and what helps."""

from __future__ import annotations

from kit.advice import Advice
from kit.draw.view_html import answer, table, view_html, words

_PHASES = {
    "start_delay_ms": "start delay",
    "alignment_ms": "alignment",
    "sync_ms": "synchronous part",
    "async_ms": "asynchronous part",
}


def advice_html(advice: Advice) -> str:
    """Show the verdict, the share of each phase, and the remedies."""
    shares = [
        (name, f"{advice.shares[phase]:.0%}", "█" * round(30 * advice.shares[phase])) for phase, name in _PHASES.items()
    ]
    remedies = table(
        ("symptom", "where", "what the figures say", "what to do", "Flink's page"),
        [(each.symptom, each.where, each.told, each.do, each.page) for each in advice.remedies],
    )
    return view_html(
        f"Checkpoints of {advice.name}",
        answer(advice.verdict, "waits" if advice.remedies else "good"),
        table(("phase of the slowest subtasks", "share", ""), shares) if any(advice.shares.values()) else "",
        remedies or words("Nothing to do."),
    )
