"""The audit of a bank: whether a checkpoint of the ready job `transfers` accounts for every posting exactly once.

A transfer takes money from one account and adds it to another, so the money in all accounts never changes. In a correct
checkpoint the postings in the balances and those in flight are together exactly the postings that the sources have
sent. A posting that is missing or counts twice destroys or creates money.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kit.core.html_tables import frame_html, notebook_html
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab.jobs.story_jobs import OPENING_BALANCE, POSTINGS_PER_TRANSFER, TRANSFERS

READ, COUNTED, IN_FLIGHT, DIFFERENCE = (
    "sent up to the source positions",
    "counted in the balances",
    "stored in flight",
    "too many or too few",
)


@dataclass(frozen=True)
class Audit:
    """The three terms of the invariant for one checkpoint: numbers of postings, and euros that they added."""

    checkpoint: int
    read: int
    counted: int
    in_flight: int
    euros_counted: int
    euros_in_flight: int

    @property
    def difference(self) -> int:
        """The number of postings that the checkpoint has too many (positive) or too few (negative)."""
        return self.counted + self.in_flight - self.read

    @property
    def created(self) -> int:
        """The euros that a restore of this checkpoint would create (positive) or destroy (negative)."""
        return self.euros_counted + self.euros_in_flight

    @property
    def holds(self) -> bool:
        """True if the checkpoint accounts for every posting exactly once."""
        return not self.difference and not self.created

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per term, with the columns `postings` and `euros`; the last row is the difference."""
        rows = {
            READ: (self.read, 0),
            COUNTED: (self.counted, self.euros_counted),
            IN_FLIGHT: (self.in_flight, self.euros_in_flight),
            DIFFERENCE: (self.difference, self.created),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["postings", "euros"])

    def _repr_html_(self) -> str:
        return notebook_html(str(self), frame_html(self.to_pandas(), are_labelled=True))

    def __str__(self) -> str:
        sum_ = f"{self.read} postings sent = {self.counted} counted + {self.in_flight} in flight"
        if self.holds:
            return f"Checkpoint {self.checkpoint} is right: {sum_}"
        change = f"{abs(self.created)} euros would be {'created' if self.created > 0 else 'destroyed'}"
        return f"Checkpoint {self.checkpoint} is wrong: {sum_.replace('=', 'but')}; {change}"

    def __repr__(self) -> str:
        return str(self)


def audit(run: Any, checkpoint: int | None = None) -> Audit:
    """Audit a checkpoint of the job `transfers`, by default the last one of a Lab, a SparkJob or a Trace.

    Raises KeyError for a checkpoint without the positions of both sources: one of another job, or one taken when a
    source had read all its rows.
    """
    contents = snapshot_contents(run, checkpoint=checkpoint)
    values = contents.values
    positions = values.of("source position")
    if {table.operator for table in positions} != set(TRANSFERS):
        raise KeyError(
            f"the checkpoint has no positions of both {' and '.join(TRANSFERS)}: audit a checkpoint of the job "
            "'transfers' that was taken while both sources had rows to read"
        )
    read = sum(int(table.to_pandas()["position"].sum()) for table in positions)
    kept = {table.name: table.to_pandas()["value"] for table in values.of("keyed state")}
    balances, postings = kept.get("balance", pd.Series(dtype=int)), kept.get("postings", pd.Series(dtype=int))
    in_flight = (each for table in values.of("in flight") for each in table.to_pandas()["record"])
    flying = [json.loads(each) for each in in_flight if each.startswith("{")]  # others are events such as watermarks
    return Audit(
        contents.snapshot.checkpoint_id if contents.snapshot else 0,
        read * POSTINGS_PER_TRANSFER,
        int(postings.sum()),
        len(flying),
        int(balances.sum()) - OPENING_BALANCE * len(balances),
        sum(each["amount"] for each in flying),
    )


def balances(output: pd.DataFrame) -> pd.Series[int]:
    """Return the final balance by account from the output of the sink `book`, with the sum as the last row."""
    last = output.sort_values("postings").groupby("account")["balance"].last()
    return pd.concat([last, pd.Series({"all accounts": last.sum()})]).rename("balance")


__all__ = ["Audit", "audit", "balances"]
