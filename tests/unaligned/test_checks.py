"""The checks find errors: a record that is lost, repeated, or out of order on a channel."""

from __future__ import annotations

from collections import deque

import pandas as pd
import pytest

from kit.core.protocol.elements import Buffer, Element
from kit.machines.channel.event_announcement import EventAnnouncement
from kit.machines.channel.input_channel import SequenceBuffer
from tests.unaligned.driver import Driver
from tests.unaligned.jobs import Plan, problems
from tests.unaligned.topologies import TOPOLOGIES


def damaged(topology: str, damage: str) -> list[str]:
    """Run a job in which one queue is tampered with; returns what the checks report."""
    driver = Driver(Plan(topology=topology, rows=20, batch_rows=1), 3, slow=["verified"])
    driver.run_until(lambda: _queue_of_buffers(driver) is not None)
    queue = _queue_of_buffers(driver)
    assert queue is not None
    first, second = queue[0].element, queue[1].element
    assert isinstance(second, Buffer)
    if damage == "reorder":
        queue[0], queue[1] = _with(queue[0], second), _with(queue[1], first)
    elif damage == "double":
        queue[1] = _with(queue[1], first)
    else:
        queue[1] = _with(queue[1], Buffer(second.batch.slice(0, 0)))
    driver.run()
    return problems(driver.plan, driver.lab.output("rows"), TOPOLOGIES[topology].sources)


def _with(item: SequenceBuffer, element: Element | EventAnnouncement) -> SequenceBuffer:
    return SequenceBuffer(element, item.sequence_number, item.cause)


def _queue_of_buffers(driver: Driver) -> deque[SequenceBuffer] | None:
    """Records that wait before the last task."""
    for name, task in driver.lab._world.tasks.items():
        for channel in task.inputs if name.startswith("verified") else ():
            queue = channel._queue.others
            if len(queue) > 1 and all(isinstance(item.element, Buffer) for item in queue):
                return queue
    return None


@pytest.mark.parametrize("topology", ["PIPELINE", "union", "CUSTOM_PARTITIONER"])
@pytest.mark.parametrize(
    ("damage", "found"),
    [("reorder", "after"), ("double", "twice"), ("lose", "lost")],
    ids=["reorder", "double", "lose"],
)
def test_damage_to_a_channel_is_seen(topology: str, damage: str, found: str) -> None:
    assert any(found in problem for problem in damaged(topology, damage))


def test_what_counts_as_a_promise_kept() -> None:
    rows = pd.DataFrame({"source": 0, "n": [0, 1, 2, 2], "key": 0, "count": [1, 2, 3, 4], "wrong": None})
    once, often = (Plan(topology="PIPELINE", splits=1, rows=3, mode=mode) for mode in ("exactly_once", "at_least_once"))
    assert problems(often, rows, [0], "key") == []
    assert problems(once, rows, [0], "key") == ["twice [(0, 2)]"]
    assert problems(once, rows[:3], [0], "key") == []
    assert problems(often, rows[:2], [0]) == ["lost [(0, 2)]"]
    assert problems(once, rows[1:3].assign(n=[0, 1]), [0], "key") == [
        "lost [(0, 2)]",
        "key 0 of source 0 was counted as [2, 3]",
    ]
    assert problems(often, rows[:3], []) == ["never sent [(0, 0), (0, 1), (0, 2)]"]
    assert problems(once, rows[:0], [0]) == ["nothing was committed"]
