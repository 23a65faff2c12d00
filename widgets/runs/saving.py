"""The run of a session as a file: a page, a scenario or a trace."""

from __future__ import annotations

from pathlib import Path

from kit.core.markup import Markup
from kit.course.missions.mission_page import mission_notes
from kit.draw.page.page import export_html
from kit.hosts.lab import save_scenario
from kit.run.run import run_of
from widgets.runs.session import Session


def save(session: Session, path: str) -> Path:
    """Write the shown run as a page (`.html`), a scenario (`.scenario`) or a trace (`.jsonl`). Raises ValueError for
    another suffix.
    """
    suffix, run = Path(path).suffix, session.run
    if suffix == ".html":
        return export(session, path)
    if suffix == ".scenario":
        if run.lab is None:
            raise ValueError("a scenario is made of a lab's run: this run is recorded, save it as .jsonl")
        return save_scenario(run.lab, path)
    if suffix == ".jsonl":
        return Path(run_of(run.thing).trace.save(path))
    raise ValueError(f"{path!r}: expected a file that ends in .html, .scenario or .jsonl")


def export(session: Session, path: str | Path, title: str = "") -> Path:
    """Write the shown run as one HTML file that works offline, and return its path."""
    run = session.run
    job, _ = run.headline
    status = getattr(run.lab or run.thing, "status", "")
    stood = f"The run had come to {run.end}{f' ({status.lower()})' if status else ''} when this was written"
    opens = "." if run.is_present else f"; it opens at {run.at}."
    return export_html(run.thing, path, title or job, intro=stood + opens, at=run.n, notes=notes(session))


def notes(session: Session) -> Markup:
    """Return the mission on the shown run, for a page; empty without one."""
    mission = session.mission
    return Markup("") if mission is None else mission_notes(mission, f"The run on this page: {session.verdict()}")
