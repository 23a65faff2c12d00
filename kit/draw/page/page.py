"""A whole run as one HTML file to step through, offline.

The file contains the film of the run, the script that shows it, tables, and a picture of each restore. It makes no
network requests, and its content security policy forbids them.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from kit.core.html_tables import TABLE_CSS, frame_html
from kit.core.trace.json_lines import file_of
from kit.draw.assets import asset, stage_css, stage_js
from kit.draw.page.page_panels import PagePanel, milestones, panels_html, view_panel
from kit.draw.space_time.space_time_data import space_time_data
from kit.draw.space_time.space_time_page import POLICY, space_time_script, space_time_styles
from kit.draw.stage.film import Film, FilmBuilder
from kit.draw.stage.frames import frame_of
from kit.draw.views.rescaling import rescaling
from kit.draw.views.view import View
from kit.draw.views.views import VIEWS
from kit.run.journeys import Follower
from kit.run.moments.job_state import Moment
from kit.run.redistribution import redistribution
from kit.run.run import Run, stepped_run_of
from kit.run.subject import Subject

_PAGE_CSS = """
body { margin: 18px auto; max-width: 1640px; padding: 0 14px; background: var(--kit-paper); color: var(--kit-ink); }
.kit-page-head { display: flex; gap: 14px; align-items: baseline; flex-wrap: wrap; }
.kit-page-head h1 { flex: 1; }
h1 { font-size: 21px; margin: 6px 0; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { font-size: 13.5px; line-height: 1.5; max-width: 70em; }
.picture svg { max-width: 100%; height: auto; }
.kit-tabs { display: flex; flex-wrap: wrap; gap: 4px; margin: 22px 0 8px; border-bottom: 1px solid var(--kit-line-2); }
.kit-tabs button, #theme { font: inherit; font-size: 13.5px; padding: 5px 12px; cursor: pointer; color: var(--kit-ink);
  background: var(--kit-card); border: 1px solid var(--kit-line-2); border-radius: 6px; }
.kit-tabs button { border-bottom: 0; border-radius: 6px 6px 0 0; }
.kit-tabs button[aria-selected="true"] { background: var(--kit-accent-fill); border-color: var(--kit-accent); }
#theme:empty { display: none; }
.kit-tabs :focus-visible, #theme:focus-visible { outline: 2px solid var(--kit-accent); outline-offset: 1px; }
.kit-question { font-size: 15px; font-weight: 600; margin: 6px 0; }
.kit-as-of { font-size: 12px; color: var(--kit-quiet); margin: 2px 0 6px; }
.kit-as-of.kit-earlier { font-size: 14px; font-weight: 600; color: var(--kit-ink); }
.kit-as-of.kit-earlier::after { content: attr(data-cursor); }
.kit-piece { overflow-x: auto; }
.kit-mission { border-left: 4px solid var(--kit-accent); padding: 2px 14px; margin: 8px 0 14px; }
.kit-mission summary { cursor: pointer; font-size: 13.5px; padding: 3px 0; }
.kit-mission pre { overflow-x: auto; font-size: 12.5px; padding: 8px 10px; border-radius: 6px;
  background: var(--kit-card); font-family: var(--kit-mono); }
"""

MOST_ROWS = 1_000
"""The number of rows of a table that the page shows."""
MOST_OPENED = 4_000_000
"""The largest total size of the opened vertices in the page, in characters."""
SPACE_TIME = PagePanel("space-time", "Space-time", "Which record is in which checkpoint, and what was in flight?")
_SPACE_TIME_JS = """
const place = document.querySelector("#panel-space-time .kit-piece");
const model = window.kitModel;
let pane = null;
const make = () => {
  const data = JSON.parse(document.getElementById("space-time").textContent);
  pane = new SpaceTimePane(place, data, { go: (n) => model.set("n", n), pick: (name) => model.set("selected", name) });
  pane.show(model.get("n"));
};
model.on("change:n", () => pane?.show(model.get("n")));
document.addEventListener("kit-panel", ({ detail }) => { if (detail === "space-time" && !pane) make(); });
if (!document.getElementById("panel-space-time").hidden) make();
"""


def export_html(
    run: Any,
    path: str | Path,
    title: str = "A run",
    tables: Mapping[str, pd.DataFrame] | None = None,
    intro: str = "",
    views: Sequence[View] = VIEWS,
    at: int = 0,
    notes: str = "",
) -> Path:
    """Write the run as one HTML file and return its path.

    `run` is a Lab, a SparkJob or a Trace. `tables`, by heading, go below the picture, after those of checkpoints and
    restores. `intro` is a sentence or two of plain text above it, and `notes` are markup there. `views` become tabs
    beside the space-time diagram, drawn at the milestones of the run. The page opens after the first `at` records, and
    has a picture of that moment.

    Raises FileNotFoundError when the file's directory does not exist.
    """
    target = file_of(path)
    target.write_text(page_html(run, title, tables, intro, views, at, notes), encoding="utf-8")
    return target


def scenario_pages(scenario: Any) -> list[str]:
    """Return the pages on which a scenario can be stepped through, one for each of its runs."""
    return [page_html(run, scenario.text.title, intro=scenario.text.question) for run in scenario.runs]


def page_html(
    run: Any,
    title: str = "A run",
    tables: Mapping[str, pd.DataFrame] | None = None,
    intro: str = "",
    views: Sequence[View] | None = None,
    at: int = 0,
    notes: str = "",
) -> str:
    """Return the page that `export_html` writes; if `views` is None, only the stage and the tables."""
    thing, run = run, stepped_run_of(run)
    builder = FilmBuilder()
    builder.take(run)
    film, whole = builder.film, builder.film["frames"][-1]["n"]
    reading = builder.reading
    last = reading.moment_at(whole)
    styles: set[str] = set()
    below, data = "", [_data("film", film | {"edition": 0, "opens": at, "opened": _opened(run, film)})]
    if views is not None:
        turns = milestones(film, at)
        follower = Follower()
        subjects = {n: Subject(thing, n, follower=follower) for n in turns}
        panels = [SPACE_TIME, *(view_panel(view, subjects, turns) for view in views)]
        below = panels_html(panels, styles)
        data.append(_data("space-time", space_time_data(run)))
    stage = stage_js().replace("export default {", "const stage = {")
    scripts = [f"{stage}\n{{\n{asset('page_theme.js')}{asset('page.js')}}}"]
    if views is not None:
        styles.add(space_time_styles())
        scripts.append(f"{space_time_script()}{_SPACE_TIME_JS}")
    still = frame_of(reading, run.stages, whole).svg()
    body = (
        f"{f'<p>{escape(intro)}</p>' if intro else ''}{notes}"
        f'<div id="stage"><noscript>{still}</noscript></div>{below}'
        f"{_tables(run, last, tables or {}, pictures=views is None)}{''.join(data)}"
    )
    return document_html(title, f"{stage_css()}{''.join(sorted(styles))}", body, scripts)


def _opened(run: Run, film: Film) -> dict[str, str]:
    """Return, by vertex in the order of the job, the film with that vertex open, compressed and in base64, as many as
    `MOST_OPENED` allows. A page has them because it has no kernel to draw a vertex when it is opened.

    Each is `{"stages", "looks", "sets"}`, where `sets` has the `set` of each frame of the film.
    """
    found: dict[str, str] = {}
    room = MOST_OPENED
    for vertex in dict.fromkeys(name for stage in film["stages"] for name in stage["closed"]):
        builder = FilmBuilder([vertex])
        builder.take(run)
        sprites = {name: builder.film[name] for name in ("stages", "looks")}
        sprites["sets"] = [frame["set"] for frame in builder.film["frames"]]
        written = json.dumps(sprites, separators=(",", ":"), ensure_ascii=False).encode()
        packed = b64encode(zlib.compress(written)).decode()
        room -= len(packed)
        if room < 0:
            break
        found[vertex] = packed
    return found


def document_html(title: str, styles: str, body: str, scripts: Iterable[str]) -> str:
    """Return a whole page with a heading and the button for the theme; `scripts` are modules."""
    modules = "".join(f'<script type="module">{script}</script>' for script in scripts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{styles}{TABLE_CSS}{_PAGE_CSS}</style></head>"
        f'<body class="kit-picture"><div class="kit-page-head"><h1>{escape(title)}</h1>'
        f'<button type="button" id="theme" title="light or dark"></button></div>'
        f"{body}{modules}</body></html>"
    )


def _data(name: str, data: Any) -> str:
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return f'<script type="application/json" id="{name}">{written}</script>'


def checkpoints_table(last: Moment) -> pd.DataFrame:
    """Return one row per checkpoint: its outcome, duration (ms), size (bytes), and why it was aborted."""
    rows = [
        {
            "checkpoint": checkpoint.checkpoint_id,
            "kind": "savepoint" if checkpoint.savepoint else "checkpoint",
            "status": checkpoint.status,
            "triggered_ms": checkpoint.triggered_ms,
            "duration_ms": checkpoint.duration_ms,
            "acknowledged": f"{len(checkpoint.expected) - len(checkpoint.missing)} of {len(checkpoint.expected)}",
            "size_bytes": checkpoint.size_bytes,
            "reason": checkpoint.reason,
        }
        for checkpoint in last.checkpoints.values()
    ]
    columns = ["checkpoint", "kind", "status", "triggered_ms", "duration_ms", "acknowledged", "size_bytes", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"duration_ms": "Int64", "size_bytes": "Int64"})


def _tables(run: Run, last: Moment, tables: Mapping[str, pd.DataFrame], *, pictures: bool) -> str:
    parts = ["<h2>Checkpoints</h2>", frame_html(checkpoints_table(last), MOST_ROWS)]
    for restore in last.restores if pictures else ():
        parts.append(f"<h2>Restore in epoch {restore.epoch}, from checkpoint {restore.checkpoint_id}</h2>")
        parts.append(f'<div class="picture">{rescaling(run, restore.epoch).svg()}</div>')
    restored = redistribution(run)
    if len(restored):
        parts += ["<h2>The state that each restore assigned</h2>", frame_html(restored, MOST_ROWS)]
    for heading, frame in tables.items():
        parts += [f"<h2>{escape(heading)}</h2>", frame_html(frame, MOST_ROWS)]
    return "".join(parts)
