"""Actions are values with a sentence and a key, lists of them can be read, and a few words are enough to name one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from kit.hosts.lab import Lab, LabError
from kit.hosts.lab.faults import faults
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import FAULTS, DropMessage, FailCommand, KillWorker, MessageFault, possible_faults
from kit.hosts.lab.refusals import refusal
from kit.hosts.lab.world import actions
from kit.hosts.lab.world.actions import Action, CarryOut, DeliverMessage, FireTimer, LetTimePass, TakeTurn
from kit.hosts.lab.world.world import World
from tests.hosts.lab.jobs import Shape, environment

SHAPE = Shape("totals", rows=24, splits=4, batch_rows=3, parallelism=2)
TYPES = {
    kind
    for module in (actions, faults)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Action) and hasattr(kind, "verb") and "verb" in vars(kind)
}


def a_lab(seed: int = 0, **checkpoint: object) -> Lab:
    lab = Lab(environment(SHAPE, unaligned=True, **checkpoint), seed=seed)
    lab.run_until(record="AllTasksRunning")
    return lab


def test_every_type_of_action_has_one_verb_and_the_world_does_it() -> None:
    assert len({kind.verb for kind in TYPES}) == len(TYPES)
    by_themselves = {kind for kind in TYPES if kind.perform is not Action.perform}
    assert set(World._PERFORM) | by_themselves == set(TYPES)
    assert not set(World._PERFORM) & by_themselves
    assert {kind for kind in TYPES if issubclass(kind, Fault)} == set(FAULTS.values())
    for kind in TYPES:
        assert kind.whom in {"", *(each.name for each in fields(kind))}


def test_an_action_is_a_value_with_a_sentence_and_a_key_of_one_word() -> None:
    ack = DeliverMessage("AcknowledgeCheckpoint", 3, "sums/1", "job")
    assert (ack.text, ack.subject) == ("deliver AcknowledgeCheckpoint of chk-3 from sums/1 to job", "job")
    assert ack.key == "deliver:AcknowledgeCheckpoint:chk-3:sums/1:job"
    assert repr(ack) == f"<{ack}>" == f"<{ack.text}>"
    assert {ack: 1}[DeliverMessage("AcknowledgeCheckpoint", 3, "sums/1", "job")] == 1
    with pytest.raises(FrozenInstanceError):
        ack.sender = "sums/2"  # type: ignore[misc]


def test_what_is_enabled_and_what_may_fail_is_told_apart_by_keys_without_blanks() -> None:
    lab = a_lab()
    for _ in range(120):
        keys = [action.key for action in (*lab.enabled(), *possible_faults(lab._world))]
        assert len(set(keys)) == len(keys)
        assert not any(" " in key for key in keys)
        lab.step()


def test_what_is_enabled_is_not_refused_and_what_is_not_is() -> None:
    lab = a_lab()
    met: list[Action] = []
    for _ in range(110):
        enabled = [*lab.enabled()]
        assert [action for action in enabled if refusal(lab._world, action) is not None] == []
        for action in met:
            if action not in enabled and not isinstance(action, LetTimePass):
                assert refusal(lab._world, action), action
        met = [*dict.fromkeys([*met, *enabled])][-60:]
        lab.step()


def test_why_something_does_not_happen_is_said() -> None:
    lab = a_lab()
    timers = lab._world.agenda._timers
    (name, due_ms) = next((timer, word.word.due_ms) for (machine, timer), (_, word) in timers.items())
    said = {
        FireTimer("job", name): f"it is due at {due_ms} ms, and it is {lab.look.at_ms} ms now",
        FireTimer("job", "lunch"): "job has set no timer lunch",
        TakeTurn("totals/7"): "there is no totals/7 now; there are job, rows/0",
        CarryOut("job", "WriteMetadata", 9, 999): "WriteMetadata is not pending",
        DeliverMessage("AcknowledgeCheckpoint", 1, "totals/0", "job"): "nothing is in flight from totals/0 to job",
        KillWorker(7): "no worker 7 runs now; there are 0, 1",
        DropMessage("AcknowledgeCheckpoint", 1, "totals/0", "job"): "no AcknowledgeCheckpoint is in flight there",
        FailCommand("job", "WriteMetadata", 9, 999, "io"): "WriteMetadata is not pending",
    }
    for action, why in said.items():
        assert (lab.look.refusal(action) or "").startswith(why)
        with pytest.raises(LabError):
            lab.step(action)


# --- lists ----------------------------------------------------------------------------------------------------------


def test_a_list_of_actions_is_a_sequence_that_prints_itself_by_group() -> None:
    lab = a_lab()
    enabled = lab.enabled()
    assert enabled[0] == next(iter(enabled))
    assert enabled[0] in enabled
    assert enabled[-1] == enabled[len(enabled) - 1]
    lines = repr(enabled).splitlines()
    assert lines[0] == f"{len(enabled)} things may happen next"
    assert f"  0  {enabled[0]}" in lines
    assert "turns of tasks:" in lines
    table = enabled.to_pandas()
    assert table["key"].tolist() == [action.key for action in enabled]
    assert table["number"].tolist() == [*range(len(enabled))]
    assert "turns of tasks" in enabled._repr_html_()


def test_what_may_fail_is_listed_beside_what_may_not_and_why() -> None:
    lab = a_lab()
    listed = lab.faults.possible()
    assert [fault for fault in listed if lab.look.refusal(fault) is not None] == []
    assert len(listed) + len(listed.refused) == len([*possible_faults(lab._world)])
    table = listed.to_pandas()
    assert (table["why_not"] != "").sum() == len(listed.refused) > 0
    assert table["number"].isna().sum() == len(listed.refused)
    assert "worker 0 is not frozen" in listed._repr_html_()
    assert repr(listed).splitlines()[0].endswith("that may not now (.refused)")


# --- a few words ----------------------------------------------------------------------------------------------------


def with_acks() -> Lab:
    """A lab with acks of several tasks in flight."""
    lab = a_lab(interval_ms=None)
    lab.trigger_checkpoint()
    senders = lambda: {each.sender for each in lab.enabled() if getattr(each, "message", "") == ACK}  # noqa: E731
    while len(senders()) < 2:
        free = [each for each in lab.enabled() if getattr(each, "message", "") != ACK]
        lab.step(free[lab.position % max(1, len(free) - 1)])
    return lab


ACK = "AcknowledgeCheckpoint"


def test_words_by_record_by_key_or_by_the_action_itself_the_same_is_meant() -> None:
    lab = with_acks()
    sender = next(each.sender for each in lab.enabled() if getattr(each, "message", "") == ACK)
    action = next(each for each in lab.enabled() if getattr(each, "sender", "") == sender)
    (record,) = [r for r in lab.trace.story(kind=ACK, machine=sender) if r.role == "command"]
    fault = next(each for each in lab.faults.possible() if isinstance(each, DropMessage) and each.sender == sender)
    for what in (
        f"ack of {sender}",
        f"AcknowledgeCheckpoint of checkpoint 1 from {sender} to job",
        f"chk-1 ack {sender}",
        action,
        record,
        record.id,
        fault,
        fault.key,
    ):
        other = lab.fork()
        other.faults.lose(what)
        assert other.past.actions[-1] == fault
        assert isinstance(other.past.actions[-1], MessageFault)


def test_words_that_fit_several_are_refused_with_these_and_others_with_the_nearest() -> None:
    lab = with_acks()
    with pytest.raises(LabError, match=r"'ack' may be lose AcknowledgeCheckpoint .* or lose .*: say which"):
        lab.faults.lose("ack")
    with pytest.raises(LabError, match=r"nothing that could be lost now is 'ack of totals/9'; there is lose Ack"):
        lab.faults.lose("ack of totals/9")
    with pytest.raises(LabError, match="nothing that could fail now is 'lunch'"):
        lab.faults.fail("lunch")
    with pytest.raises(LabError, match="rows/0 may fail in other ways than 'fire': io, parse"):
        lab.faults.fail("read of rows/0", "fire")


def test_a_step_is_named_by_words_too() -> None:
    lab = a_lab()
    for words in ("turn rows/1", "give rows/1 its turn", "turn:rows/1"):
        assert lab.fork().step(words).action == TakeTurn("rows/1")
    with pytest.raises(LabError, match="'rows' may be several things"):
        lab.step("rows")
