"""A whole run as one HTML file to step through, offline.

Everything is inside: the film of the run, the script that shows it, tables, a picture of each restore. The file asks
the network for nothing, and its content security policy says so to the browser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from kit.draw.assets import stage_css, stage_js
from kit.draw.film import film
from kit.draw.frames import last_frame
from kit.draw.job_state import Moment
from kit.draw.moment import moment_at
from kit.draw.redistribution import redistribution, redistribution_svg
from kit.draw.run import Run, run_of

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_PAGE_CSS = """
body { margin: 18px auto; max-width: 1240px; padding: 0 14px; background: #ffffff; color: #1b2430;
  font-family: "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; }
h1 { font-size: 21px; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { font-size: 13.5px; line-height: 1.5; max-width: 70em; }
table { border-collapse: collapse; font-size: 12.5px; } .table { overflow-x: auto; }
th, td { padding: 3px 10px; border-bottom: 1px solid #d5dce4; text-align: right; white-space: nowrap; }
th { background: #f3f6fa; } td.text, th.text { text-align: left; }
.picture svg { max-width: 100%; height: auto; }
"""

_MODEL_JS = """
const film = JSON.parse(document.getElementById("film").textContent);
const model = {
  values: { film, value: Number(location.hash.slice(1)) || 0 },
  get(name) { return this.values[name]; },
  set(name, value) { this.values[name] = value; },
  save_changes() { if (location.protocol !== "about:") history.replaceState(null, "", `#${this.values.value}`); },
  on() {},
  off() {},
};
stage.render({ model, el: document.getElementById("stage") });
document.querySelector(".kit-player").focus({ preventScroll: true });
"""


def export_html(
    run: Any,
    path: str | Path,
    title: str = "A run",
    tables: Mapping[str, pd.DataFrame] | None = None,
    intro: str = "",
) -> Path:
    """Write the run as one HTML file and return its path.

    `run` is a Lab, a SparkJob or a Trace; `tables` go below the picture, by heading, after those of checkpoints and
    restores; `intro` is a sentence or two of plain text above it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page_html(run, title, tables, intro), encoding="utf-8")
    return target


def page_html(
    run: Any,
    title: str = "A run",
    tables: Mapping[str, pd.DataFrame] | None = None,
    intro: str = "",
) -> str:
    """The page that `export_html` writes."""
    run = run_of(run)
    last = moment_at(run)
    script = stage_js().replace("export default {", "const stage = {")
    data = json.dumps(film(run) | {"edition": 0}, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    still = last_frame(run).svg()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{_PAGE_CSS}{stage_css()}</style></head><body>"
        f"<h1>{escape(title)}</h1>{f'<p>{escape(intro)}</p>' if intro else ''}"
        f'<div id="stage"><noscript>{still}</noscript></div>'
        f"{_tables(run, last, tables or {})}"
        f'<script type="application/json" id="film">{data}</script>'
        f'<script type="module">{script}{_MODEL_JS}</script></body></html>'
    )


def checkpoints_table(last: Moment) -> pd.DataFrame:
    """One row per checkpoint: what became of it, how long it took (ms), how large it is (bytes), why it was aborted."""
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


def _tables(run: Run, last: Moment, tables: Mapping[str, pd.DataFrame]) -> str:
    parts = ["<h2>Checkpoints</h2>", table_html(checkpoints_table(last))]
    for restore in last.restores:
        parts.append(f"<h2>Restore in epoch {restore.epoch}, from checkpoint {restore.checkpoint_id}</h2>")
        parts.append(f'<div class="picture">{redistribution_svg(restore)}</div>')
    given = redistribution(run)
    if len(given):
        parts += ["<h2>What each restore gave to whom</h2>", table_html(given)]
    for heading, table in tables.items():
        parts += [f"<h2>{escape(heading)}</h2>", table_html(table)]
    return "".join(parts)


def table_html(table: pd.DataFrame) -> str:
    """A DataFrame as a plain table: numbers to the right, text to the left, nothing for what is missing."""
    head = "".join(f'<th class="{_kind(table[name])}">{escape(str(name))}</th>' for name in table.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{_kind(table[name])}">{escape(_cell(value))}</td>' for name, value in zip(table.columns, row)
        )
        + "</tr>"
        for row in table.itertuples(index=False)
    )
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(column: pd.Series) -> str:
    return "number" if pd.api.types.is_numeric_dtype(column) else "text"


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if value is None or value is pd.NA or (isinstance(value, float) and pd.isna(value)):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
