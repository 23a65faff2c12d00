"""How a user of a lab asks for another parallelism while the job runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, overload

from kit.core.protocol.events import RequestRescale
from kit.core.protocol.words import Word
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of


class RescaleDoors:
    """The part of a `Lab` that rescales."""

    job: JobGraph

    def _ask(self, make: Callable[[int], Word], *, wait: bool) -> int | str:
        raise NotImplementedError

    @overload
    def rescale(self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: Literal[True]) -> str: ...

    @overload
    def rescale(
        self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: Literal[False] = False
    ) -> int: ...

    def rescale(self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: bool = False) -> int | str:
        """Ask that the job go on at another parallelism: of all vertices that are as wide as the widest, or of each by
        its name, or the uid or name of an operator in it. The answer is where the checkpoint is that it went on from,
        and comes when all tasks run again.

        A checkpoint is taken for it now; unless `at_once`, it waits for the next one, and before that for the cooldown
        and the stabilization time (`RescaleConfig`). Raises ValueError for what cannot be.
        """
        wanted = parallelism_of(self.job, parallelism)
        return self._ask(
            lambda number: RequestRescale(request_id=number, parallelism=wanted, at_once=at_once), wait=wait
        )
