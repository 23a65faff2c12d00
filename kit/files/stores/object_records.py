"""Records in one object of an object store, `<base>/<job id>/store.json`, replaced only if it is unchanged.

An object store cannot rename in one step, so all records of a job are in one small object, with the fencing token. Each
change reads the object, checks the token, and puts the new content on the condition that the version is still the one
that was read (`If-Match`). A driver that has lost the leadership finds another token, whenever it wakes up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from kit.core.state.errors import StorageError
from kit.files.storage import CheckpointStorage
from kit.files.stores.errors import InconsistentStoreError, StoreError
from kit.files.stores.stores import Leader, Records, lost, only_reads
from kit.filesystems import object_stores

_TRIES = 50
"""Attempts to replace the object while others replace it."""


@dataclass(slots=True)
class _Content:
    """The content of the object: the leader, and the values by name, as text in which each character is a byte."""

    leader: Leader | None = None
    values: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        leader = None if self.leader is None else asdict(self.leader)
        return json.dumps({"leader": leader, "values": self.values}, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> _Content:
        try:
            fields = json.loads(data)
            leader = fields["leader"]
            return cls(
                None if leader is None else Leader(int(leader["token"]), str(leader["driver"])),
                {str(name): str(value) for name, value in fields["values"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} cannot be read ({error}): {data[:80]!r}; repair or remove it") from error


class ObjectRecords(Records):
    """The records of one job in the object `store.json` of its checkpoint directory, a URI."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._path = f"{storage.job_directory}/store.json"
        self._token: int | None = None

    def lead(self, driver: str) -> None:
        """Put the next token into the object."""

        def take(content: _Content) -> None:
            content.leader = Leader(1 if content.leader is None else content.leader.token + 1, driver)

        self._token = None
        leader = self._change(take).leader
        assert leader is not None
        self._token = leader.token

    def leader(self) -> Leader | None:
        return self._get()[0].leader

    def read(self, name: str) -> bytes | None:
        value = self._own().values.get(name)
        return None if value is None else value.encode("latin-1")

    def write(self, name: str, data: bytes) -> None:
        self.update(name, lambda found: data)

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Put the object with the changed value; read it again if another driver was faster."""

        def put(content: _Content) -> None:
            found = content.values.get(name)
            content.values[name] = change(None if found is None else found.encode("latin-1")).decode("latin-1")

        self._check_leads()
        return self._change(put).values[name].encode("latin-1")

    def remove(self, name: str) -> None:
        self._check_leads()
        if name in self._own().values:
            self._change(lambda content: content.values.pop(name, None))

    def names(self, below: str) -> list[str]:
        prefix = f"{below}/"
        return [name.removeprefix(prefix) for name in self._own().values if name.startswith(prefix)]

    def _get(self) -> tuple[_Content, object]:
        try:
            found = object_stores.get(self._path)
        except StorageError as error:
            raise StoreError(str(error)) from error
        return (_Content(), None) if found is None else (_Content.decode(found[0], self._path), found[1])

    def _own(self) -> _Content:
        content, _ = self._get()
        self._check(content)
        return content

    def _check_leads(self) -> None:
        if self._token is None:
            raise only_reads(self)

    def _check(self, content: _Content) -> None:
        if self._token is not None and (content.leader is None or content.leader.token != self._token):
            raise lost(self, content.leader)

    def _change(self, change: Callable[[_Content], object]) -> _Content:
        """Replace the object by what `change` makes of it."""
        for _ in range(_TRIES):
            content, version = self._get()
            self._check(content)
            change(content)
            data = content.encode()
            try:
                if object_stores.put_if(self._path, data, version):
                    return content
            except StorageError as error:
                self._look_up(data, StoreError(str(error)))
                return content
        raise StoreError(f"{self!r} cannot be changed: others changed it {_TRIES} times meanwhile")

    def _look_up(self, data: bytes, error: StoreError) -> None:
        """Raise `error` if the failed put had no effect, InconsistentStoreError if that is unknown."""
        try:
            found = object_stores.get(self._path)
        except StorageError as again:
            raise InconsistentStoreError(f"{error}; whether it was written is unknown: {again}") from error
        if found is None or found[0] != data:
            raise error

    def __repr__(self) -> str:
        return self._path
