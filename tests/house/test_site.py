"""The documentation's site: its links work, and it omits nothing of the kit."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.draw.assets import asset
from kit.stream.settings import job_settings
from kit.stream.settings.setting_rules import rules_of
from scripts.site import api, links, notebooks, pages, places
from scripts.site.__main__ import Site, theme
from scripts.site.api import ROOT
from tests.words import words


def site(tmp_path: Path, **files: str) -> list[str]:
    for name, html in files.items():
        (tmp_path / f"{name}.html").write_text(html)
    return list(links.faults(tmp_path))


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    there = "<h1 id='here'>T</h1><a href='#here'></a><a href='other.html#place'></a><a href='https://elsewhere'></a>"
    assert site(tmp_path, one=there, other="<p id='place'>") == []
    assert site(tmp_path, one="<a href='none.html'>") == ["one.html: none.html leads nowhere"]
    assert site(tmp_path, one="<a href='other.html#nowhere'>") == [
        "one.html: other.html#nowhere: there is no such place"
    ]


def test_a_page_that_asks_another_host_is_found(tmp_path: Path) -> None:
    assert site(tmp_path, one="<script src='https://elsewhere/x.js'>") == ["one.html: loads https://elsewhere/x.js"]
    assert site(tmp_path, one="<img src='//elsewhere/x.png'>") == ["one.html: loads //elsewhere/x.png"]


def test_the_documents_lead_to_places_of_the_site() -> None:
    found = dict(pages.documents())
    assert set(found) == set(places.DOCUMENTS.values())
    assert "(../api/kit.core.protocol.md#kit.core.protocol.messages)" in found["reference/glossary"]
    assert "(../scenarios/late-ack.md)" in found["scenarios/index"]
    assert "mermaid" not in found["reference/state-machines"]
    assert "RESTARTING" in " ".join(words(found["reference/state-machines"]))


def test_a_documents_link_that_leads_nowhere_is_refused_and_one_out_of_the_site_is_told() -> None:
    notebook = "notebooks/00-tour.ipynb"
    assert places.relinked("[a](../ARCHITECTURE.md#one-idea)", ROOT / "notebooks", notebook) == (
        "[a](../reference/architecture.md#one-idea)"
    )
    assert places.relinked("[a](../examples/external_log.py)", ROOT / "notebooks", notebook) == (
        "a (`examples/external_log.py`)"
    )
    assert places.relinked("[a](https://b)", ROOT, "index") == "[a](https://b)"
    with pytest.raises(ValueError, match="leads nowhere"):
        places.relinked("[a](none.ipynb)", ROOT / "notebooks", notebook)


def test_every_module_of_a_room_is_on_its_page() -> None:
    for room in ("kit.machines.task", "kit.stream.graph", "widgets.pictures"):
        text = api.page(room)
        for path in api.rooms()[room]:
            assert f"{{py:module}} {api.module_of(path)}\n" in text
    assert "{py:class} CheckpointConfig(interval_ms: int | None = None" in api.page("kit.stream.settings")
    assert "{py:method} refresh() -> Stepper" in api.page("widgets.pictures")
    assert {"kit", "kit.hosts.lab", "kit.hosts.spark"} <= set(api.rooms())


def test_a_docstring_is_shown_as_it_is_written() -> None:
    doc = "Of `a_b` and a_b, *that* one, 2 * 3, <bold>.\n\n    code_here *x*\n    more\n\n# no heading"
    shown = "Of `a_b` and a\\_b, *that* one, 2 \\* 3, \\<bold>.\n\n    code_here *x*\n    more\n\n\\# no heading"
    assert api.plain(doc) == shown


def test_a_docstring_that_tells_of_1_11_links_the_page_on_it() -> None:
    doc = "In 1.11 it is `1.11`, and 1.11.99 or 21.11 are others."
    assert api.plain(doc) == "In [1.11](../guide/flink-1.11.md) it is `1.11`, and 1.11.99 or 21.11 are others."


def test_notebooks_show_what_is_stored_in_them_and_no_bare_widget() -> None:
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        shown = json.loads(notebooks.as_shown(path))
        stored = json.loads(path.read_text(encoding="utf-8"))
        for cell, before in zip(shown["cells"], stored["cells"], strict=True):
            kinds = [kind for output in cell.get("outputs", []) for kind in output.get("data", {})]
            assert not {notebooks.WIDGET, notebooks.PICTURE} & set(kinds)
            assert bool(cell.get("outputs")) == bool(before.get("outputs"))


def test_the_dark_colours_are_the_kits() -> None:
    dark = asset("theme.css").rpartition("{")[2]
    assert theme().count(dark.strip()) == 2
    assert "body[data-theme='auto'] .kit-still" in theme()


def test_every_setting_is_on_the_page_of_settings() -> None:
    sections = dict(section.split("\n", 1) for section in pages.settings().split("\n## ")[1:])
    for kind in job_settings.CLASSES:
        assert [name for name in rules_of(kind) if f"\n| `{name}` |" not in sections[kind.__name__]] == []
    assert set(job_settings.settings_table()["of"]) == {kind.__name__ for kind in job_settings.CLASSES}


def test_a_scenario_that_is_not_played_has_the_page_of_one_that_is_without_its_runs() -> None:
    stored = dict(pages.scenarios_as_stored())
    assert set(stored) == set(pages.all_scenarios())
    assert "kit-outcome" in stored["late-ack"]
    assert "../runs/" not in "".join(stored.values())


def test_make_test_builds_the_site() -> None:
    told = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "scripts.site --quick" in told


CLASSES = """# Classes
```{py:class} Task
:module: kit.machines.task
```
```{py:function} start(task: Task, attempt: int) -> Task
:module: kit.machines.job
```
"""


@pytest.mark.filterwarnings("ignore")  # of Sphinx's extensions among each other
def test_a_warning_ends_every_build_until_it_is_mended(tmp_path: Path) -> None:
    site, source = Site(tmp_path, is_quick=True), tmp_path / "source"
    shutil.copytree(ROOT / "docs" / "site" / "_static", source / "_static")
    shutil.copyfile(ROOT / "docs" / "site" / "conf.py", source / "conf.py")
    index = "# One\n\n[to](other.md){} <a href='none.html'>none</a>\n\n```{{toctree}}\nother\n```\n"
    (source / "index.md").write_text(index.format(" [nowhere](none.md)"))
    (source / "other.md").write_text(CLASSES)
    assert site.build() != 0
    assert site.build() != 0, "Sphinx reads a page once and keeps what it has read"
    (source / "index.md").write_text(index.format(""))
    assert site.build() == 0
    other = (site.html / "other.html").read_text()
    assert other.count('href="#kit.machines.task.Task"') >= 3, (
        "a type in a signature leads to the class in another module"
    )
    assert "index.html: none.html leads nowhere" in list(links.faults(site.html))
