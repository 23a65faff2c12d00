"""Whatever happens, what is committed is the batch result, and the disk holds what is needed and nothing else."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.job.status import JobStatus
from kit.lab.lab import Lab, LabError
from tests.lab.jobs import WAYS, Shape, environment, referenced_files, settle, state_files, wrong

SHAPES = st.builds(
    Shape,
    way=st.sampled_from(sorted(WAYS)),
    rows=st.integers(0, 40),
    splits=st.integers(1, 5),
    batch_rows=st.integers(1, 8),
    parallelism=st.integers(1, 3),
    chaining=st.booleans(),
)

DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("steps"), st.integers(1, 120)),
        st.tuples(st.just("kill"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["checkpoint", "savepoint"]), st.just(0)),
        st.tuples(st.just("stop"), st.integers(1, 3)),
    ),
    max_size=8,
)


def do(lab: Lab, shape: Shape, deed: str, argument: int) -> tuple[Lab, Shape]:
    """One deed; a stop goes on with a second lab at another parallelism."""
    if lab.finished:
        return lab, shape
    if deed == "steps":
        for _ in range(argument):
            if not lab.finished:
                lab.step()
    elif deed == "kill":
        with suppress(LabError):  # that worker does not run at present
            lab.kill(argument)
    elif deed == "checkpoint":
        lab.trigger_checkpoint()
    elif deed == "savepoint":
        lab.savepoint()
    else:
        return stop_and_resume(lab, shape, argument)
    return lab, shape


def stop_and_resume(lab: Lab, shape: Shape, parallelism: int) -> tuple[Lab, Shape]:
    """Stop with a savepoint and go on at another parallelism; a stop that fails leaves the job as it is."""
    request = lab.stop()
    try:
        lab.run_until(lambda lab: lab.finished or lab.answer(request) is not None)
        path = lab.answer(request)
    except LabError:
        return lab, shape
    if path is None:
        return lab, shape
    settle(lab)
    assert lab.master.status is JobStatus.FINISHED
    assert state_files(lab) == referenced_files(lab)
    shape = shape.at(parallelism)
    return Lab(environment(shape), seed=lab.seed + 1, restore_path=path, after=lab), shape


@given(SHAPES, DEEDS, st.integers(0, 2**32))
@settings(max_examples=60)
def test_committed_output_is_the_batch_result(shape: Shape, deeds: list[tuple[str, int]], seed: int) -> None:
    lab = Lab(environment(shape), seed=seed)
    for deed, argument in deeds:
        lab, shape = do(lab, shape, deed, argument)
    if not lab.finished:
        lab.run()
    assert lab.master.status is JobStatus.FINISHED, lab.master.error
    assert wrong(lab, shape) == {}


@given(SHAPES, DEEDS, st.integers(0, 2**32))
@settings(max_examples=40)
def test_nothing_is_left_on_the_disk_and_nothing_is_missing(
    shape: Shape, deeds: list[tuple[str, int]], seed: int
) -> None:
    lab = Lab(environment(shape), seed=seed)
    for deed, argument in deeds:
        lab, shape = do(lab, shape, deed, argument)
    lab.cancel()
    settle(lab)
    assert lab.master.status.is_terminal
    assert state_files(lab) == referenced_files(lab)
