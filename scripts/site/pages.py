"""Pages made of what the kit knows of itself (settings, scenarios, behaviours, figures), and the documents of
`docs/`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from html import escape
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pandas as pd

from kit.cli.json_output import OUTPUTS, VERSION, json_columns
from kit.core.display import Picture
from kit.draw.assets import asset, light_block
from kit.draw.ideas.ideas import alignment, cuts, key_groups, lifetime, overtaking
from kit.draw.views.state_machines import StateMachine
from kit.hosts.lab import open_scenario
from kit.hosts.lab.scenarios.scenario import Scenario, all_scenarios
from kit.hosts.lab.scenarios.scenario_text import ScenarioText
from kit.stream.settings.job_settings import CLASSES, settings_table
from kit.stream.settings.setting_rules import NOT_HERE
from scripts.site import terms
from scripts.site.api import ROOT, plain
from scripts.site.places import DOCUMENTS, relinked
from scripts.site.terms.pictures import picture
from tests.behaviours import catalogue, marks, reasons
from tests.house.figures import TABLES

SETTINGS = """# Settings

Every setting of checkpointing and of restarts: what it does, its default, what is allowed, and Flink's name for it.
`kit.stream.settings.job_settings.settings_table()` gives the same table. A value that is not allowed is refused where
it is set, with the setting, what was found and what is allowed.
"""

JSON_OUTPUT = """# What `--json` prints

Version {version}. With `--json`, a command of [`kit`](open-a-checkpoint.md) prints a JSON object for each row, one per
line; `--parquet FILE` writes the same columns. A column that is renamed, removed, or gets another type or meaning makes
a new version; new columns may come at the end without one. `kit state`, `kit in-flight` and `kit diff --values` print
rows of state, whose columns are those of the state. `kit.cli.json_output.json_columns()` gives the same table.
"""

FIGURES: dict[str, Callable[[], Any]] = {
    "cuts": cuts,
    "lifetime": lifetime,
    "alignment": alignment,
    "overtaking": overtaking,
    "key_groups": key_groups,
}
"""The figures that a page may ask for with `<!-- picture: name -->`."""
PICTURE = re.compile(r"<!-- picture: (\w+) -->")
TERMS = re.compile(r"^\| term \| meaning \|\n\|---\|---\|\n(?P<rows>(?:\| .*\n)+)", re.MULTILINE)
OWN_RULES = Path(terms.__file__).with_name("terms.css")


def documents() -> Iterator[tuple[str, str]]:
    """The repository's own documents, with links to where things are in the site."""
    for source, target in DOCUMENTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = relinked(text, (ROOT / source).parent, target)
        if source.endswith("TERMS.md"):
            text = with_pictures(_with_terms(text))
        if source.endswith("state-machines.md"):
            text = _with_figures(text)
        if target.endswith("decisions/index"):
            text += "\n```{toctree}\n:glob:\n:hidden:\n\n[0-9]*\n```\n"
        yield target, text


def _with_figures(text: str) -> str:
    tables = iter(TABLES.values())
    return re.sub(r"```mermaid\n.*?```", lambda _: _figure(next(tables)), text, flags=re.DOTALL)


def _figure(table: Any) -> str:
    return in_page(StateMachine(table.name, table, {})._repr_html_())


def in_page(html: str) -> str:
    """HTML within a page of Markdown, in one block: an empty line would end it."""
    lines = "\n".join(line for line in html.splitlines() if line.strip())
    return f'```{{raw}} html\n<div class="kit-shown">{lines}</div>\n```'


def with_pictures(text: str) -> str:
    """Return a page with the figures that it asks for. Raises KeyError for one that does not exist."""
    return PICTURE.sub(lambda found: in_page(str(FIGURES[found[1]]())), text)


def _with_terms(text: str) -> str:
    """Return the page of terms with a picture beside each sentence."""
    return TERMS.sub(lambda found: _terms(found["rows"]), text)


def _terms(rows: str) -> str:
    lines = [":::{list-table}", ":header-rows: 1", ":class: kit-terms", "", "* - term", "  - meaning", "  - picture"]
    for row in rows.splitlines():
        term, meaning = (cell.strip() for cell in row.strip("| ").split(" | "))
        lines += [f"* - {term}", f"  - {meaning}", "  - ```{raw} html", f"    {picture(term)}", "    ```"]
    return "\n".join([*lines, ":::", ""])


def terms_css() -> str:
    """Return the style sheet of the pictures beside the terms: the light colours, and the rules of their parts."""
    return "\n".join([light_block(), asset("stage.css"), asset("ideas.css"), OWN_RULES.read_text(encoding="utf-8")])


def settings() -> str:
    """All settings, class by class, with what may not be set here and why."""
    text = SETTINGS
    table = settings_table()
    for kind in CLASSES:
        text += f"\n## {kind.__name__}\n\n{plain(cleandoc(kind.__doc__ or ''))}\n\n"
        text += _table(table.loc[table["of"] == kind.__name__, ["setting", "default", "allowed", "flink"]])
    text += "\n## Options of Flink's that are not here\n\n"
    return text + _table(pd.DataFrame(sorted(NOT_HERE.items()), columns=["flink", "why not"]), code=("flink",))


def json_output() -> str:
    """All columns that `kit ... --json` prints, command by command."""
    text, table = f"{JSON_OUTPUT.format(version=VERSION)}", json_columns()
    for command in OUTPUTS:
        text += f"\n## {command}\n\n{_table(table.loc[table['command'] == command, ['column', 'type', 'meaning']])}"
    return text


def behaviours() -> str:
    """Return the behaviours that Flink's tests pin, area by area, with our tests that pin them."""
    pinned = defaultdict(set)
    for mark in marks():
        if mark.name:
            pinned[mark.name].add(mark.where.partition(":")[0])
    areas: dict[str, list[str]] = defaultdict(list)
    for name, area in catalogue().items():
        areas[area].append(name)
    why = reasons()
    total = sum(name in pinned for names in areas.values() for name in names)
    text = f"# Behaviours\n\nFlink's own tests pin {sum(map(len, areas.values()))} behaviours of checkpointing. "
    text += f"{total} of them are pinned by a test of ours; the others stand with the reason why they cannot be. "
    text += "`make behaviours` counts them.\n"
    for area, names in areas.items():
        rows = [
            (name, ", ".join(f"`{where}`" for where in sorted(pinned[name])) or why.get(name, "")) for name in names
        ]
        text += f"\n## {area}\n\n{sum(name in pinned for name in names)} of {len(names)}\n\n"
        text += _table(pd.DataFrame(rows, columns=["behaviour", "pinned by"]), code=("behaviour",))
    return text


def _table(rows: pd.DataFrame, code: tuple[str, ...] = ("setting", "default", "flink")) -> str:
    head = f"| {' | '.join(rows.columns)} |\n|{'---|' * len(rows.columns)}\n"
    return head + "".join(
        f"| {' | '.join(_cell(value, name in code) for name, value in zip(rows.columns, row, strict=True))} |\n"
        for row in rows.itertuples(index=False)
    )


def _cell(value: object, is_code: bool) -> str:
    text = str(value).replace("|", "\\|")
    return f"`{text}`" if is_code and text else text


def scenarios(runs: Path, chosen: Iterable[ScenarioText] | None = None) -> Iterator[tuple[str, str]]:
    """Yield a page for each scenario as it came out. Write its picture and pages to step through, one for each run of
    it, into `runs`.

    `chosen` are some scenarios instead of all.
    """
    runs.mkdir(parents=True, exist_ok=True)
    for scenario in all_scenarios().values() if chosen is None else chosen:
        whole = open_scenario(scenario.name)
        drawn = _picture(whole)
        whole.run()
        steps = [f"{scenario.name}{f'-{n}' if n else ''}.html" for n in range(len(whole.runs))]
        for name, page in zip(steps, whole.pages(), strict=True):
            (runs / name).write_text(page, encoding="utf-8")
        if drawn is not None:
            drawn.save(runs / f"{scenario.name}.svg")
        yield scenario.name, _scenario(whole.as_run, steps, in_page(str(drawn)) if drawn is not None else "")


def scenarios_as_stored() -> Iterator[tuple[str, str]]:
    """A page for each scenario with the outcomes that are stored in it; nothing is run, so none leads to a run."""
    yield from ((scenario.name, _scenario(scenario, [])) for scenario in all_scenarios().values())


def _picture(whole: Scenario) -> Picture | None:
    """Run a scenario to the last block in which its job still runs, and return the job's picture there."""
    found = None
    for _ in whole.text.blocks:
        whole.next()
        lab = whole.lab
        if lab is not None and (found is None or not lab.ended):
            found = lab.look.svg()
    return found


def gallery(text: str, *, has_pictures: bool) -> str:
    """Return the page of scenarios with a card for each in place of the table: its picture, title and question.

    The pictures are those that `scenarios` writes; without them, a card has only words.
    """
    cards = "\n".join(_card(each, has_pictures=has_pictures) for each in all_scenarios().values())
    before, head, _ = text.partition("| scenario | question |\n")
    if not head:
        raise ValueError("the page of scenarios has no table of them: run python -m scripts.scenarios --rewrite")
    return f'{before}```{{raw}} html\n<div class="kit-gallery">\n{cards}\n</div>\n```\n'


def _card(scenario: ScenarioText, *, has_pictures: bool) -> str:
    title, question = escape(scenario.title), escape(scenario.question)
    source = f"../runs/{scenario.name}.svg"
    shown = f'<img src="{source}" alt="The job in: {title}" loading="lazy">' if has_pictures else ""
    return f'<a href="{scenario.name}.html">{shown}<b>{title}</b><span>{question}</span></a>'


def _scenario(scenario: ScenarioText, steps: list[str], shown: str = "") -> str:
    lines = [f"---\norphan: true\n---\n\n# {scenario.title}\n\n**{scenario.question}**\n"]
    for n, name in enumerate(steps, 1):
        which = f", run {n} of {len(steps)}" if len(steps) > 1 else ""
        lines.append(f'<a class="kit-step" href="../runs/{name}">Step through it{which}</a>')
    lines.append(
        f'\n`open_scenario("{scenario.name}")` runs it in a notebook, on the job `{scenario.job}`. '
        "[All scenarios](index.md)\n"
    )
    if shown:
        lines.append(f"{shown}\n\n*The job at the last moment of the scenario at which it runs.*\n")
    for block in scenario.blocks:
        lines.append(f"{plain(block.prose)}\n")
        commands = "\n".join(command.text for command in block.commands)
        lines.append(f"```text\n{commands}\n```\n")
        if block.outcome:
            outcome = "\n".join(block.outcome)
            lines.append(f"```{{code-block}} text\n:class: kit-outcome\n\n{outcome}\n```\n")
    if scenario.flink:
        lines.append(
            "Behaviours of Flink's that it shows: " + ", ".join(f"`{name}`" for name in scenario.flink) + ".\n"
        )
    return "\n".join(lines)
