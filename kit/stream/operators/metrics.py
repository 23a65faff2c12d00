"""Metrics of user functions: counters, gauges, meters and histograms.

A function gets them from its context, mostly in `open`, and updates them as rows arrive:

    class Rated(KeyedProcessFunction):
        def open(self, ctx):
            self.rejected = ctx.metrics.counter("rejected")
            self.amounts = ctx.metrics.histogram("amounts")
            ctx.metrics.gauge("limit", self.limit)      # a method: called when the metric is read

        def process_element(self, row, ctx):
            self.amounts.update(row["amount"])
            if row["amount"] > self.limit():
                self.rejected.inc()

Each subtask has its own. Checkpoints do not contain them, so they start at zero in each epoch, as in Flink.
`job.metrics()` and `lab.metrics()` show them, with those of the kit.

Follows Flink's `MetricGroup`, `Counter`, `Gauge`, `Meter` and `Histogram`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

INPUT_WATERMARK, OUTPUT_WATERMARK = "input_watermark_ms", "output_watermark_ms"
STATE_ENTRIES, STATE_BYTES = "state_entries", "state_bytes"
ENTRIES_ON_DISK, BYTES_ON_DISK = "state_entries_on_disk", "state_bytes_on_disk"
LATE_ROWS, SPLITS_LEFT = "late_rows_dropped", "splits_left"
KITS_OWN = (
    INPUT_WATERMARK,
    OUTPUT_WATERMARK,
    STATE_ENTRIES,
    STATE_BYTES,
    ENTRIES_ON_DISK,
    BYTES_ON_DISK,
    LATE_ROWS,
    SPLITS_LEFT,
)
"""The kit's own metrics of each operator."""
WINDOW = 1_000
"""The number of values, the newest ones, that a histogram tells of."""
QUANTILES = (0.5, 0.95, 0.99)
LONGEST = 200
"""The most characters of a gauge's text that are shown."""


class Counter:
    """A number that counts up, or down."""

    without_effect: ClassVar = frozenset({"count"})

    def __init__(self) -> None:
        self.count = 0

    def inc(self, by: int = 1) -> None:
        """Add one, or `by`."""
        self.count += by

    def dec(self, by: int = 1) -> None:
        """Subtract one, or `by`."""
        self.count -= by

    def reading(self) -> dict[str, Any]:
        """Return what is shown, by the end of the name."""
        return {"": self.count}

    def __repr__(self) -> str:
        return f"Counter({self.count})"


class Gauge:
    """A value that a function returns whenever the metric is read."""

    without_effect: ClassVar = frozenset({"value"})

    def __init__(self, value: Callable[[], Any]) -> None:
        self.value = value

    def reading(self) -> dict[str, Any]:
        """Return what is shown. An error of the function is shown in its place: looking fails no job."""
        try:
            value = self.value()
            if hasattr(value, "item"):  # a number of numpy's
                value = value.item()
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        return {"": value if is_number else str(value)[:LONGEST]}

    def __repr__(self) -> str:
        return f"Gauge({self.value!r})"


class Meter:
    """A number of events, of which the host works out how many come in a second."""

    without_effect: ClassVar = frozenset({"count"})

    def __init__(self) -> None:
        self.count = 0

    def mark_event(self, events: int = 1) -> None:
        """Note one event, or several."""
        self.count += events

    def reading(self) -> dict[str, Any]:
        """Return what is shown; the rate is the host's affair."""
        return {RATED: self.count}

    def __repr__(self) -> str:
        return f"Meter({self.count})"


RATED = ".count"
"""The end of the name of a number that is shown as a rate too."""
RATE = ".per_s"


class Histogram:
    """The distribution of numbers: of the last 1,000, and how many there were."""

    without_effect: ClassVar = frozenset({"count", "_values"})

    def __init__(self) -> None:
        self.count = 0
        self._values: deque[float] = deque(maxlen=WINDOW)

    def update(self, value: float) -> None:
        """Take in a number."""
        self.count += 1
        self._values.append(value)

    def update_all(self, values: Iterable[float]) -> None:
        """Take in many numbers, such as a column."""
        listed = [value for value in getattr(values, "tolist", lambda: values)() if value is not None]
        self.count += len(listed)
        self._values.extend(listed[-WINDOW:])

    def reading(self) -> dict[str, Any]:
        """Return the number of values, and the least, mean, greatest and some quantiles of the newest."""
        shown: dict[str, Any] = {".n": self.count}
        ordered = sorted(filter(math.isfinite, self._values))
        if ordered:
            shown |= {".min": ordered[0], ".mean": sum(ordered) / len(ordered), ".max": ordered[-1]}
            shown |= {f".p{100 * part:g}": ordered[math.ceil(part * len(ordered)) - 1] for part in QUANTILES}
        return shown

    def __repr__(self) -> str:
        return f"Histogram({self.count} values)"


Metric = Counter | Gauge | Meter | Histogram
Kind = TypeVar("Kind", Counter, Gauge, Meter, Histogram)


class MetricGroup:
    """The metrics of one operator's subtask, by name; the first request for a name makes the metric."""

    def __init__(self, prefix: str = "", metrics: dict[str, Metric] | None = None) -> None:
        self._prefix = prefix
        self._metrics: dict[str, Metric] = {} if metrics is None else metrics

    def counter(self, name: str) -> Counter:
        """A number that `inc()` and `dec()` change."""
        return self._register(name, Counter())

    def gauge(self, name: str, value: Callable[[], Any]) -> Gauge:
        """A value for which `value` is called. Pass a method: a copy of the lab calls that of its own function."""
        if not callable(value):
            raise TypeError(f"gauge {name!r} is given {value!r}: expected a function that returns the value")
        gauge = self._register(name, Gauge(value))
        gauge.value = value
        return gauge

    def meter(self, name: str) -> Meter:
        """A rate: `mark_event()` for each event."""
        return self._register(name, Meter())

    def histogram(self, name: str) -> Histogram:
        """A distribution: `update(value)` for each value."""
        return self._register(name, Histogram())

    def add_group(self, name: str) -> MetricGroup:
        """A group within this one, whose metrics are named `name.metric`."""
        return MetricGroup(f"{self._prefix}{_checked(name)}.", self._metrics)

    def _register(self, name: str, metric: Kind) -> Kind:
        whole = self._prefix + _checked(name)
        if whole in KITS_OWN:
            raise ValueError(
                f"metric {name!r}: the kit has a metric of this name for each operator: give it another one"
            )
        found = self._metrics.setdefault(whole, metric)
        if type(found) is not type(metric):
            raise TypeError(
                f"metric {name!r} is a {type(found).__name__} already, and cannot be a {type(metric).__name__} as well"
                ": give it another name"
            )
        return found

    def reading(self) -> dict[str, Any]:
        """Return the value of each metric by name; a histogram has several, as in `amounts.p99`."""
        return {
            f"{name}{end}": value for name, metric in self._metrics.items() for end, value in metric.reading().items()
        }

    def __repr__(self) -> str:
        return f"MetricGroup({', '.join(self._metrics) or 'none'})"


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a metric's name is {name!r}: expected a text that is not empty")
    return name


def with_rates(then: Mapping[str, Any], now: Mapping[str, Any], lasted_s: float) -> dict[str, Any]:
    """Return what was read `now`, with the rate of each meter since `then`."""
    rates = {
        name.removesuffix(RATED) + RATE: (count - then.get(name, 0)) / lasted_s
        for name, count in now.items()
        if name.endswith(RATED) and lasted_s > 0
    }
    return {**now, **rates}
