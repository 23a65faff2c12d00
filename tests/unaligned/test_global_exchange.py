"""In-flight data behind `global_()`, whose records all go to subtask 0, while every subtask gets watermarks.

In a restore, Flink's mapper gives the in-flight data of all old subtasks to subtask 0, but only if subtasks are
reassigned. A receiver of unchanged parallelism gets its own data back, although the number of its senders changed:
subtask 0 knows their connections, the others know none. So Flink fails (`FIRST` in `SubtaskStateMapper`;
`StateAssignmentOperation.reDistributeInputChannelStates`).
"""

from __future__ import annotations

import pytest

from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabJobFailedError
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import LetTimePass, TakeTurn
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig, NoRestart

ROWS = 24
TAKEN = 120
"""Steps before subtask 0 gets no more turns: a sender who waits for it does not send its watermarks either."""


def job(senders: int, receivers: int, others: int | None) -> StreamEnvironment:
    """Return a job whose rows go by `global_()` to `last`; `others` is the parallelism of a second source."""
    checkpoint = CheckpointConfig(
        directory="/checkpoints", unaligned=True, retention=RetentionPolicy.RETAIN_ON_CANCELLATION
    )
    env = StreamEnvironment(
        "global", parallelism=senders, max_parallelism=8, checkpoint=checkpoint, restart=NoRestart(), chaining=False
    )

    def source(first: int) -> CollectionSource:
        return CollectionSource([{"n": n} for n in range(first, first + ROWS)], splits=6, batch_rows=1)

    stream = env.from_source(source(0), uid="rows").assign_timestamps("n").uid("timed").global_()
    if others is not None:
        other = env.from_source(source(ROWS), uid="others").set_parallelism(others)
        stream = stream.union(other.assign_timestamps("n").uid("other-timed").set_parallelism(others).rebalance())
    last = stream.filter(lambda row: True).uid("last").set_parallelism(receivers)
    last.sink_to(CollectSink("out"), uid="out").set_parallelism(receivers)
    return env


def with_data_in_flight(senders: int, receivers: int, others: int | None) -> tuple[Lab, str]:
    """Return a job whose receivers had taken little when its checkpoint was taken, and the checkpoint's path."""
    lab = Lab(job(senders, receivers, others))

    def is_held(action: object, receivers: str) -> bool:
        return isinstance(action, LetTimePass) or (
            isinstance(action, TakeTurn) and action.subject.startswith(receivers)
        )

    def settle(receivers: str, most_steps: int = 10_000) -> None:
        """Take all possible actions, except turns of these tasks and waiting."""
        end = lab.position + most_steps
        while lab.position < end and (possible := [each for each in lab.enabled() if not is_held(each, receivers)]):
            lab.step(possible[0])

    lab.run_until(record="AllTasksRunning")
    settle("last/1", most_steps=TAKEN)
    settle("last/")
    request = lab.trigger_checkpoint()
    settle("last/")
    lab.run_until(checkpoint=1)
    path = lab.look.answer(request)
    assert path is not None
    lab.cancel()
    lab.run()
    return lab, path


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((3, 2, None), (2, 2, None), id="fewer senders"),
        pytest.param((2, 2, 3), (2, 2, 2), id="fewer senders on the other gate"),
    ],
)
def test_subtasks_whose_connections_nobody_knows_cannot_be_restored(
    before: tuple[int, int, int | None], after: tuple[int, int, int | None]
) -> None:
    lab, path = with_data_in_flight(*before)
    restored = Lab(job(*after), restore_path=path, after=lab)
    with pytest.raises(LabJobFailedError, match=r"last/1 failed: StateRestoreError: .*gate 0.*number of senders"):
        restored.run()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((3, 1, None), (2, 1, None), id="one receiver"),
        pytest.param((2, 2, None), (3, 2, None), id="more senders"),
        pytest.param((2, 2, 2), (3, 2, 3), id="more senders, two gates"),
        pytest.param((3, 2, None), (2, 3, None), id="more receivers"),
        pytest.param((3, 2, 3), (2, 3, 2), id="more receivers, two gates"),
        pytest.param((3, 3, None), (3, 3, None), id="nothing rescaled"),
    ],
)
def test_where_flink_restores_nothing_is_lost(
    before: tuple[int, int, int | None], after: tuple[int, int, int | None]
) -> None:
    lab, path = with_data_in_flight(*before)
    restored = Lab(job(*after), restore_path=path, after=lab)
    restored.run()
    found = sorted(restored.output("out")["n"])
    wanted = range(ROWS if before[2] is None else 2 * ROWS)
    assert found == [*wanted]
