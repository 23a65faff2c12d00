"""Cards of a lab as HTML: a step that was taken, and a block of a scenario with its outcome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from operator import itemgetter

from kit.core.html_tables import rows_html
from kit.core.markup import Markup, element
from kit.draw.picture import in_theme
from kit.draw.stage.frames import moment_svg
from kit.draw.view_html import fold, view_html
from kit.hosts.lab.scenarios.block_run import BlockRun
from kit.hosts.lab.step import Step
from kit.run.captions import caption_of
from kit.run.kinds import BULK, level_of

STYLE = "block_run.css"
SIGNS = {"<": "takes", ">": "gives", "*": "notes", "!": "fault"}
"""The meanings of the signs in an outcome's lines (`kit.hosts.lab.scenarios.scenario_outcome`)."""
MOST_LINES = 4
"""In an outcome with more lines than this, only the lines that matter are shown, and a fold has all."""
MOST_THAT_MATTER = 2
"""The most records that are shown outside the fold."""
MOST_SAID = 12
"""An answer or a table with more lines than this is in the fold."""
_LINE = re.compile(r"(\S.*?) +([<>*!]) (.+)")
_CHECKPOINT = re.compile(r"chk-(\d+)")
_KIND = re.compile(r"\b(?!JobMaster\b)(?:[A-Z][a-z]+){2,}\b")
_CODE = re.compile(r"`([^`]+)`")


def step_html(step: Step) -> str:
    """Show the action and what happened, in sentences. Buffers and credits appear only if nothing else happened."""
    ends = step.stages[-1].ends() if step.stages else {}
    records = [record for record in step.records if level_of(record) > BULK] or step.records
    rows = [[record.machine, caption_of(record, ends), record.kind] for record in records]
    return view_html(f"S{repr(step)[1:]}", rows_html(["who", "what happened", "its name"], rows))


def block_run_html(block_run: BlockRun) -> str:
    """Show a block as a card in the theme's colours. Of a long log, only the lines that matter are not folded."""
    done = "".join(f"<li>{_marked(command.text)}</li>" for command in block_run.block.commands)
    did = f'<ol class="p-done" aria-label="what is done">{done}</ol>'
    came, lines = _came(block_run.outcome), len(block_run.outcome)
    if lines > MOST_LINES:
        came = _came(_that_matter(block_run)) + fold("The whole log", f"{lines} lines", came)
    picture = in_theme(moment_svg(block_run.run))
    title = block_run.title or "A block of a scenario"
    prose = _CODE.sub(r"<code>\1</code>", escape(block_run.block.prose))
    about = f'<p class="v-answer">{prose}</p>' if prose else ""
    return view_html(title, about, did, came, picture, styles=(STYLE,))


def _that_matter(block_run: BlockRun) -> list[str]:
    """Return the lines that matter: answers and tables, unless they are long, faults, and the last records that the
    block's text and commands name. If they name none, these are the last records of all.
    """
    block, outcome = block_run.block, block_run.outcome
    named = set(_KIND.findall(" ".join([block.prose, *(command.text for command in block.commands)])))
    records = [number for number, line in enumerate(outcome) if _split(line)[0]]
    important = [at for at in records if named & set(_KIND.findall(outcome[at])) or SIGNS["!"] in _split(outcome[at])]
    said = set(range(len(outcome))) - set(records)
    shown = {*(important or records)[-MOST_THAT_MATTER:], *(said if len(said) <= MOST_SAID else ())}
    return [outcome[at] for at in sorted(shown)]


def _came(outcome: Sequence[str]) -> str:
    """Return the records as rows, with the machine beside its record; anything else (answers, tables) as lines."""
    rows = []
    for who, lines in groupby(map(_split, outcome), key=itemgetter(0)):
        if who:
            cells = "".join(f'<div class="p-{sign}"><i>{sign}</i> {_marked(what)}</div>' for _, sign, what in lines)
            rows.append(element("tr", element("th", who, scope="row"), element("td", Markup(cells))))
        else:
            said = "".join(f'<p class="p-said">{_marked(what)}</p>' for *_, what in lines)
            rows.append(element("tr", element("td", Markup(said), colspan="2")))
    shown = element("table", *rows, class_="p-came", aria_label="the outcome")
    return element("div", shown, class_="kit-scroll")


def _split(line: str) -> tuple[str, str, str]:
    """Split a record's line into machine, sign and text; any other line is all text."""
    found = _LINE.fullmatch(line)
    return (found[1], SIGNS[found[2]], found[3]) if found else ("", "", line)


def _marked(text: str) -> str:
    """Mark checkpoints in their colours, and Flink's terms in bold."""
    shown = _KIND.sub(r"<b>\g<0></b>", escape(text))
    return _CHECKPOINT.sub(lambda found: f'<span class="p-chk cp{int(found[1]) % 4}">{found[0]}</span>', shown)
