"""Flink's vectors as our values, and our results as the vectors write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kit.state.handles import (
    FileStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)


def stream(name: str) -> FileStateHandle:
    return FileStateHandle(name, 1)


def operator_handles(described: Iterable[dict[str, Any]]) -> tuple[OperatorStreamStateHandle, ...]:
    return tuple(
        OperatorStreamStateHandle(
            {
                name: StateMetaInfo(tuple(info["offsets"]), OperatorStateMode[info["mode"]])
                for name, info in one["states"].items()
            },
            stream(one["handle"]),
        )
        for one in described
    )


def as_operator_set(described: Iterable[dict[str, Any]]) -> list[Any]:
    """What a vector says of one subtask's operator handles, without the order Java hashes give them."""
    return sorted(
        (
            one["handle"],
            sorted((name, info["mode"], tuple(info["offsets"])) for name, info in one["states"].items()),
        )
        for one in described
    )


def operator_set(handles: Sequence[OperatorStreamStateHandle]) -> list[Any]:
    """The same of our handles."""
    return sorted(
        (
            handle.delegate.path,
            sorted(
                (name, info.mode.name, info.offsets) for name, info in handle.state_name_to_partition_offsets.items()
            ),
        )
        for handle in handles
    )
