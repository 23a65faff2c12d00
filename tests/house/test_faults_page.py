"""The page of faults shows the tables as they are, all of them."""

from __future__ import annotations

from kit.lab.breakable import Breakable
from tests.house.faults_page import DOORS, PAGE, page


def test_the_page_is_what_the_tables_give() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.house.faults_page"


def test_every_fault_is_on_it() -> None:
    assert set(DOORS) == set(Breakable._BREAK)
