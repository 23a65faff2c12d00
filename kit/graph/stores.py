"""Where a driver may note its completed checkpoints: how each store is named in `CheckpointConfig.store`.

A store in another database is a line in `STORES` and a file with what the line names: a class with the methods of
`kit.host.stores.Records` and `open(address, storage)`, which gets the named parts of the address. What it must do,
`tests/host/contract.py` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

IN_MEMORY = "memory"
"""The store that ends with its driver, and keeps no records."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A way to name a store: an example, the pattern of its address, and the class of its records, by dotted name."""

    example: str
    address: re.Pattern[str]
    records: str


STORES = (
    StoreKind("filesystem", re.compile("filesystem"), "kit.host.file_records.FileRecords"),
    StoreKind(
        "zookeeper://host:port,host:port/root",
        re.compile(r"zookeeper://(?P<hosts>[\w.-]+:\d+(?:,[\w.-]+:\d+)*)(?P<root>(?:/[\w.-]+)+)"),
        "kit.host.zookeeper.ZooKeeperRecords",
    ),
    StoreKind("sqlite:///path/of/file.db", re.compile(r"sqlite://(?P<path>/.*[^/])"), "kit.host.sqlite.SqliteRecords"),
)
EXAMPLES = tuple(kind.example for kind in STORES)


def store_named(setting: str) -> tuple[StoreKind, dict[str, str]] | None:
    """The kind of a durable store and the parts of its address; None when no store is named so."""
    for kind in STORES:
        found = kind.address.fullmatch(setting)
        if found is not None:
            return kind, found.groupdict()
    return None
