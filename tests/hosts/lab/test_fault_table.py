"""Everything that derives from the table of faults: methods of `lab.faults`, lines of scenarios, code, random runs."""

from __future__ import annotations

import ast
from inspect import signature

import pytest

from kit.hosts.lab import Lab, Scenario
from kit.hosts.lab.faults import faults
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.fault_verbs import VERBS, Faults
from kit.hosts.lab.faults.faults import FAULTS
from kit.hosts.lab.scenarios.scenario_commands import VERBS as COMMANDS
from kit.hosts.lab.scenarios.scenario_text import parse
from kit.hosts.lab.scenarios.scenario_writing import fault_of, line_of
from kit.verify.explore.steps import EXPLORED
from kit.verify.swarm.trials import INTERVENTIONS
from tests.hosts.lab.jobs import Shape, environment

SHAPE = Shape("totals", rows=24, splits=4, batch_rows=3, parallelism=2)
SCENARIO = """title: it
question: what
job: keyed-sum, rows=4

run until AllTasksRunning
{line}
----
"""


def a_lab() -> Lab:
    lab = Lab(environment(SHAPE, unaligned=True))
    lab.run_until(record="CheckpointTriggered")
    return lab


@pytest.mark.parametrize("name", FAULTS)
def test_the_example_of_a_fault_calls_its_method_as_it_may_be_called(name: str) -> None:
    call = ast.parse(FAULTS[name].example, mode="eval").body
    assert isinstance(call, ast.Call)
    assert ast.unparse(call.func) == f"lab.faults.{FAULTS[name].name()}"
    method = getattr(Faults, FAULTS[name].name())
    signature(method).bind(None, *call.args, **{each.arg: each.value for each in call.keywords if each.arg})
    assert FAULTS[name].example in str(method.__doc__)


def test_every_method_has_a_line_of_a_scenario_and_no_other_line_says_the_same() -> None:
    usages = [each.usage for each in COMMANDS]
    assert len(set(usages)) == len(usages)
    assert {each.usage for each in VERBS.values()} <= set(usages)
    assert {kind.name() for kind in FAULTS.values()} == set(VERBS)


@pytest.mark.parametrize(
    ("line", "name", "given"),
    [
        ("kill worker 1", "kill", {"worker": 1}),
        ("turn the clock of job by -20 ms", "turn_clock", {"machine": "job", "by_ms": -20}),
        ("delay ack of sums/1 by 50 ms", "delay", {"what": "ack of sums/1", "by_ms": 50}),
        ("fail read of rows/0", "fail", {"what": "read of rows/0"}),
        ("fail read of rows/0: parse", "fail", {"what": "read of rows/0", "how": "parse"}),
        ("forge ack: task a/0, checkpoint 7", "forge", {"what": "ack", "task": "a/0", "checkpoint": 7}),
        ("lose slot 1", "lose_slot", {"worker": 1}),
        ("lose ack of slot 1", "lose", {"what": "ack of slot 1"}),
    ],
)
def test_a_line_gives_the_arguments_of_its_method(line: str, name: str, given: dict[str, object]) -> None:
    verb, found = next((verb, found) for verb in VERBS.values() if (found := verb.pattern.fullmatch(line)))
    assert (verb.name, verb.arguments(found.groupdict())) == (name, given)


def test_code_and_scenarios_do_the_same_fault_again() -> None:
    lab = a_lab()
    done = 0
    for fault in lab.faults.possible():
        other, again = lab.fork(), lab.fork()
        other.step(fault)
        exec(fault.code, {"lab": again, "faults": faults})  # type: ignore[attr-defined]
        assert again.past.actions[-1] == other.past.actions[-1] == fault
        assert fault_of(line_of(fault).removeprefix("inflict ")) == fault
        done += 1
    assert done > 20


def test_a_fault_is_done_by_its_line_in_a_scenario() -> None:
    scenario = Scenario(parse("it", SCENARIO.format(line="freeze worker 0"))).run()
    assert str(scenario.lab.past.actions[-1]) == "freeze worker 0"


def test_what_is_drawn_and_explored_is_declared_by_faults() -> None:
    drawn = {kind.drawn.name: kind.drawn for kind in FAULTS.values() if kind.drawn is not None}
    assert {name: (INTERVENTIONS[name].weight, INTERVENTIONS[name].share) for name in drawn} == {
        name: (each.weight, each.share) for name, each in drawn.items()
    }
    assert all(issubclass(kind, Fault) and kind.explored for kind in EXPLORED.values())
