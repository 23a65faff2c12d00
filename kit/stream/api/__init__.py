"""The user's API: the environment, and the streams that are derived from one another."""

from kit.stream.api.datastream import (
    DataStream,
    KeyedStream,
    OperatorStream,
    StreamSink,
)
from kit.stream.api.environment import (
    StreamEnvironment,
)
from kit.stream.api.windowed_stream import (
    WindowedStream,
)

__all__ = [
    "DataStream",
    "KeyedStream",
    "OperatorStream",
    "StreamEnvironment",
    "StreamSink",
    "WindowedStream",
]
