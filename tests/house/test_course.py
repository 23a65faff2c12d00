"""The pages of the course, and the deck of slides: nothing is missing, and nothing of the teachers is in them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from scripts.labs import labs
from scripts.site import course, pages
from scripts.site.api import ROOT
from scripts.slides import SLIDES, notes, page, scalable

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_a_slide_has_a_picture_and_its_notes() -> None:
    figures = [slide for slide in SLIDES if slide.name in {"cuts", "alignment", "key-groups"}]
    deck = page(figures, {slide.name: scalable(str(slide.draw())) for slide in figures})
    assert deck.count("<section>") == deck.count("<aside>") == deck.count("viewBox") == 3
    for slide in SLIDES:
        assert slide.says
        assert slide.asks.endswith("?")
        assert slide.title in notes(SLIDES)
        assert any(path.stem.startswith(slide.reads) for path in NOTEBOOKS)
    assert len({slide.name for slide in SLIDES}) == len(SLIDES)


def test_a_picture_fills_its_slide() -> None:
    assert scalable('<svg width="40" height="30"><g/></svg>').startswith(
        '<svg width="40" height="30" viewBox="0 0 40 30">'
    )
    assert scalable('<svg viewBox="0 0 1 1"></svg>') == '<svg viewBox="0 0 1 1"></svg>'


def test_the_index_of_the_course_has_each_notebook_with_its_question() -> None:
    text = course.index(NOTEBOOKS)
    about = tomllib.loads(course.COURSE.read_text("utf-8"))
    assert set(about) == {path.stem for path in NOTEBOOKS}
    for path in NOTEBOOKS:
        assert about[path.stem]["question"] in text
        assert course.minutes(path) % 5 == 0
        assert set(about[path.stem]["needs"]) < set(about)


def test_the_labs_of_the_site_have_no_solutions() -> None:
    made = dict(course.lab_pages())
    for lab in labs():
        shown = made[f"labs/{lab.name}.ipynb"]
        assert "YOUR CODE HERE" in shown
        assert "SOLUTION" not in shown
        assert f"[{lab.title}]({lab.name}.ipynb)" in made["labs/index.md"]


def test_what_only_teachers_have_is_not_on_the_site() -> None:
    exam = (ROOT / "notebooks" / "labs" / "teacher" / "exam.md").read_text("utf-8")
    assert "Answer" in exam
    answers = [line for line in exam.splitlines() if line.startswith("*Answer.*")]
    written = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert answers
    assert not any(line in written for line in answers)


def test_minutes_are_those_of_the_index() -> None:
    assert course.with_minutes("{{minutes 00 01}} min") == f"{sum(map(course.minutes, NOTEBOOKS[:2]))} min"


def test_sixty_terms_have_a_sentence_and_the_figures_there_are() -> None:
    text = (ROOT / "docs" / "TERMS.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "| meaning |" not in line]
    assert len(rows) >= 60
    assert all(len(row) == 2 and row[1].rstrip(" |").endswith(".") for row in rows)
    assert len({row[0] for row in rows}) == len(rows)
    assert pages.with_pictures(text).count("<svg") == len(pages.FIGURES)


def test_a_page_of_a_scenario_has_a_picture(tmp_path: Path) -> None:
    one = {"late-ack": pages.all_scenarios()["late-ack"]}
    found = dict(pages.scenarios(tmp_path, one.values()))
    assert found["late-ack"].count("<svg") == 1
