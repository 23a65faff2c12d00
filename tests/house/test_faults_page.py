"""The page of faults shows the tables as they are, all of them."""

from __future__ import annotations

import re

from tests.house.faults_page import PAGE, page
from tests.house.files import ROOT
from tests.house.spark_faults import FAULTS
from tests.mutants.surroundings import SURROUNDINGS


def test_the_page_is_what_the_tables_give() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.house.faults_page"


def test_every_test_that_it_names_is_there() -> None:
    named = {test for fault in FAULTS for test in fault.tests}
    there = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests" / "hosts" / "spark").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert sorted(named - there) == []


def test_each_handling_that_is_taken_out_belongs_to_a_fault() -> None:
    assert {mutant for fault in FAULTS for mutant in fault.mutants} == {name for name, *_ in SURROUNDINGS}
