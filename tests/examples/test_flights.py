"""The main job over the first flights of 2013, with a kill and a rescale on the way: pandas says the same."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from examples.flights.job import carrier_totals, destination_days, flights_job, read_flights, write_flights
from kit.hosts.lab.lab import Lab
from kit.machines.job.status import JobStatus
from kit.stream.settings.job_settings import CheckpointConfig

ROWS = 1_000


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flights(tmp_path_factory.mktemp("flights") / "flights.parquet", ROWS, rows_per_split=150)


def a_lab(flights: Path, parallelism: int, after: Lab | None = None, restore_path: str | None = None) -> Lab:
    env = flights_job(flights, None, parallelism=parallelism, batch_rows=6, checkpoint=CheckpointConfig(interval_ms=60))
    return Lab(env, seed=11, after=after, restore_path=restore_path)


def by_pandas() -> tuple[pd.DataFrame, pd.DataFrame]:
    """As SQL has it, the sum of no delays at all is null."""
    frame = read_flights(ROWS).to_pandas()
    totals = {"flights": ("day", "size"), "delay": ("arr_delay", lambda delays: delays.sum(min_count=1))}
    carriers = frame.groupby("carrier", as_index=False).agg(**totals)
    days = frame.groupby(["dest", "day"], as_index=False).agg(**totals)
    return carriers, days


def test_a_kill_and_a_rescale_leave_the_result_as_it_is(flights: Path) -> None:
    lab = a_lab(flights, 2)
    lab.run_until(checkpoint=2)
    lab.faults.kill(1)
    lab.run_until(lambda lab: len(lab.trace.story(kind="StateAssigned")) == 1)
    lab.run_until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1)
    request = lab.stop()
    lab.run()
    assert 0 < carrier_totals(lab.output("carriers"))["flights"].sum() < ROWS
    lab = a_lab(flights, 3, after=lab, restore_path=lab.look.answer(request))
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    carriers, days = by_pandas()
    found = carrier_totals(lab.output("carriers"))
    pd.testing.assert_frame_equal(found, carriers, check_dtype=False)
    found = destination_days(lab.output("days"))
    pd.testing.assert_frame_equal(found, days.sort_values(["dest", "day"], ignore_index=True), check_dtype=False)
