"""The stores in which a driver may record its completed checkpoints, by their names in `CheckpointConfig.store`.

A store in another database is a row in `STORES`, and a function in `kit.files.stores.opening.OPEN_RECORDS` that
opens its `Records`, given the named parts of the address. `tests/files/contract.py` holds all stores to one contract.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

IN_MEMORY = "memory"
"""The store that ends with its driver, and keeps no records."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A way to name a store: the kind's name, an example, and the pattern of its address."""

    name: str
    example: str
    address: re.Pattern[str]


STORES = (
    StoreKind("filesystem", "filesystem", re.compile("filesystem")),
    StoreKind(
        "zookeeper",
        "zookeeper://host:port,host:port/root",
        re.compile(r"zookeeper://(?P<hosts>[\w.-]+:\d+(?:,[\w.-]+:\d+)*)(?P<root>(?:/[\w.-]+)+)"),
    ),
    StoreKind("sqlite", "sqlite:///path/of/file.db", re.compile(r"sqlite://(?P<path>/.*[^/])")),
)
EXAMPLES = tuple(kind.example for kind in STORES)


def store_named(setting: str) -> tuple[StoreKind, dict[str, str]] | None:
    """Return the kind of a durable store and the parts of its address, or None for an unknown name."""
    for kind in STORES:
        found = kind.address.fullmatch(setting)
        if found is not None:
            return kind, found.groupdict()
    return None
