"""In-flight data that is decided later: when an aligned barrier leaves an output, or its alignment times out.

A future without threads: one side completes it once, and the other polls it. Follows the
`CompletableFuture<List<Buffer>>` of Flink's `ChannelStateWriter.addOutputDataFuture`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.core.protocol.elements import DataElement


class DataFuture:
    """The elements that a barrier overtakes on one output, unknown until the future is `done`."""

    __slots__ = ("buffers", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.buffers: tuple[DataElement, ...] = ()
        self.error: Exception | None = None

    def complete(self, buffers: Iterable[DataElement]) -> bool:
        """Complete with these elements, in this order; return False and do nothing if it is already done."""
        return self._settle(tuple(buffers), None)

    def fail(self, error: Exception) -> bool:
        """Fail with `error`, which ends the checkpoint; return False and do nothing if it is already done."""
        return self._settle((), error)

    def _settle(self, buffers: tuple[DataElement, ...], error: Exception | None) -> bool:
        if self.done:
            return False
        self.done, self.buffers, self.error = True, buffers, error
        return True

    def __repr__(self) -> str:
        if not self.done:
            return "DataFuture(open)"
        return f"DataFuture({self.error!r})" if self.error else f"DataFuture({len(self.buffers)} elements)"
