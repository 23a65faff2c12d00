"""The page of state machines shows the tables as they are, all of them."""

from __future__ import annotations

import importlib

from kit.core.protocol.transitions import Transitions
from tests.house.figures import PAGE, TABLES, page
from tests.house.files import shipped


def test_the_page_is_what_the_tables_give() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.house.figures"


def test_every_table_in_the_house_is_drawn() -> None:
    modules = [path[:-3].replace("/", ".") for path in shipped() if "transitions import Transitions" in _source(path)]
    tables = [
        value
        for module in modules
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, Transitions)
    ]
    assert tables
    assert {table.name for table in tables} == {table.name for table in TABLES.values()}


def _source(path: str) -> str:
    return (PAGE.parents[1] / path).read_text()
