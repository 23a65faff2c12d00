"""The pages of the course: nothing is missing, and nothing of the teachers is in them."""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

import pytest

from scripts.labs import labs
from scripts.site import course, pages
from scripts.site.api import ROOT
from scripts.site.terms.pictures import PICTURES, picture
from scripts.site.terms.shots import Shot

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


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


def terms() -> dict[str, str]:
    """The terms of the glossary, with their sentences."""
    text = (ROOT / "docs" / "TERMS.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {term: meaning for term, meaning in rows if meaning != "meaning"}


def test_sixty_terms_have_a_sentence_and_a_picture() -> None:
    assert len(terms()) >= 60
    assert all(meaning.endswith(".") for meaning in terms().values())
    assert set(PICTURES) == set(terms())


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """The picture of each term."""
    return {term: picture(term) for term in PICTURES}


def test_a_picture_of_a_term_is_small_and_described_and_no_two_are_the_same(drawn: dict[str, str]) -> None:
    assert len({words.partition(">")[2] for words in drawn.values()}) == len(drawn)
    for term, svg in drawn.items():
        width, height = (float(re.findall(rf' {side}="([\d.]+)"', svg)[0]) for side in ("width", "height"))
        assert width <= 320, term
        assert height <= 160, term
        assert re.findall(r'aria-label="([^"]{20,})"', svg), term


def test_the_colours_of_a_picture_of_a_term_are_those_of_the_theme(drawn: dict[str, str]) -> None:
    css = pages.terms_css()
    for term, svg in drawn.items():
        assert not re.findall(r'(?:fill|stroke)="#', svg), term
        for classes in re.findall(r'<(?:rect|text|path|circle|use)[^>]* class="([^"]+)"', svg):
            assert any(f".{look}" in css for look in classes.split()), (term, classes)


def test_a_moment_that_does_not_show_the_term_is_refused() -> None:
    with pytest.raises(KeyError, match="the moment does not show 'pending0'"):
        Shot("subsumption", 3, ("pending0",)).draw("pending checkpoint", "none is pending")
    with pytest.raises(ValueError, match=r"need .* px"):
        Shot("subsumption", 3, ("jm",)).draw("JobMaster", "the whole panel")


def test_the_site_shows_the_pictures_beside_the_sentences() -> None:
    found = dict(pages.documents())["reference/terms"]
    assert found.count("kit-term ") == len(terms())
    assert found.count("<svg") == len(terms()) + len(pages.FIGURES)
    ids = re.findall(r' id="([^"]+)"', found)
    assert len(set(ids)) == len(ids)


def test_a_page_of_a_scenario_has_a_picture(tmp_path: Path) -> None:
    one = {"late-ack": pages.all_scenarios()["late-ack"]}
    found = dict(pages.scenarios(tmp_path, one.values()))
    assert found["late-ack"].count("<svg") == 1
    assert (tmp_path / "late-ack.svg").read_text("utf-8").startswith("<svg")


def test_the_gallery_has_a_card_for_each_scenario() -> None:
    listed = dict(pages.documents())["scenarios/index"]
    found = pages.gallery(listed, has_pictures=True)
    for scenario in pages.all_scenarios().values():
        assert f'<a href="{scenario.name}.html"><img src="../runs/{scenario.name}.svg"' in found
        assert escape(scenario.question) in found
    assert "| scenario |" not in found
    assert "<img" not in pages.gallery(listed, has_pictures=False)
    with pytest.raises(ValueError, match="has no table"):
        pages.gallery("# Scenarios", has_pictures=True)
