"""Every schedule of a small job: `explore` tries all of them, and finds the shortest run that violates a property."""

from __future__ import annotations

from kit.verify.explore.exploration import Counterexample, Exploration, expected_output, explore
from kit.verify.explore.properties import (
    Property,
    Situation,
    all_acknowledged,
    always,
    comes_to_an_end,
    complete_checkpoints,
    consistent_checkpoints,
    eventually,
    exactly_once,
    finishes,
    ids_grow,
    no_duplicates,
    no_loss,
    nothing_is_left,
    published_is_covered,
    sometimes,
)

__all__ = [
    "Counterexample",
    "Exploration",
    "Property",
    "Situation",
    "all_acknowledged",
    "always",
    "comes_to_an_end",
    "complete_checkpoints",
    "consistent_checkpoints",
    "eventually",
    "exactly_once",
    "expected_output",
    "explore",
    "finishes",
    "ids_grow",
    "no_duplicates",
    "no_loss",
    "nothing_is_left",
    "published_is_covered",
    "sometimes",
]
