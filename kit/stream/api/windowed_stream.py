"""Records grouped by key and window of event time, and their operations.

Follows Flink's `WindowedStream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from kit.core.arguments.allowed import expect
from kit.core.arguments.durations import Duration, to_ms
from kit.core.arguments.signposts import WINDOWED, no_attribute
from kit.stream.api.columns import Columns, schema_of
from kit.stream.api.stream import Made, MadeBy, Stream
from kit.stream.graph.stream_graph import GraphError
from kit.stream.operators.aggregates import Aggregate, named_aggregates
from kit.stream.operators.display import described_html
from kit.stream.operators.side_output import OutputTag, checked_tag
from kit.stream.operators.windows.local_window_aggregate import LocalWindowAggregate
from kit.stream.operators.windows.window import WindowAggregate, WindowProcess, WindowReduce
from kit.stream.operators.windows.window_assigners import WindowAssigner, checked_assigner
from kit.stream.operators.windows.window_contents import ReduceFunction, WindowFunction


class WindowedStream(Generic[Made]):
    """Records partitioned by key and cut into windows."""

    def __init__(self, made_by: MadeBy[Made], keyed: Stream, assigner: WindowAssigner) -> None:
        self._made_by = made_by
        self._keyed = keyed
        self._assigner = checked_assigner(assigner)
        self._settings: dict[str, Any] = {}

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, WINDOWED)

    def allowed_lateness(self, lateness_ms: Duration) -> WindowedStream[Made]:
        """Keep each window for this time after it fired; a late record for it makes it fire again.

        `windows.allowed_lateness(60_000).aggregate(count())`
        """
        lateness = to_ms(lateness_ms, "allowed_lateness: lateness_ms")
        expect(lateness >= 0, "allowed_lateness: lateness_ms", lateness_ms, "0 or more")
        self._settings["allowed_lateness_ms"] = lateness
        return self

    def side_output_late_data(self, tag: OutputTag) -> WindowedStream[Made]:
        """Emit records that came too late to a side output, instead of dropping and counting them.

        Read it with `side_output`:

            late = OutputTag("late", stream.schema)
            counts = windows.side_output_late_data(late).aggregate(count())
            counts.side_output(late).sink_to(CollectSink("late"))
        """
        self._settings["late_tag"] = checked_tag("side_output_late_data", tag)
        return self

    def aggregate(self, *aggregates: Aggregate, two_phase: bool = False, **named: Aggregate) -> Made:
        """Compute totals for each key and window, emitted when the watermark passes the window's end.

        `windows.aggregate(flights=count(), delay=avg("delay"))`. The columns are those of the key, `window_start`,
        `window_end`, and the aggregates.

        With `two_phase` rows are folded where they are read, and only totals by key and window cross the exchange:
        before each barrier, and before the watermark at which one of their windows fires. The results are the same, but
        for the order in which floats are added. For windows that do not merge, without a side output of late rows.
        """
        wanted = named_aggregates(aggregates, named)
        return self._with(WindowAggregate, wanted, local=LocalWindowAggregate if two_phase else None)

    def reduce(self, function: ReduceFunction) -> Made:
        """Reduce the records of each key and window to one; the function takes two (dicts) and returns one.

        `windows.reduce(lambda a, b: max(a, b, key=lambda row: row["delay"]))`
        """
        return self._with(WindowReduce, function)

    def process(self, function: WindowFunction, returns: Columns | None = None) -> Made:
        """Apply a function to each key, `Window` and list of records (dicts), for any number of records.

            def median(carrier, window, rows):
                yield {"carrier": carrier, "median": statistics.median(row["delay"] for row in rows)}

            windows.process(median, {"carrier": pa.string(), "median": pa.float64()})

        All records are kept until the window is cleared; `aggregate` keeps numbers only. `returns` are the columns that
        it emits, if they differ from the stream's.
        """
        return self._with(WindowProcess, function, schema_of(returns, self._keyed.schema))

    def _with(self, spec: type[Any], *arguments: Any, local: type[Any] | None = None) -> Made:
        keyed, time_column = self._keyed, self._keyed._time_column()
        if time_column is None:
            raise GraphError(
                f"window({self._assigner}) needs event time: call assign_timestamps(column) before key_by, on each "
                "stream of a union with the same column"
            )
        where = (keyed.schema, keyed._keys(), self._assigner, time_column)
        settings = self._settings if local is None else {**self._settings, "two_phase": True}
        made = spec(*where, *arguments, **settings, name="window")
        origins = keyed._origins
        if local is not None:
            origins = keyed._after_local(local(*where, *arguments, name="local window"))
        return self._made_by(keyed._transformations, keyed._transformations.add(made, origins))

    def _repr_html_(self) -> str:
        facts = {"windows": self._assigner, **self._settings, **self._keyed._facts()}
        return described_html("WindowedStream", facts, self._keyed.schema)

    def __repr__(self) -> str:
        return f"WindowedStream({self._assigner}, by {', '.join(self._keyed._keys())})"
