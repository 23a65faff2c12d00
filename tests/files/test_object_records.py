"""Records in one object, when a put fails and it is unknown what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.core.state.errors import StorageError
from kit.files.storage import CheckpointStorage
from kit.files.stores.errors import InconsistentStoreError, StoreError
from kit.files.stores.object_records import ObjectRecords
from kit.filesystems import object_stores


class Objects:
    """An object store with one object, whose next put or get fails as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data: bytes | None = None
        self.version = 0
        self.on_put: Callable[[bytes], None] = lambda data: None
        self.on_get: Callable[[], None] = lambda: None
        monkeypatch.setattr(object_stores, "get", self._get)
        monkeypatch.setattr(object_stores, "put_if", self._put_if)

    def _get(self, path: str) -> tuple[bytes, Any] | None:
        self.on_get()
        return None if self.data is None else (self.data, self.version)

    def _put_if(self, path: str, data: bytes, version: Any) -> bool:
        self.on_put(data)
        if version != (None if self.data is None else self.version):
            return False
        self.put(data)
        return True

    def put(self, data: bytes) -> None:
        self.data, self.version = data, self.version + 1


def fail(*_: object) -> None:
    raise StorageError("the connection broke")


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    return Objects(monkeypatch)


@pytest.fixture
def records(objects: Objects) -> ObjectRecords:
    found = ObjectRecords(CheckpointStorage("/c", "0" * 32))
    found.lead("driver 1")
    found.write("run", b"one")
    return found


def test_a_put_that_failed_without_effect_is_an_error(records: ObjectRecords, objects: Objects) -> None:
    """The object exists with its old content."""
    objects.on_put = fail
    with pytest.raises(StoreError, match="the connection broke") as raised:
        records.write("run", b"two")
    assert not isinstance(raised.value, InconsistentStoreError)
    assert records.read("run") == b"one"
    objects.on_put = lambda data: None
    records.write("run", b"two")
    assert records.read("run") == b"two"


def test_the_first_put_that_failed_is_an_error_too(objects: Objects) -> None:
    objects.on_put = fail
    with pytest.raises(StoreError, match="the connection broke"):
        ObjectRecords(CheckpointStorage("/c", "0" * 32)).lead("driver 1")
    assert objects.data is None


def test_a_put_whose_answer_was_lost_is_done(records: ObjectRecords, objects: Objects) -> None:
    def put_and_fail(data: bytes) -> None:
        objects.put(data)
        fail()

    objects.on_put = put_and_fail
    records.write("run", b"two")
    objects.on_put = lambda data: None
    assert records.read("run") == b"two"


def test_a_put_of_which_nothing_can_be_learned_is_unknown(records: ObjectRecords, objects: Objects) -> None:
    def fail_from_now_on(data: bytes) -> None:
        objects.on_get = fail
        fail()

    objects.on_put = fail_from_now_on
    with pytest.raises(InconsistentStoreError, match="whether it was written is unknown"):
        records.write("run", b"two")
