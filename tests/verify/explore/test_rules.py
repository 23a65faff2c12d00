"""Each rule of the reduction by itself: it leaves out steps, and nothing that can be seen at the ends.

The jobs are small, drawn at random, and explored in every order as well. Beside the rule there are those that it
stands on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from kit.core.protocol.messages import NotifyCheckpointComplete
from kit.hosts.lab.errors import LabError
from kit.verify.explore import Property, always, eventually, explore
from kit.verify.explore.properties import Situation
from kit.verify.explore.reduction.facts import Batch, Chosen
from kit.verify.explore.reduction.reduction import RULES
from kit.verify.explore.steps import FAULTS, Step
from tests.verify.explore.jobs import collects, counts, hears, overtakes

Drawn = tuple[Callable[..., Any], tuple[tuple[str, Any], ...], int, str]
"""A job's function and what it is given, the checkpoints asked for, and the kind of fault."""
APPLIED: dict[str, Drawn] = {
    "turns": (overtakes, (), 0, ""),
    "deployment": (counts, (), 0, ""),
    "splits": (collects, (), 1, ""),
    "beginnings": (collects, (), 1, ""),
    "clean_up": (collects, (), 1, "repeat"),
    "ignored_completions": (collects, (), 1, ""),
    "marks": (counts, (("rows", 2), ("sources", 2)), 0, ""),
    "choices": (counts, (("rows", 2), ("sources", 2)), 0, ""),
    "own_affairs": (collects, (("rows", 2),), 1, ""),
    "source_turns": (collects, (("rows", 2),), 1, ""),
    "awaited": (counts, (), 0, "kill"),
    "after_the_last_fault": (counts, (), 0, "kill"),
}
"""For each rule a job in which it leaves out steps."""


def _drawn(random: Random) -> Drawn:
    """A job of which every order is explored in a second or two."""
    of = random.choice((collects, counts, overtakes))
    if of is collects:
        return of, (("rows", random.choice((1, 2))),), 0, random.choice(("", *FAULTS))
    if random.random() < 0.3:
        mode = {"mode": random.choice(("exactly_once", "at_least_once"))} if of is counts else {}
        return of, tuple({"rows": 2, "sources": 2, **mode}.items()), 0, ""
    return of, (), *random.choice(((1, ""), *((0, kind) for kind in FAULTS)))


RANDOM = tuple(dict.fromkeys(_drawn(random) for random in [Random(25)] for _ in range(4)))


@cache
def _seen(drawn: Drawn, rules: tuple[str, ...]) -> tuple[int, frozenset[Any], frozenset[Any]]:
    """Return the number of states, the situations on the way, and the contents of checkpoints and of the ends."""
    of, given, asked, kind = drawn
    way: set[Any] = set()
    ends: set[Any] = set()

    def note(now: Situation) -> bool:
        way.add((now.status, now.completed, tuple(now.output()), bool(now.master.checkpoints.pending)))
        if now.completed:
            ends.add((now.completed, tuple(now.output_after_failure())))
        return True

    def note_end(now: Situation) -> bool:
        ends.add((now.status, now.completed, tuple(now.output()), tuple(now.files())))
        return True

    noted: list[Property] = [always("noted", note), eventually("noted at the end", note_end)]
    kinds = [kind] if kind else []
    found = explore(of(**dict(given)), noted, checkpoints=asked, faults=len(kinds), kinds=kinds, rules=rules)
    assert found.complete
    return found.states, frozenset(way), frozenset(ends)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_out_steps_and_no_end(rule: str) -> None:
    assert _left_out(APPLIED[rule], rule) > 0


@pytest.mark.soak
@pytest.mark.parametrize("drawn", RANDOM)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_out_no_end_of_a_random_job(rule: str, drawn: Drawn) -> None:
    assert _left_out(drawn, rule) >= 0


def _the_last_part_too(batch: Batch) -> Iterator[Chosen]:
    """`awaited`, but the last part is taken at once as well."""
    for steps, words in batch.reports():
        yield steps, words != 0
    for steps, words, _ in batch.works_of_tasks():
        yield steps, words != 0


def _any_element(batch: Batch) -> Iterator[Chosen]:
    """`marks`, but any element is taken as it comes, wherever barriers are."""
    for task in batch.space.tasks:
        for number, _ in batch.known.inputs[task]:
            queued = batch.rows[:, batch.space.wires + number]
            yield [Step("wire", task, number)], (queued != 0) & (batch.rows[:, task] != 0)


def _any_completion(batch: Batch) -> Iterator[Chosen]:
    """`ignored_completions`, but whether the task reacts to it or not."""
    for steps, words, _ in batch.messages():
        yield steps, batch.known.is_of(words, NotifyCheckpointComplete)


def _the_message_first(batch: Batch) -> Iterator[Chosen]:
    """`own_affairs`, but something may still come on an input."""
    for steps, words, task in batch.messages():
        yield steps, (words != 0) & (batch.rows[:, task] != 0)


HEARS: Drawn = (hears, (), 1, "")


@pytest.mark.parametrize(
    ("rule", "goes_too_far", "drawn"),
    [
        ("awaited", _the_last_part_too, (collects, (("rows", 2),), 1, "")),
        pytest.param("marks", _any_element, (overtakes, (), 1, ""), marks=pytest.mark.soak),
        ("ignored_completions", _any_completion, HEARS),
        ("own_affairs", _the_message_first, HEARS),
    ],
)
def test_a_rule_that_goes_too_far_leaves_out_an_end(
    rule: str, goes_too_far: Callable[[Batch], Iterator[Chosen]], drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _left_out(drawn, rule) >= 0
    monkeypatch.setitem(RULES, rule, replace(RULES[rule], select=goes_too_far, silence=False))
    with pytest.raises(AssertionError, match=re.escape(str(drawn[1:3])[1:-1])):
        _left_out(drawn, rule, _seen.__wrapped__)


@pytest.mark.soak
@pytest.mark.parametrize("rule", ["ignored_completions", "source_turns", "after_the_last_fault"])
def test_a_rule_that_takes_listeners_for_deaf_leaves_out_an_end(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _left_out(HEARS, rule) >= 0
    monkeypatch.setitem(RULES, rule, replace(RULES[rule], silence=False))
    with pytest.raises(AssertionError, match="hears"):
        _left_out(HEARS, rule, _seen.__wrapped__)


def test_all_rules_together_leave_out_no_end_of_a_job_that_hears_of_checkpoints() -> None:
    assert _seen(HEARS, tuple(RULES))[2] == _seen(HEARS, ())[2]
    outputs = [end[2] for end in _seen(HEARS, ())[2] if end[0] == "FINISHED"]
    assert {dict(row)["heard"] for output in outputs for row in output} == {0, 1, 10, 11}


def _left_out(drawn: Drawn, rule: str, seen: Callable[..., Any] = _seen) -> int:
    """Return how many states a rule leaves out, and see that what matters is the same."""
    states, way, ends = _seen(drawn, ())
    fewer, way_there, same_ends = seen(drawn, (rule,))
    assert same_ends == ends, drawn
    assert way_there <= way, drawn
    assert all(status == "RUNNING" and not output for status, _, output, _ in way - way_there), drawn
    return states - fewer


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_any_rules_together_leave_out_no_end(seed: int) -> None:
    random = Random(seed)
    drawn = _drawn(random)
    rules = tuple(rule for rule in RULES if random.random() < 0.6)
    assert _seen(drawn, rules)[2] == _seen(drawn, ())[2], (drawn, rules)


def test_every_order_is_what_no_rules_leave() -> None:
    exact = explore(collects(), faults=0, checkpoints=1, exact=True)
    assert exact.states == _seen((collects, (), 1, ""), ())[0]


def test_an_unknown_rule_is_rejected() -> None:
    with pytest.raises(LabError, match="no rule is 'luck'; there are 'turns', "):
        explore(collects(), rules=["luck"])
