"""Joins of two streams: pairs of records with the same key that are close in event time.

Follows Flink's `JoinedStreams` and `KeyedStream.IntervalJoin`.
"""

from __future__ import annotations

from dataclasses import replace

from kit.core.arguments.durations import Duration, to_ms
from kit.stream.api.stream import Made, MadeBy, Stream, TwoStreams
from kit.stream.graph.stream_graph import GraphError
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.side_output import OutputTag, checked_tag
from kit.stream.operators.windows.interval_join import IntervalJoin
from kit.stream.operators.windows.window_assigners import WindowAssigner, checked_assigner
from kit.stream.operators.windows.window_join import WindowJoin


class IntervalJoined(TwoStreams[Made]):
    """Two keyed streams to be joined by the distance of their event times."""

    def __init__(self, made_by: MadeBy[Made], left: Stream, right: Stream) -> None:
        super().__init__(made_by, left, right)
        self._spec = IntervalJoin(*timed_inputs("interval_join", left, right), 0, 0, name="interval-join")

    def between(
        self, lower_ms: Duration, upper_ms: Duration, *, lower_exclusive: bool = False, upper_exclusive: bool = False
    ) -> IntervalJoined[Made]:
        """Set the distance: a right record matches a left one if it is `lower_ms` to `upper_ms` later.

        A negative distance means earlier: `.between(-5_000, 0)` is up to five seconds earlier. The bounds are included
        unless they are exclusive.
        """
        lower = to_ms(lower_ms, "between: lower_ms") + lower_exclusive
        upper = to_ms(upper_ms, "between: upper_ms") - upper_exclusive
        self._spec = replace(self._spec, lower_ms=lower, upper_ms=upper)
        return self

    def side_output_left_late_data(self, tag: OutputTag) -> IntervalJoined[Made]:
        """Emit left records that came after the watermark to a side output, instead of dropping and counting them."""
        self._spec = replace(self._spec, left_late_tag=checked_tag("side_output_left_late_data", tag))
        return self

    def side_output_right_late_data(self, tag: OutputTag) -> IntervalJoined[Made]:
        """Emit right records that came after the watermark to a side output, instead of dropping and counting them."""
        self._spec = replace(self._spec, right_late_tag=checked_tag("side_output_right_late_data", tag))
        return self

    def join(self) -> Made:
        """Return the pairs: the columns of the left record, then those of the right one.

        A key column with the same name on both sides occurs once. The event time of a pair is the later one of its two
        records, for windows and joins that follow.
        """
        return self._with(self._spec)


class JoinedStreams(TwoStreams[Made]):
    """Two streams to be joined by key and window: `where`, `equal_to`, `window`, `join`."""

    def __init__(self, made_by: MadeBy[Made], left: Stream, right: Stream) -> None:
        super().__init__(made_by, left, right)
        self._left_keys: tuple[str, ...] = ()
        self._right_keys: tuple[str, ...] = ()
        self._assigner: WindowAssigner | None = None

    def where(self, *columns: str) -> JoinedStreams[Made]:
        """Set the key columns of the left stream."""
        self._left_keys = columns
        return self

    def equal_to(self, *columns: str) -> JoinedStreams[Made]:
        """Set the key columns of the right stream, in the same order."""
        self._right_keys = columns
        return self

    def window(self, assigner: WindowAssigner) -> JoinedStreams[Made]:
        """Set windows of event time that do not merge: `.window(TumblingEventTimeWindows(60_000))`."""
        self._assigner = checked_assigner(assigner)
        return self

    def join(self, window_time: str | None = None) -> Made:
        """Return the pairs: the columns of the left record, then those of the right one.

        A key column with the same name on both sides occurs once. A pair is emitted when its window is over, so its
        event time is the last millisecond of the window. `window_time` names a column for it; windows and joins that
        follow need that column.

            orders.join(payments).where("id").equal_to("order").window(TumblingEventTimeWindows(60_000)).join()
        """
        if self._assigner is None:
            raise GraphError("join: say in which windows: .where(...).equal_to(...).window(...).join()")
        left, right = self._first.key_by(*self._left_keys), self._second.key_by(*self._right_keys)
        spec = WindowJoin(*timed_inputs("join", left, right), self._assigner, window_time, name="window-join")
        return self._with(spec, left, right)


def timed_inputs(what: str, left: Stream, right: Stream) -> tuple[FunctionInput, FunctionInput]:
    """Return both streams as inputs of a join, which needs event time on both."""
    inputs = left.as_input(), right.as_input()
    for stream, given in zip((left, right), inputs):
        if given.time_column is None:
            raise GraphError(f"{what} needs event time: call assign_timestamps(column) before key_by on {stream!r}")
    return inputs
