"""Each question has an answer at each step of the scenarios' hard cases, and no chain of causes ends in an unrecorded
cause.
"""

from __future__ import annotations

from typing import Any

import pytest

from kit.hosts.lab import Lab
from kit.hosts.lab.scenarios.scenario import all_scenarios, open_scenario
from kit.why.fact import NOT_IN_TRACE
from kit.why.inquiry import CYCLE


@pytest.mark.parametrize("name", sorted(all_scenarios())[::12])
def test_every_question_has_an_answer(name: str) -> None:
    scenario = open_scenario(name)
    while not scenario.done:
        scenario.next()
        for question in questions(scenario.lab):
            why = scenario.lab.why(**question)
            assert why.roots
            dead_ends = [fact.says for fact in why.facts if NOT_IN_TRACE in fact.says or CYCLE in fact.says]
            assert dead_ends == [], f"{name}, step {scenario.lab.position}, {question}:\n{why}"


def questions(lab: Lab) -> list[dict[str, Any]]:
    """Return some of the questions that can be asked at this moment."""
    moment = lab.moment()
    asked = [record for record in lab.trace if record.kind.startswith("Request") and record.role == "event"]
    refused = [record for record in lab.trace if record.kind in ("RequestRefused", "TriggeringFailed")]
    return [
        {},
        {"about": "no checkpoint"},
        {"about": "restart"},
        *({"task": task} for task in list(moment.tasks)[:4]),
        *({"channel": number} for number in list(moment.channels)[:4]),
        *({"checkpoint": checkpoint_id} for checkpoint_id in list(moment.checkpoints)[-2:]),
        *({"request": record.data["request_id"]} for record in asked[-2:] if "request_id" in record.data),
        *({"about": record} for record in refused[-1:]),
    ]
