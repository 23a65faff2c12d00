"""Records as nodes of ZooKeeper: `<root>/<job id>/checkpoints/<id>`, `<root>/<job id>/checkpointID`, as in Flink.

A connection is made at the first use and kept. An operation whose connection broke is tried again. If it is unknown
whether a write was carried out, the node is read, and only if that fails as well is the outcome unknown. The counter is
changed by compare-and-set on the node's version, so no two drivers ever get the same id.

The node `leader` holds the fencing token. A driver takes over by setting it. Every change that a driver makes is one
transaction with a check that the node still has the version which that driver gave it. So ZooKeeper itself rejects what
a frozen driver sends when it wakes up, whatever the state of its session. (Flink's leader latch is an ephemeral node,
which says who leads but does not guard against what a former leader has already sent.)

Follows Flink's `ZooKeeperStateHandleStore` and `ZooKeeperCheckpointIDCounter`. Flink locks each node that a driver
refers to with an ephemeral child, since a standby may still read it; here a former driver no longer reads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kit.core.extras import install_command
from kit.files.stores.errors import InconsistentStoreError, StoreError
from kit.files.stores.stores import CHECKPOINTS, LEADER, Leader, Records, lost, only_reads

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import (
        BadVersionError,
        ConnectionClosedError,
        ConnectionLoss,
        KazooException,
        NodeExistsError,
        NoNodeError,
        OperationTimeoutError,
        SessionExpiredError,
    )
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.retry import KazooRetry, RetryFailedError
except ImportError as missing:
    raise ImportError(
        f"a store in ZooKeeper needs the client kazoo: {install_command('zookeeper')}, or choose store='filesystem'"
    ) from missing

CONNECT_S = 10.0
"""The time within which ZooKeeper must answer."""
SESSION_S = 10.0
TRIES = 4
RECONNECT = {"max_tries": 6, "delay": 0.1, "max_delay": 2.0}
"""The number of attempts to reach a server, after which an operation fails instead of waiting forever."""
UNKNOWN = (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    RetryFailedError,
    KazooTimeoutError,
)
"""Errors that leave open whether the server has carried out the operation."""

T = TypeVar("T")


class ZooKeeperRecords(Records):
    """Records below the node `root`. `hosts` are servers, `host:port,host:port`.

    Flink: `ZooKeeperCompletedCheckpointStore` (1.11) and `ZooKeeperCheckpointIDCounter`.
    """

    def __init__(self, hosts: str, root: str) -> None:
        self._hosts = hosts
        self._root = root
        self._client: Any = None
        self._led: int | None = None
        """The version of the leader's node while this driver leads."""

    def lead(self, driver: str) -> None:
        """Set the leader's node, with the next token."""
        self._led = None
        self._call(lambda client: client.ensure_path(self._path(CHECKPOINTS)))
        wanted: Leader | None = None
        while self._led is None:
            data, version = self._call(lambda client: self._get(client, LEADER))
            found = None if data is None else Leader.decode(data)
            if wanted is not None and found == wanted:
                self._led = version
                return
            wanted = Leader(1 if found is None else found.token + 1, driver)
            with suppress(InconsistentStoreError):  # the next read shows if it succeeded
                self._led = self._call(partial(self._set_leader, wanted, version))

    def _set_leader(self, leader: Leader, version: int, client: Any) -> int | None:
        """Set the leader's node if it still has this version; return the new one, None if another driver was faster."""
        try:
            if version < 0:
                client.create(self._path(LEADER), leader.encode())
                return 0
            return int(client.set(self._path(LEADER), leader.encode(), version=version).version)
        except (BadVersionError, NodeExistsError):
            return None

    def leader(self) -> Leader | None:
        return self._call(self._leader_of)

    def read(self, name: str) -> bytes | None:
        return self._call(lambda client: self._checked(client, self._get(client, name)[0]))

    def write(self, name: str, data: bytes) -> None:
        """Set the node's data, or create it."""
        try:
            self._call(lambda client: self._put(client, name, data))
        except InconsistentStoreError as unknown:
            try:
                there = self.read(name) == data
            except StoreError:
                there = False
            if not there:  # yet: what was sent before the connection broke may still arrive
                raise unknown from None

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Set the node's data unless another client has set it meanwhile: then start again."""

        def attempt(client: Any) -> bytes | None:
            found, version = self._get(client, name)
            data = change(found)
            try:
                if found is None:
                    self._guarded(client, lambda guarded: guarded.create(self._path(name), data))
                else:
                    self._guarded(client, lambda guarded: guarded.set_data(self._path(name), data, version=version))
            except (BadVersionError, NodeExistsError):
                return None
            return data

        while (done := self._call(attempt)) is None:
            pass
        return done

    def remove(self, name: str) -> None:
        def attempt(client: Any) -> None:
            with suppress(NoNodeError):
                self._guarded(client, lambda guarded: guarded.delete(self._path(name)))

        self._call(attempt)

    def names(self, below: str) -> list[str]:
        def attempt(client: Any) -> list[str]:
            try:
                children = client.get_children(self._path(below))
            except NoNodeError:
                children = []
            return self._checked(client, sorted(children))

        return self._call(attempt)

    def close(self) -> None:
        """End the session."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _get(self, client: Any, name: str) -> tuple[bytes | None, int]:
        try:
            data, stat = client.get(self._path(name))
        except NoNodeError:
            return None, -1
        return data, stat.version

    def _put(self, client: Any, name: str, data: bytes) -> None:
        path = self._path(name)
        try:
            self._guarded(client, lambda guarded: guarded.set_data(path, data))
        except NoNodeError:
            with suppress(NodeExistsError):  # an earlier attempt created it after all
                self._guarded(client, lambda guarded: guarded.create(path, data))

    def _guarded(self, client: Any, change: Callable[[Any], None]) -> None:
        """Make a change in one transaction, if this driver still leads. Raises ZooKeeper's error."""
        if self._led is None:
            raise only_reads(self)
        transaction = client.transaction()
        transaction.check(self._path(LEADER), version=self._led)
        change(transaction)
        checked, changed = transaction.commit()
        if isinstance(checked, BadVersionError | NoNodeError):
            raise lost(self, self._leader_of(client))
        if isinstance(changed, Exception):
            raise changed

    def _checked(self, client: Any, read: T) -> T:
        """Return what was read, if this driver still leads or never has."""
        if self._led is not None and self._get(client, LEADER)[1] != self._led:
            raise lost(self, self._leader_of(client))
        return read

    def _leader_of(self, client: Any) -> Leader | None:
        data, _ = self._get(client, LEADER)
        return None if data is None else Leader.decode(data)

    def _call(self, operation: Callable[[Any], T]) -> T:
        """Try an operation, again if the connection breaks; it must be idempotent."""
        client = self._connected()
        try:
            return KazooRetry(max_tries=TRIES, delay=0.1, max_delay=1.0)(operation, client)
        except UNKNOWN as error:
            self.close()
            raise InconsistentStoreError(
                f"{self!r} does not answer: {type(error).__name__} {error}".rstrip()
            ) from error
        except KazooException as error:
            raise StoreError(f"{self!r} refuses: {type(error).__name__} {error}".rstrip()) from error

    def _connected(self) -> Any:
        if self._client is None:
            client = KazooClient(hosts=self._hosts, timeout=SESSION_S, connection_retry=RECONNECT)
            try:
                client.start(timeout=CONNECT_S)
            except KazooTimeoutError as error:
                client.stop()
                client.close()
                raise StoreError(
                    f"ZooKeeper at {self._hosts} cannot be reached within {CONNECT_S:g} s: is it running, and is the "
                    "address right?"
                ) from error
            self._client = client
        return self._client

    def __repr__(self) -> str:
        return f"zookeeper://{self._hosts}{self._root}"
