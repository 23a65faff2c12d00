"""Splits on their way to a reader get lost, or only seem to, or are very late: each row is read exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kit.core.protocol.events import OperatorEventLost
from kit.core.protocol.messages import OperatorEventToTask
from kit.hosts.lab.faults.faults import DropMessage
from kit.hosts.lab.lab import Lab, LabError
from kit.hosts.lab.world.actions import DeliverMessage, LetTimePass
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

ROWS = 100


class Losing:
    """A lab whose way from the coordinator to the reader fails at these assignments, counted over the whole run."""

    def __init__(self, seed: int, numbers: set[int], fault: Callable[[Losing, OperatorEventToTask], None]) -> None:
        env = StreamEnvironment(
            "lossy",
            parallelism=1,
            checkpoint=CheckpointConfig(interval_ms=30, timeout_ms=60, tolerable_failures=1_000),
            restart=FixedDelay(1_000, 5),
        )
        source = CollectionSource([{"n": n} for n in range(ROWS)], splits=6, batch_rows=5)
        env.from_source(source, name="numbers", uid="numbers").sink_to(CollectSink("out"), uid="out")
        self.lab = Lab(env, seed=seed)
        self.reader = next(iter(self.lab.job.vertices)).name + "/0"
        self.assigned = 0
        self.faults = 0
        self.late_until = 0
        self._numbers = numbers
        self._fault = fault

    def run(self, kill_after: int | None = None) -> Lab:
        """Step to the end; kill the worker once this many events have arrived."""
        lab = self.lab
        while not lab.ended:
            enabled = lab.enabled()
            coming = [a for a in enabled if isinstance(a, DeliverMessage) and a.subject == self.reader]
            if coming and coming[0].message == "OperatorEventToTask":
                self.assigned += 1
                if self.assigned in self._numbers and lab.look.at_ms >= self.late_until:
                    self.faults += 1
                    event = lab._world.agenda.message("job", self.reader, 0)
                    assert event is not None
                    assert isinstance(event.word, OperatorEventToTask)
                    self._fault(self, event.word)
                elif lab.look.at_ms >= self.late_until:
                    lab.step(coming[0])
                    if self.assigned == kill_after:
                        lab.faults.kill(0)
                    continue
                else:
                    self.assigned -= 1
            others = [a for a in lab.enabled() if a not in coming or lab.look.at_ms >= self.late_until]
            waits = [a for a in others if isinstance(a, LetTimePass)]
            now = [a for a in others if not isinstance(a, LetTimePass)]
            lab.step((now or waits)[lab.position * 7 % len(now or waits)])
        return lab


def lose(losing: Losing, event: OperatorEventToTask) -> None:
    """The event is gone, and the host says so."""
    losing.lab.faults.lose(f"OperatorEventToTask to {losing.reader}")


def lose_ack(losing: Losing, event: OperatorEventToTask) -> None:
    """The event arrives, but the host does not know it."""
    (message,) = [a for a in losing.lab.enabled() if isinstance(a, DeliverMessage) and a.subject == losing.reader]
    losing.lab.step(message)
    lost = OperatorEventLost(task=event.task, attempt=event.attempt, operator_id=event.operator_id, error="who knows")
    losing.lab._do(lost)


def be_late(losing: Losing, event: OperatorEventToTask) -> None:
    """Let no event reach the reader for several intervals."""
    losing.late_until = losing.lab.look.at_ms + 200


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("numbers", "fault", "kill_after"),
    [
        pytest.param(
            {2, 4, 6},
            lose,
            None,
            id="lost",
            marks=pytest.mark.flink("OperatorEventSendingCheckpointITCase.testOperatorEventLostNoReaderFailure"),
        ),
        pytest.param(
            {1, 3},
            lose,
            4,
            id="lost, and the reader fails",
            marks=pytest.mark.flink("OperatorEventSendingCheckpointITCase.testOperatorEventLostWithReaderFailure"),
        ),
        pytest.param(
            {2, 4},
            lose_ack,
            None,
            id="arrived, but who knows",
            marks=pytest.mark.flink("OperatorEventSendingCheckpointITCase.testOperatorEventAckLost"),
        ),
        pytest.param(
            {2, 4},
            be_late,
            None,
            id="late by many checkpoints",
            marks=pytest.mark.flink("OperatorEventSendingCheckpointITCase.testOperatorEventAckDelay"),
        ),
    ],
)
def test_every_row_is_read_once(
    seed: int, numbers: set[int], fault: Callable[[Losing, OperatorEventToTask], None], kill_after: int | None
) -> None:
    losing = Losing(seed, numbers, fault)
    lab = losing.run(kill_after)
    assert losing.faults == len(numbers)
    assert Counter(lab.output("out")["n"]) == Counter(range(ROWS))
    assert lab.look.master.status.name == "FINISHED"
    if fault is be_late:
        assert "FAILED" in set(lab.checkpoints()["status"]), "checkpoints wait behind the late event until they expire"
        assert lab.look.master.epoch == 1
    else:
        assert lab.look.master.epoch == 1 + len(numbers) + (kill_after is not None)


def test_losing_an_event_is_a_step_like_any_other() -> None:
    losing = Losing(0, {2}, lose)
    lab = losing.run()
    again = Lab(lab.job, seed=lab.past.seed)
    again.replay(lab.past.actions[1:])
    assert [str(record) for record in again.trace] == [str(record) for record in lab.trace]
    assert [str(action) for action in lab.past.actions if isinstance(action, DropMessage)] == [
        f"lose OperatorEventToTask from job to {losing.reader}"
    ]
    with pytest.raises(LabError, match=f"nothing that could be lost now is 'OperatorEventToTask to {losing.reader}'"):
        lab.faults.lose(f"OperatorEventToTask to {losing.reader}")
