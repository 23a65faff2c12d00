"""The table of what becomes of a request: each cell is what the decider does."""

from __future__ import annotations

from typing import Any

import pytest

from kit.machines.coordinator.request_decider import CheckpointRequestDecider
from kit.machines.coordinator.request_rules import request_rules

FULL = "refused: too many"


def test_who_begins_waits_or_is_refused() -> None:
    rules = request_rules()
    assert (rules.loc["nothing else"] == "begins").all()
    assert rules.loc["one is pending"].tolist() == ["waits", "waits", "begins", "waits"]
    assert (rules.loc[["one is being triggered", "too many old ones are being deleted"]] == "waits").all(axis=None)
    too_soon = "refused: too soon"
    assert rules.loc["the pause is not over"].tolist() == [too_soon, "begins", "begins", "begins"]
    assert (rules.loc["the queue is full of users' requests"] == FULL).all()
    gone = rules.loc["the queue is full, the timer's last"].tolist()
    assert gone == [FULL, "waits, the timer's goes", "begins, the timer's goes", "waits, the timer's goes"]


def test_the_table_is_what_the_decider_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(self: CheckpointRequestDecider, **environment: Any) -> None:
        return None

    monkeypatch.setattr(CheckpointRequestDecider, "choose", nobody)
    assert (request_rules().loc[["nothing else", "the pause is not over"]] == "waits").all(axis=None)
