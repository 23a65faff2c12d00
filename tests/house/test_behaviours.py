"""Marks name behaviours there are, and the report counts them."""

from __future__ import annotations

from tests.behaviours import Mark, catalogue, marks, marks_in, mistakes, reasons, report

KNOWN = {"ATest.one": "1 First", "ATest.two": "1 First", "BTest.one": "2 Second"}


def test_every_mark_names_a_catalogued_behaviour() -> None:
    assert mistakes(marks(), catalogue(), reasons()) == []


def test_the_catalogue_is_whole() -> None:
    known = catalogue()
    assert len(known) == 739
    assert len(set(known.values())) == 14


def test_marks_are_found_wherever_they_stand() -> None:
    source = """
import pytest
pytestmark = pytest.mark.flink("ATest.one")

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.flink("ATest.two"))])
@pytest.mark.flink("BTest.one", "BTest.two")
def test_x(x): ...
"""
    found = [mark.name for mark in marks_in("tests/test_x.py", source)]
    assert sorted(filter(None, found)) == ["ATest.one", "ATest.two", "BTest.one", "BTest.two"]


def test_a_mark_without_a_catalogued_name_is_a_mistake() -> None:
    source = "import pytest\nm = [pytest.mark.flink(NAME), pytest.mark.flink(), pytest.mark.flink('ATest.three')]"
    found = list(marks_in("tests/test_x.py", source))
    assert len(mistakes(found, KNOWN)) == len(found) == 3
    assert mistakes([Mark("tests/test_x.py:1", "ATest.one")], KNOWN) == []


def test_a_reason_is_for_a_catalogued_behaviour_that_is_not_pinned() -> None:
    found = [Mark("tests/test_x.py:1", "ATest.one")]
    assert mistakes(found, KNOWN, ["ATest.two"]) == []
    assert len(mistakes(found, KNOWN, ["ATest.one", "ATest.three"])) == 2


def test_the_report_gives_reasons() -> None:
    lines = report([Mark("a", "ATest.one")], KNOWN, {"ATest.two": "there is no two"}, name_missing=True).split("\n")
    assert [" ".join(line.split()) for line in lines] == [
        "1 of 2, 1 cannot be 1 First",
        "ATest.two: there is no two",
        "0 of 1 2 Second",
        "BTest.one",
        "1 of 3, 1 cannot be together",
    ]


def test_the_report_counts_each_behaviour_once() -> None:
    found = [Mark("a", "ATest.one"), Mark("b", "ATest.one")]
    lines = report(found, KNOWN, name_missing=True).split("\n")
    assert [" ".join(line.split()) for line in lines] == [
        "1 of 2 1 First",
        "ATest.two",
        "0 of 1 2 Second",
        "BTest.one",
        "1 of 3 together",
    ]
