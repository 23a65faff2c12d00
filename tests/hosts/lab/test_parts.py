"""User-defined parts of the protocol: correct ones work like the kit's, and errors of others name the part."""

from __future__ import annotations

from typing import Any

import pytest

import kit
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.connectors.sink import Sink
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from kit.stream.settings.parts import PartError
from kit.verify.explore import exactly_once, expected_output, explore
from kit.verify.swarm.swarm import swarm
from tests.hosts.lab import own_parts as own
from tests.verify.explore.jobs import counts

ROWS = [{"k": "abc"[n % 3], "n": n} for n in range(30)]


def job(parallelism: int = 2, **checkpoint: Any) -> StreamEnvironment:
    env = StreamEnvironment(
        "parts",
        parallelism=parallelism,
        max_parallelism=4,
        checkpoint=CheckpointConfig(interval_ms=30, timeout_ms=2_000, tolerable_failures=100, **checkpoint),
        restart=FixedDelay(100, 10),
    )
    rows = env.from_source(CollectionSource(ROWS, splits=3, batch_rows=1), uid="rows")
    rows.key_by("k").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("totals"), uid="out")
    return env


def with_parts(**parts: Any) -> Any:
    def make(parallelism: int) -> JobGraph:
        return job(parallelism).job_graph().with_parts(kit.Parts(**parts))

    return make


RIGHT = {
    "barrier_handler": own.Aligner,
    "request_decider": own.FirstComeFirstServed,
    "operator_state_repartitioner": own.OneByOne,
    "pending_checkpoint": own.Accounts,
}


def test_right_parts_give_exactly_once_in_any_order_whatever_fails() -> None:
    found = swarm(range(12), job=with_parts(**RIGHT), shrink=0)
    assert not found.failures, str(found.failures[0])


def test_a_handler_that_forgets_to_block_a_channel_is_found_by_a_swarm() -> None:
    found = swarm(range(60), job=with_parts(barrier_handler=own.LetsGoOn), faults=["kill"], shrink=0)
    assert "rows too many" in found.failures[0].error


def test_a_decider_that_forgets_its_limit_is_found_by_a_swarm() -> None:
    found = swarm(range(5), job=with_parts(request_decider=own.NoLimit), check=lambda output: [], shrink=0)
    assert "2 checkpoints pending at once, at most 1 may be" in found.failures[0].error


def _rescaled(repartitioner: type, seed: int) -> dict[str, int]:
    """Return the totals of a job that is stopped at parallelism 3, and resumes at 1."""
    before = Lab(job(3), seed=seed)
    before.run_until(until=lambda lab: lab.position >= 80)
    path = before.stop(wait=True)
    parts = kit.Parts(operator_state_repartitioner=repartitioner)
    after = Lab(job(1), restore_path=path, after=before, parts=parts)
    after.run()
    return dict(after.output().groupby("k")["total"].max())


def test_a_repartitioner_that_forgets_old_subtasks_loses_rows() -> None:
    wanted = {key: sum(row["n"] for row in ROWS if row["k"] == key) for key in "abc"}
    assert [_rescaled(own.OneByOne, seed) for seed in range(4)] == [wanted] * 4
    assert any(_rescaled(own.OldSubtaskToNew, seed) != wanted for seed in range(4))


def test_explore_sees_that_a_right_handler_holds_and_where_a_wrong_one_stands_still() -> None:
    env = counts(rows=1, sources=2)
    wanted = exactly_once(expected_output(env))
    right = explore(env, wanted, faults=0, checkpoints=1, parts=kit.Parts(barrier_handler=own.Aligner))
    assert right.holds, right
    wrong = explore(env, wanted, faults=0, checkpoints=1, parts=kit.Parts(barrier_handler=own.StaysBlocked))
    example = wrong.counterexample
    assert example is not None
    assert not example.holds_in(example.lab())


def test_a_part_goes_back_and_forks_with_the_lab() -> None:
    lab = Lab(job(), parts=kit.Parts(**RIGHT))
    lab.run_until(until=lambda lab: any(_arrived(each) for each in lab._world.tasks.values()))
    before = lab.position
    fork = lab.fork()
    lab.run()
    assert [_arrived(each) for each in fork._world.tasks.values()].count(True)
    fork.run()
    assert fork.trace.to_pandas().equals(lab.trace.to_pandas())
    assert sorted(fork.output()["total"]) == sorted(Lab(job()).run() and lab.output()["total"])
    lab.goto(before)
    assert any(_arrived(each) for each in lab._world.tasks.values())


def _arrived(task: Any) -> bool:
    return task.barriers.pending_checkpoint_id is not None


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"barrier_handler": own.Raises}, "barrier_handler of your own, Raises: KeyError in process_barrier: "),
        ({"barrier_handler": lambda *gates, **settings: {}}, "made a dict, which has no .*CheckpointBarrierHandler"),
        ({"barrier_handler": lambda: own.Aligner}, "barrier_handler=.*TypeError when it was made: "),
        (
            {"pending_checkpoint": own.SaysYes},
            "acknowledge.'[a-z]+/[01]', .* returned 'yes', expected one of SUCCESS, DU",
        ),
        ({"pending_checkpoint": own.KeepsText}, r"states.'[a-z]+/[01]'. is '.*', expected what the task acknowledged"),
        ({"pending_checkpoint": lambda tasks: {}}, "made a dict, which has no abort, acknowledge, is_complete, states"),
        (
            {"channel_state_capture": own.CapturesEvents},
            r"add_input_data\(1, .* given CheckpointBarrier.*: expected data",
        ),
        ({"channel_state_capture": own.NeverStops}, r"add_input_data\(1, .*: checkpoint 1 is not under way on this ch"),
        ({"channel_state_capture": own.WritesToAnotherOutput}, r"add_output_data\(1, .* is not leaving this output"),
        ({"channel_state_capture": lambda writer: {}}, "made a dict, which has no barrier_overtakes, checkpoint_star"),
        ({"request_decider": own.ChoosesANumber}, "ChoosesANumber: choose returned 7, expected CheckpointTriggerReque"),
        ({"request_decider": lambda *limits: object()}, "which has no abort_all, add, choose, queue, validate"),
    ],
)
def test_a_part_that_breaks_its_contract_is_named(parts: dict[str, Any], error: str) -> None:
    of_capture = "channel_state_capture" in parts
    with pytest.raises(PartError, match=error):
        Lab(job(unaligned=of_capture), parts=kit.Parts(**parts)).run()


def test_one_goes_back_from_where_a_part_broke() -> None:
    lab = Lab(job(), parts=kit.Parts(barrier_handler=own.Raises))
    with pytest.raises(PartError):
        lab.run()
    broke = lab.position
    with pytest.raises(PartError):
        lab.back(20).run()
    assert lab.position == broke


def test_a_repartitioner_that_breaks_its_contract_is_named() -> None:
    lab = Lab(job(), parts=kit.Parts(operator_state_repartitioner=own.OneTooFew))
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    with pytest.raises(
        PartError, match=r"operator_state_repartitioner of your own, .* distributed state to 1 of 2 subtasks"
    ):
        lab.run()


@pytest.mark.parametrize("timeout_ms", [0, 15])
def test_a_right_capture_writes_what_the_kit_writes(timeout_ms: int) -> None:
    """The runs are the same to the last record, with a failure, and with data in flight at both ends of channels."""
    at_ends = {"input_handles": 0, "output_handles": 0}
    for seed in range(4):
        runs = [
            Lab(job(unaligned=True, aligned_timeout_ms=timeout_ms), seed=seed, parts=parts)
            for parts in (None, kit.Parts(channel_state_capture=own.Captures))
        ]
        for lab in runs:
            lab.run_until(checkpoint=2)
            lab.faults.kill(0)
            lab.run()
        assert runs[0].trace.to_pandas().equals(runs[1].trace.to_pandas())
        written = [each for each in runs[1].trace if each.kind == "ChannelStateWritten"]
        for end in at_ends:
            at_ends[end] += sum(len(each.data[end]) for each in written)
    assert all(at_ends.values()), at_ends


def test_a_right_account_of_acknowledgements_completes_what_the_kit_completes() -> None:
    """The runs are the same to the last record but for the order of files to delete: each acknowledgement comes twice,
    one is lost, a worker dies.
    """
    for seed in range(2):
        runs = [Lab(files(), seed=seed, parts=p) for p in (None, kit.Parts(pending_checkpoint=own.Accounts))]
        for lab in runs:
            _disturb(lab)
            lab.run_until(record="AcknowledgeCheckpoint")
            lab.faults.lose("AcknowledgeCheckpoint")
            lab.run()
        assert _told(runs[0]) == _told(runs[1])
        assert {"CheckpointAborted", "AcknowledgeIgnored", "ReadState"} <= {each.kind for each in runs[1].trace}


def _told(lab: Lab) -> list[Any]:
    return [(str(each), each.id, {**each.data, "paths": sorted(each.data.get("paths", []))}) for each in lab.trace]


def test_what_an_account_gives_up_is_deleted() -> None:
    lab = Lab(files(), parts=kit.Parts(pending_checkpoint=own.DeletesWhatIsKept))
    _disturb(lab)
    with pytest.raises(LabError, match="checkpoint 1 cannot be read"):
        lab.run()


def files() -> StreamEnvironment:
    """The job with each state in a file of its own."""
    return job(memory_threshold_bytes=0)


def _disturb(lab: Lab) -> None:
    """Each acknowledgement of the first checkpoint arrives twice, and when it is complete a worker dies."""
    seen = 0
    while not any(each.kind == "CheckpointCompleted" for each in lab.trace[seen:]):
        seen = len(lab.trace)
        lab.step()
        for each in lab.trace[seen:]:
            if each.kind == "AcknowledgeCheckpoint" and each.machine != "job":
                lab.faults.duplicate(f"AcknowledgeCheckpoint of chk-1 from {each.machine}")
    lab.faults.kill(0)


def test_a_capture_goes_back_with_the_lab() -> None:
    lab = Lab(job(unaligned=True), parts=kit.Parts(channel_state_capture=own.Captures), seed=1)
    lab.run_until(until=lambda lab: any(_waits(each) for each in lab._world.tasks.values()))
    before = lab.position
    lab.run()
    trace = lab.trace.to_pandas()
    lab.goto(before)
    assert any(_waits(each) for each in lab._world.tasks.values())
    lab.run()
    assert lab.trace.to_pandas().equals(trace)


def _waits(task: Any) -> bool:
    return any(channel._capture._part.waiting for channel in task.inputs)


def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(PartError, match=r"Parts\(barrier_handler=3\): expected a class"):
        kit.Parts(barrier_handler=3)
    with pytest.raises(PartError, match=r"parts is 3, but must be kit.Parts"):
        Lab(job(), parts=3)
    assert repr(kit.Parts(barrier_handler=own.Aligner)) == "Parts(barrier_handler=Aligner)"


def test_a_handler_that_raises_is_a_machine_that_breaks() -> None:
    found = explore(counts(rows=2, sources=2), faults=0, checkpoints=1, parts=kit.Parts(barrier_handler=own.Raises))
    assert found.counterexample is not None
    assert "barrier_handler of your own, Raises: KeyError" in found.counterexample.property


def with_sink(sink: type[Sink]) -> StreamEnvironment:
    env = StreamEnvironment(
        "sink",
        parallelism=2,
        max_parallelism=4,
        checkpoint=CheckpointConfig(interval_ms=30, timeout_ms=2_000, tolerable_failures=100),
        restart=FixedDelay(2, 10),
    )
    rows = env.from_source(CollectionSource(ROWS, splits=3, batch_rows=1), uid="rows").rebalance().map(dict)
    rows.sink_to(sink("own"), uid="out")
    return env


def test_an_error_of_an_operator_is_not_the_handlers() -> None:
    with pytest.raises(LabError, match="no room is left") as failed:
        Lab(with_sink(own.Full), parts=kit.Parts(barrier_handler=own.Aligner)).run()
    assert "of your own" not in str(failed.value)


def test_a_sink_of_ones_own_is_an_operator() -> None:
    with pytest.raises(LabError, match="cannot be published: it is not there, and was never staged"):
        Lab(with_sink(own.Hasty)).run()
