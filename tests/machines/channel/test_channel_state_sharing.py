"""The subtasks of a slot that share files: which subtask joins which others, and until when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.events import SubtasksRedeployed
from kit.core.protocol.messages import ChannelStateWritten
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.channel.channel_state import TASK, Slot, abort, complete, complete_in, release, start, write_in
from tests.machines.task.harness import fan_in


def tasks(count: int) -> list[str]:
    return [f"{number}/0" for number in range(count)]


class Joining(Slot):
    """A slot whose tasks may register later; `groups` are those that share files."""

    def __init__(self, *names: str, most: int = 5) -> None:
        super().__init__(*tasks(100), max_subtasks_per_file=most)
        self.state = SlotChannelState(0, 1, most)
        self.present: list[str] = []
        for name in names:
            self.join(name)

    def join(self, name: str) -> None:
        """Register a task."""
        self.state.register(name, 0, f"id{name[:-2]}")
        self.present.append(name)

    def leave(self, name: str) -> None:
        """Let a task leave."""
        self.hear(release(name))
        self.present.remove(name)

    def groups(self, checkpoint_id: int = 1) -> dict[str, list[str]]:
        """Take a checkpoint with data of all present tasks, and return the tasks in each file."""
        for name in self.present:
            self.hear(start(checkpoint_id, name), write_in(checkpoint_id=checkpoint_id, task=name))
        for name in self.present:
            self.hear(*complete(name, checkpoint_id=checkpoint_id))
        found: dict[str, list[str]] = {}
        for job in self.jobs:
            for answer in self.state.handle(self.answer_to(job), 0):
                assert isinstance(answer, ChannelStateWritten)
                found.setdefault(job.task, []).append(answer.task)
            assert job.file_name == f"id{job.task[:-2]}-0-{checkpoint_id}-channel-state"
        self.jobs = []
        return found


@pytest.mark.flink(
    "ChannelStateWriteRequestExecutorFactoryTest.testReuseExecutorForSameJobId",
    "ChannelStateWriteRequestExecutorImplTest.testRegisterSubtaskAfterRegisterCompleted",
)
@pytest.mark.parametrize("most", [1, 2, 3, 5, 10])
def test_only_so_many_share_a_file(most: int) -> None:
    names = tasks(3 * most)
    slot = Joining(*names, most=most)
    assert slot.groups() == {names[first]: names[first : first + most] for first in range(0, 3 * most, most)}


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitStartRequestBeforeRegisterCompleted")
def test_the_first_start_ends_registration() -> None:
    slot = Joining("0/0", "1/0").hear(start(1, "0/0"))
    slot.join("2/0")
    slot.hear(start(1, "1/0"), *complete("0/0", "1/0"))
    assert list(slot.written()) == ["0/0", "1/0"]
    assert slot.groups(2) == {"0/0": ["0/0", "1/0"], "2/0": ["2/0"]}


def test_a_start_that_is_too_late_ends_registration() -> None:
    slot = Joining("0/0")
    slot.hear(abort(1, "0/0"), start(1, "0/0"))
    slot.join("1/0")
    assert slot.groups(2) == {"0/0": ["0/0"], "1/0": ["1/0"]}


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testReleaseSubtaskBeforeRegisterCompleted")
def test_the_first_who_leaves_ends_registration() -> None:
    slot = Joining("0/0", "1/0")
    slot.leave("0/0")
    slot.join("2/0")
    assert slot.groups() == {"0/0": ["1/0"], "2/0": ["2/0"]}


def test_nothing_else_ends_registration() -> None:
    slot = Joining("0/0")
    slot.hear(abort(1, "0/0"))
    slot.join("1/0")
    assert slot.groups(2) == {"0/0": ["0/0", "1/0"]}


def test_nobody_registers_twice() -> None:
    state = SlotChannelState(0, 1)
    state.register(TASK, 0, "id")
    with pytest.raises(RuntimeError, match="a/0 has registered for channel state already"):
        state.register(TASK, 0, "id")


@pytest.mark.flink("ChannelStateWriteRequestExecutorFactoryTest.testSomeSubtasksCloseDuringOtherSubtasksStarting")
@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60), st.integers(1, 4))
def test_registering_and_leaving_in_any_order_stays_consistent(deeds: list[int | None], most: int) -> None:
    slot = Joining(most=most)
    expected: list[list[str]] = []
    is_open = False
    for number, deed in enumerate(deeds):
        if deed is None:
            if not is_open:
                expected.append([])
            expected[-1].append(f"{number}/0")
            is_open = len(expected[-1]) < most
            slot.join(f"{number}/0")
        elif slot.present:
            leaving = slot.present[deed % len(slot.present)]
            is_open = is_open and leaving not in expected[-1]
            slot.leave(leaving)
    groups = {group[0]: [name for name in group if name in slot.present] for group in expected}
    assert slot.groups() == {first: group for first, group in groups.items() if group}


def test_what_ends_the_writing_of_some_does_not_concern_those_of_other_files() -> None:
    slot = Joining("0/0", "1/0", most=1)
    slot.hear(complete_in(task="0/0"))
    assert [(task, failure.executor_ended) for task, failure in slot.failures] == [("0/0", True)]
    slot.present.remove("0/0")
    assert slot.groups() == {"1/0": ["1/0"]}


def test_a_slot_shares_files_as_the_settings_say() -> None:
    env = fan_in(2, chaining=False, unaligned=True, max_subtasks_per_channel_state_file=2)
    graph = env.execution_graph()
    assert CheckpointConfig().max_subtasks_per_channel_state_file == 5
    for index, groups in [(0, [2, 1]), (1, [1])]:
        names = [task.task for task in graph.tasks_in_slot(index)]
        slot = Slot(*names)
        slot.state = SlotChannelState.of(graph, index, 1)
        slot.hear(*(start(1, name) for name in names), *(write_in(task=name) for name in names), *complete(*names))
        files = [slot.state.handle(slot.answer_to(job), 0) for job in slot.jobs]
        assert [len(answers) for answers in files] == groups


def test_without_unaligned_checkpoints_no_task_registers() -> None:
    state = SlotChannelState.of(fan_in().execution_graph(), 0, 1)
    assert repr(state).startswith("SlotChannelState(slot 0, 0 tasks")


# --- restarts of regions ----------------------------------------------------------------------------------------------


def test_a_task_that_restarts_registers_again_and_shares_no_file_with_its_earlier_attempt() -> None:
    slot = Joining("0/0", "1/0")
    slot.hear(release("1/0"), SubtasksRedeployed(tasks=("1/0",)))
    assert slot.groups(2) == {"0/0": ["0/0"], "1/0": ["1/0"]}


def test_a_restarted_task_gets_no_answer_about_what_its_earlier_attempt_wrote() -> None:
    slot = Joining("0/0", "1/0")
    slot.hear(start(1, "0/0"), start(1, "1/0"), write_in(task="1/0"), *complete("1/0"))
    slot.hear(release("1/0"), SubtasksRedeployed(tasks=("1/0",)))
    slot.hear(*complete("0/0"))
    assert list(slot.write_files().written()) == ["0/0"]


def test_a_restarted_task_gets_no_answer_about_files_that_were_being_written() -> None:
    slot = Joining("0/0", "1/0", "2/0")
    for number in (1, 2):
        slot.hear(*(start(number, name) for name in slot.present), write_in(checkpoint_id=number, task="1/0"))
        for name in slot.present:
            slot.hear(*complete(name, checkpoint_id=number))
    assert len(slot.jobs) == 2
    slot.hear(release("1/0"), SubtasksRedeployed(tasks=("1/0",)))
    answers = [[each.task for each in slot.state.handle(slot.answer_to(job), 0)] for job in slot.jobs]
    assert answers == [["0/0", "2/0"]] * 2


def test_a_new_slot_waits_only_for_the_tasks_that_are_deployed_in_it() -> None:
    graph = fan_in().execution_graph()
    tasks_there = [task.task for task in graph.tasks_in_slot(0)]
    machine = SlotChannelState.of(graph, 0, 2, tasks_there[:1])
    assert machine.identity == "slot 0@2"
    machine.handle(SubtasksRedeployed(tasks=tuple(tasks_there[1:])), 0)
    machine.validate()
