"""The user's API: the environment, and the streams that are derived from one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.stream.api.datastream import DataStream as DataStream
    from kit.stream.api.datastream import KeyedStream as KeyedStream
    from kit.stream.api.datastream import OperatorStream as OperatorStream
    from kit.stream.api.datastream import StreamSink as StreamSink
    from kit.stream.api.environment import StreamEnvironment as StreamEnvironment
    from kit.stream.api.windowed_stream import WindowedStream as WindowedStream

_offer(__name__)
