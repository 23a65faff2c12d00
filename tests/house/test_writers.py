"""One writer for each field: the coordinator's parts and the JobMaster's change nothing of each other's directly."""

from __future__ import annotations

import pytest

from tests.house.files import read, shipped
from tests.house.writers import foreign_writes

ROOMS = ("kit/machines/coordinator/", "kit/machines/job/")


@pytest.mark.parametrize("path", [path for path in shipped() if path.startswith(ROOMS)])
def test_a_field_is_written_where_its_class_is(path: str) -> None:
    assert list(foreign_writes(read(path))) == []


def test_a_foreign_write_is_found() -> None:
    source = """
class Own:
    size: int
    def __init__(self, other):
        self.name = ""
        other.name, other.size = "", 0
        other.label = ""
        self.part.count += 1
        for other.at in (): pass
"""
    assert [found.split(": ")[1] for found in foreign_writes(source)] == ["other.label", "self.part.count", "other.at"]
