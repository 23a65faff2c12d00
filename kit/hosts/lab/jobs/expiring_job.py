"""A ready job whose state has a TTL."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ValueStateDescriptor
from kit.stream.backend.states.state_ttl_config import StateTtlConfig
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction

TTL_MS = 100


class Letters(Protocol):
    """The input of the job."""

    def source(self) -> CollectionSource:
        """Return a source of letters, each with a number."""


class FirstInAWhile(KeyedProcessFunction):
    """Emits the first row of each key, and again the first after the state of the key has expired."""

    SEEN = ValueStateDescriptor("seen", pa.int64(), ttl=StateTtlConfig(TTL_MS, cleanup_full_snapshot=True))

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        """Emit a row of a key that has no state, and remember its number."""
        seen: Any = ctx.state(self.SEEN)
        if seen.value() is None:
            seen.update(row["n"])
            ctx.emit(row)


def expiring(env: StreamEnvironment, letters: Letters) -> None:
    """Build the job: letters, of each key the first in a while, a sink."""
    read = env.from_source(letters.source(), uid="letters", name="letters").set_parallelism(1)
    returns = {"k": pa.string(), "n": pa.int64()}
    first = read.key_by("k").process(FirstInAWhile, returns=returns).uid("first").name("first")
    first.sink_to(CollectSink("out"), uid="out", name="out")
