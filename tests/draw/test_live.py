"""The figures of a running job, by vertex."""

from __future__ import annotations

import pandas as pd

from kit.draw.charts.live import Live


def test_rates_are_totals_and_shares_are_means_of_all_subtasks() -> None:
    columns = ("task", "records_in_per_s", "records_out_per_s", "busy_ms_per_s", "backpressured_ms_per_s")
    rows = [("sums/0", 10.0, 4.0, 900.0, 100.0), ("sums/1", 30.0, 6.0, 100.0, 300.0), ("out/0", 7.0, 0.0, 250.0, 0.0)]
    meters = pd.DataFrame(rows, columns=columns)
    meters["idle_ms_per_s"] = 1_000 - meters["busy_ms_per_s"] - meters["backpressured_ms_per_s"]
    live = Live({"name": "job"}, "", meters, pd.DataFrame(), None, None, (), 0, {})
    assert live.to_pandas().to_dict("list") == {
        "vertex": ["sums", "out"],
        "subtasks": [2, 1],
        "records_in_per_s": [40.0, 7.0],
        "records_out_per_s": [10.0, 0.0],
        "busy": [0.5, 0.25],
        "backpressured": [0.2, 0.0],
        "idle": [0.3, 0.75],
        "busiest": [0.9, 0.25],
    }
