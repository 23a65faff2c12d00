"""Splits that are found, and removed, while a job runs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random as Chance

import pytest

from kit import Lab
from kit.core.protocol.messages import OperatorEventToTask
from kit.hosts.lab.errors import LabJobFailedError
from kit.hosts.lab.world.schedulers import Random
from kit.stream.operators.sources.source import Split
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.operators.sources.source_operator import SourceOperator
from kit.stream.operators.sources.split_enumerator import SplitEnumerator
from tests.hosts.lab.test_endless_sources import MOST_STEPS, found, job, read_all, steps
from tests.stream.operators.growing import Endless, Growing


@dataclass(frozen=True, eq=False)
class Found(Growing):
    """The splits in `there` are listed; each ends with its last row."""

    names: str = ""
    there: list[str] = field(default_factory=list)
    is_broken: list[str] = field(default_factory=list)

    @property
    def discover_every_ms(self) -> int:
        return 20

    def enumerate_splits(self) -> list[Split]:
        if self.is_broken:
            raise OSError(self.is_broken.pop())
        return [{"id": name} for name in self.there]

    def add(self, name: str, rows: int) -> None:
        self.there.append(name)
        self.rows[name] = rows
        self.ended.add(name)


@dataclass(frozen=True, eq=False)
class FoundEndless(Found, Endless):
    """The same with splits that do not end."""

    @property
    def removes_splits(self) -> bool:
        return True

    def add(self, name: str, rows: int) -> None:
        self.there.append(name)
        self.rows[name] = rows


def all_taken(lab: Lab, source: Found) -> None:
    """Step until every split listed is known and given out, and none is held."""
    operator_id = lab.job.vertices[0].operators[0].operator_id

    def taken() -> bool:
        coordinator = lab.look.master.coordinators[operator_id].coordinator
        assert isinstance(coordinator, SourceCoordinator)
        state = json.loads(coordinator.enumerator.checkpoint())
        return {*state["known"]} == {*source.there} and not state["remaining"]

    def held() -> bool:
        heads = (task.chain.head for task in lab.look.tasks.values() if task.is_source)
        return any(isinstance(head, SourceOperator) and head.splits for head in heads)

    def on_the_way() -> bool:
        return any(isinstance(message.word, OperatorEventToTask) for _, _, message in lab._world.agenda.messages())

    def done() -> bool:
        return lab.look.master.tasks.all_running and taken() and not held() and not on_the_way()

    end = lab.position + MOST_STEPS
    lab.run_until(lambda _: done() or lab.position > end)
    assert done()


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_splits_that_are_found_later_are_read(parallelism: int) -> None:
    source = Found(batch_rows=2)
    lab = Lab(job(source, parallelism))
    steps(lab, 100)
    for number in range(5):
        source.add(f"file-{number}", 3)
        steps(lab, 40)
    all_taken(lab, source)
    lab.stop(wait=True)
    assert found(lab) == source.all_rows(source.there)


def test_readers_that_wait_share_what_is_found() -> None:
    source = Found(batch_rows=1)
    lab = Lab(job(source, 4))
    steps(lab, 200)
    for number in range(8):
        source.add(f"file-{number}", 5)
    steps(lab, 600)
    given = Counter(
        record.data["task"]
        for record in lab.trace
        if record.kind == "OperatorEventToTask" and record.data["payload"]["kind"] == "assign_split"
    )
    assert {task for task, number in given.items() if number} == {f"rows/{number}" for number in range(4)}


@pytest.mark.parametrize("kind", [Found, FoundEndless])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_found_around_checkpoints_kills_and_rescales_is_read_once(seed: int, kind: type[Found]) -> None:
    """Among them: an assignment that is behind the coordinator's snapshot and before the reader's, or after both."""
    chance = Chance(seed)
    source = kind(batch_rows=2)
    source.add("first", 3)
    lab = Lab(job(source, 1 + seed % 3, interval_ms=15), seed=seed, scheduler=Random())
    for number in range(10):
        source.add(f"file-{number}", chance.randrange(1, 6))
        steps(lab, chance.randrange(160))
        what = chance.randrange(3)
        if what == 0 and lab.look.tasks:
            lab.faults.kill(chance.randrange(max(task.subtask for task in lab.look.tasks.values()) + 1))
        elif what == 1:
            lab.rescale(chance.randint(1, 4))
    if kind is FoundEndless:
        read_all(lab, source, source.there)
    else:
        steps(lab, 200)
        all_taken(lab, source)
    lab.stop(wait=True)
    lab.look.validate()
    assert found(lab) == source.all_rows(source.there)


def test_a_split_assigned_after_the_last_checkpoint_goes_back_when_its_reader_fails() -> None:
    source = Found(batch_rows=1)
    lab = Lab(job(source, 2, interval_ms=None))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    source.add("late", 4)
    lab.run_until(lambda _: ("late", 1) in source.reads)
    lab.faults.kill(0)
    lab.run_until(lambda _: len(lab.trace.story(kind="AllTasksRunning")) == 2)
    all_taken(lab, source)
    lab.stop(wait=True)
    assert found(lab) == source.all_rows(["late"])


def test_a_split_that_is_gone_is_taken_from_its_reader() -> None:
    source = FoundEndless(batch_rows=2)
    source.add("stays", 3)
    source.add("goes", 3)
    lab = Lab(job(source, 2))
    read_all(lab, source, source.there)
    source.there.remove("goes")
    read_all(lab, source, ["stays"])
    source.rows.update(stays=5, goes=5)
    read_all(lab, source, ["stays"])
    lab.stop(wait=True)
    assert found(lab) == Counter({("stays", n): 1 for n in range(5)} | {("goes", n): 1 for n in range(3)})


def test_the_documented_failure_of_a_discovery_restarts_the_job() -> None:
    source = Found(batch_rows=2)
    lab = Lab(job(source, 1))
    lab.run_until(record="DiscoverSplits")
    source.add("a", 3)
    lab.faults.fail("DiscoverSplits", "io")
    lab.run_until(lambda _: len(lab.trace.story(kind="AllTasksRunning")) == 2)
    all_taken(lab, source)
    assert any("the input cannot be listed" in str(record.data) for record in lab.trace.story(kind="SplitsDiscovered"))


def test_a_job_restarts_when_its_splits_cannot_be_listed_and_then_goes_on() -> None:
    source = Found(batch_rows=2)
    source.add("a", 3)
    lab = Lab(job(source, 1))
    lab.run_until(record="AllTasksRunning")
    source.is_broken.append("the directory is gone")
    lab.run_until(lambda _: len(lab.trace.story(kind="AllTasksRunning")) == 2)
    source.add("b", 3)
    all_taken(lab, source)
    lab.stop(wait=True)
    assert found(lab) == source.all_rows("ab")
    failed = [record.data["error"] for record in lab.trace if record.kind == "JobStatusChanged"]
    assert any("splits cannot be discovered: the directory is gone" in error for error in failed)


def test_what_was_read_without_discovery_is_not_read_again_with_it() -> None:
    before = SplitEnumerator("rows", 1)
    before.start([{"id": "a"}])
    after = SplitEnumerator("rows", 1, discovers=True)
    with pytest.raises(ValueError, match="does not say which splits have been read"):
        after.restore(before.checkpoint(), [])


def test_splits_need_ids_of_their_own_when_they_are_found_as_well() -> None:
    source = Found()
    lab = Lab(job(source, 1))
    lab.run_until(record="AllTasksRunning")
    source.there.extend("aa")
    with pytest.raises(LabJobFailedError, match="every split needs an 'id' of its own"):
        lab.run_until(ended=True)
