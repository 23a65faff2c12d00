"""Money as people have it: decimals as keys, in totals, windows, reductions and joins, with dictionary columns."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    EventTimeSessionWindows,
    FixedDelay,
    Lab,
    StreamEnvironment,
    TumblingEventTimeWindows,
    avg,
    max_,
    min_,
    sum_,
)
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import failure

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("shop", pa.dictionary(pa.int8(), pa.string())),
        ("price", pa.decimal128(7, 2)),
        ("name", pa.string()),
        ("ratio", pa.float64()),
    ]
)
PRICES = ["0.10", "0.20", "19.99", "99999.99", "-0.30"]
ROWS = [
    {
        "t": 3 * n,
        "shop": ["Aachen", "Bonn", "Celle"][n % 3],
        "price": Decimal(PRICES[n * 7 % 5]),
        "name": "abcdefg"[n * 5 % 7],
        "ratio": float("nan") if n == 11 else n / 7,
    }
    for n in range(40)
]


def run(way: Any, seed: int = 0, kill: bool = True) -> pd.DataFrame:
    """Return the rows that a job commits; it applies `way` to the source's stream, and is killed once."""
    env = StreamEnvironment(
        "money",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=20, memory_threshold_bytes=0, tolerable_failures=100),
        restart=FixedDelay(3, 1),
    )
    source = CollectionSource(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA), splits=1, batch_rows=3)
    stream = env.from_source(source, uid="rows").assign_timestamps("t").uid("times")
    way(stream).uid("way").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env, seed=seed)
    if kill:
        lab.run_until(checkpoint=1)
        lab.faults.kill(0)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    lab.look.validate()
    return lab.output("out")


def grouped(key: str, rows: list[dict[str, Any]] = ROWS) -> dict[Any, list[dict[str, Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("key", ["price", "shop"])
def test_totals_by_a_decimal_or_a_dictionary(key: str, seed: int) -> None:
    totals = (sum_("price"), avg("price"), min_("name"), max_("shop"), min_("ratio"), max_("ratio"))
    out = run(lambda stream: stream.key_by(key).aggregate(*totals, emit="final"), seed)
    by_key = {row[key]: row for row in out.to_dict("records")}
    expected = grouped(key)
    assert set(by_key) == set(expected)
    for value, rows in expected.items():
        prices = [row["price"] for row in rows]
        found = by_key[value]
        assert found["sum_price"] == sum(prices)
        mean = (sum(prices) / len(prices)).quantize(Decimal("0.000001"), "ROUND_HALF_UP")
        assert found["avg_price"] == mean
        assert found["min_name"] == min(row["name"] for row in rows)
        assert found["max_shop"] == max(row["shop"] for row in rows)
        ratios = [row["ratio"] for row in rows]
        has_nan = any(ratio != ratio for ratio in ratios)  # noqa: PLR0124
        assert pd.isna(found["max_ratio"]) == has_nan
        assert found["min_ratio"] == min(ratio for ratio in ratios if ratio == ratio)  # noqa: PLR0124


@pytest.mark.parametrize(
    "window", [TumblingEventTimeWindows(30), EventTimeSessionWindows(4)], ids=["tumbling", "session"]
)
def test_windows_of_money(window: Any) -> None:
    out = run(lambda stream: stream.key_by("shop").window(window).aggregate(sum_("price"), max_("name")))
    if isinstance(window, TumblingEventTimeWindows):
        expected = sorted(
            (shop, start, sum(row["price"] for row in rows), max(row["name"] for row in rows))
            for start in range(0, 120, 30)
            for shop, rows in grouped("shop", [row for row in ROWS if start <= row["t"] < start + 30]).items()
        )
    else:
        expected = sorted((row["shop"], row["t"], row["price"], row["name"]) for row in ROWS)
    found = sorted(zip(out["shop"], out["window_start"], out["sum_price"], out["max_name"], strict=True))
    assert found == expected


def test_the_dearest_sale_of_each_shop() -> None:
    out = run(
        lambda stream: stream.key_by("shop").reduce(lambda one, other: max(one, other, key=lambda row: row["price"]))
    )
    for shop, rows in grouped("shop").items():
        assert out[out["shop"] == shop]["price"].max() == max(row["price"] for row in rows)


def test_sales_of_one_price_that_are_near_in_time() -> None:
    """Joined on a decimal; rows with decimals and dictionaries wait in state."""

    def joined(stream: Any) -> Any:
        other = stream.rename(t="t2", shop="shop2", name="name2", ratio="ratio2").uid("other")
        return stream.key_by("price").interval_join(other.key_by("price")).between(1, 20).join()

    out = run(joined)
    expected = sorted(
        (one["t"], other["t"], one["price"], one["shop"], other["shop"])
        for one in ROWS
        for other in ROWS
        if one["price"] == other["price"] and 1 <= other["t"] - one["t"] <= 20
    )
    assert sorted(zip(out["t"], out["t2"], out["price"], out["shop"], out["shop2"], strict=True)) == expected


def test_an_overflow_fails_the_job_and_says_of_which_key() -> None:
    env = StreamEnvironment("overflow")
    schema = pa.schema([("k", pa.decimal128(3, 1)), ("v", pa.uint64())])
    rows = [{"k": Decimal("1.5"), "v": 2**63}] * 3
    stream = env.from_source(CollectionSource(rows, schema), uid="rows")
    stream.key_by("k").aggregate(sum_("v")).uid("sum").sink_to(CollectSink("out"), uid="out")
    said = "'sum_v': the sum for key Decimal('1.5') is 27670116110564327424, which uint64 cannot hold"
    assert said in failure(Lab(env))
