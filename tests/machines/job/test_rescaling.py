"""The parallelism of a job in the durable store, whatever the outcome of each request and of each write; what several
changes and several requests have in common.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.commands import StoreParallelism
from kit.core.protocol.events import ParallelismStored, RequestCancel, RequestRescale, SlotsChanged
from kit.core.protocol.notes import JobRescaled
from kit.stream.settings.job_settings import RescaleConfig
from tests.machines.job.harness import JobHarness

DURABLE = {"store": "filesystem", "directory": "/there"}


def running() -> JobHarness:
    """A running job of `source` x2 and `sums` x2 with a durable store."""
    return JobHarness(max_retained=1, **DURABLE).run()


def ask(job: JobHarness, number: int, **parallelism: int) -> None:
    job.give(RequestRescale(request_id=number, parallelism=parallelism, at_once=False))


def test_one_request_is_noted_after_another_so_that_no_older_note_is_written_last() -> None:
    job = running()
    ask(job, 1, source=3)
    ask(job, 2, sums=4)
    ask(job, 3, source=5)
    (first,) = job.take(StoreParallelism)
    assert first == StoreParallelism(request_id=1, parallelism={"source": 3, "sums": 2})
    job.give(ParallelismStored(request_id=1))
    (second,) = job.take(StoreParallelism)
    assert second == StoreParallelism(request_id=2, parallelism={"source": 3, "sums": 4})
    job.give(ParallelismStored(request_id=2, error="no quorum"))
    (third,) = job.take(StoreParallelism)
    assert third == StoreParallelism(request_id=3, parallelism={"source": 5, "sums": 2}), "2 was not noted"
    job.give(ParallelismStored(request_id=3))
    assert job.take(StoreParallelism) == []
    answers = job.answers()
    assert set(answers) == {1, 2}
    assert "another rescale was requested" in answers[1]
    assert "cannot be recorded: no quorum" in answers[2]
    assert job.master.rescaling.wanted == {"source": 5, "sums": 2}


def test_what_is_refused_after_it_was_noted_is_taken_back_before_the_next_request_is_noted() -> None:
    job = running()
    ask(job, 90, sums=4)
    (noted,) = job.take(StoreParallelism)
    job.stop()
    job.give(ParallelismStored(request_id=noted.request_id))
    (taken_back,) = job.take(StoreParallelism)
    assert taken_back.parallelism == {"source": 2, "sums": 2}
    assert "it is being stopped" in job.answers()[90]


def test_each_request_that_waits_for_its_note_is_answered_when_the_job_ends() -> None:
    job = running()
    for number in (90, 91, 92):
        ask(job, number, sums=number)
    job.give(RequestCancel())
    job.answer_all(but=[StoreParallelism])
    assert job.answers() == dict.fromkeys((90, 91, 92), "the job was not rescaled: it is CANCELED")


def test_each_savepoint_that_waits_for_a_restart_is_answered_when_the_job_ends() -> None:
    job = running()
    job.fail()
    waiting = [job.savepoint(), job.stop(), job.savepoint()]
    job.give(RequestCancel())
    job.answer_all()
    said = "the savepoint waited for a restart, and the job is CANCELED"
    assert {number: error for number, error in job.answers().items() if said in error}.keys() == set(waiting)


def test_checkpoints_that_failed_before_another_change_of_slots_count_too() -> None:
    rescaling = RescaleConfig(
        reactive=True, cooldown_ms=0, stabilization_ms=0, max_trigger_delay_ms=600_000, max_checkpoint_failures=2
    )
    job = JobHarness(tolerable_failures=100, rescaling=rescaling)
    job.give(SlotsChanged(slots=1))
    job.run()
    for slots in (2, 3):
        job.give(SlotsChanged(slots=slots))
        assert job.take(JobRescaled) == []
        job.decline(job.trigger())
    assert [note.why for note in job.take(JobRescaled)] == ["2 checkpoints have failed"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["source", "sums"]), st.integers(1, 5)),
        st.sampled_from(["written", "fails"]),
    ),
    max_size=12,
)


@given(STEPS)
def test_once_all_is_written_the_store_holds_what_is_wanted(steps: list[tuple[str, int] | str]) -> None:
    job = running()
    held = wanted = {"source": 2, "sums": 2}
    asked: list[dict[str, int]] = []
    number = 0
    for step in [*steps, *["written"] * len(steps)]:
        if isinstance(step, tuple):
            number += 1
            asked.append({step[0]: step[1]})
            ask(job, number, **asked[-1])
            continue
        under_way = [word for word in job.emitted if isinstance(word, StoreParallelism)]
        assert len(under_way) <= 1
        for write in job.take(StoreParallelism):
            if step == "written":
                held = write.parallelism
                wanted = wanted | asked[write.request_id - 1]
            job.give(ParallelismStored(request_id=write.request_id, error="" if step == "written" else "no quorum"))
    assert not job.take(StoreParallelism)
    assert held == wanted == job.master.rescaling.wanted
