"""The twelve missions: `kit.missions()` lists them, and `kit.mission(name)` returns one.

The explorer's panel shows them with a button to start each. Without widgets, start with `mission.lab()`, and ask
`mission.check(lab)` how far you are.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kit.core.protocol.messages import AcknowledgeCheckpoint, NotifyCheckpointComplete
from kit.course.missions.checks import (
    EXPIRED,
    FAILOVER,
    NOT_WRITTEN,
    aborted,
    all_of,
    completed,
    counted_twice,
    every_record_once,
    in_flight_data_is_stored,
    late_acknowledgement,
    later_completed,
    message_lost,
    parallelism,
    published_later,
    records_wait_behind_a_barrier,
    restored,
)
from kit.course.missions.mission import Mission
from kit.course.missions.moves import call, hold_back, until, wait
from kit.hosts.lab.errors import LabError, nearest

RUNNING = call("run_until", record="AllTasksRunning")
TRIGGER = call("trigger_checkpoint")
COMPLETE_1, COMPLETE_2 = call("run_until", checkpoint=1), call("run_until", checkpoint=2)
ABORTED = call("run_until", record="CheckpointAborted")
TO_THE_END = call("run_until", ended=True)
ACKNOWLEDGED = until(
    "any(each.mail == 'ack' for each in lab.moment().messages.values())",
    lambda lab: any(each.mail == "ack" for each in lab.moment().messages.values()),
)

_ALL = (
    Mission(
        "two-checkpoints",
        "Take two checkpoints",
        "The job takes no checkpoints by itself. Trigger two of them, and let both complete.",
        "keyed-sum",
        completed(1, 2),
        (
            "Tasks must run before a checkpoint can begin: run until all tasks are running.",
            "The flag in the control row triggers a checkpoint; Go runs until it is complete.",
        ),
        (RUNNING, TRIGGER, COMPLETE_1, TRIGGER, COMPLETE_2),
        {"rows": 40},
    ),
    Mission(
        "expire",
        "Make checkpoint 2 expire",
        "A checkpoint may take 150 ms here. Let checkpoint 1 complete, and make checkpoint 2 take longer.",
        "keyed-sum",
        all_of(completed(1), aborted(EXPIRED, "it took longer than its timeout", 2)),
        (
            "A checkpoint waits for the acknowledgement of every task. One task that does nothing is enough.",
            "A frozen worker takes no steps, and the job still considers it alive. Click a task to freeze its worker.",
        ),
        (RUNNING, TRIGGER, COMPLETE_1, call("faults.freeze", 1), TRIGGER, ABORTED),
        {"rows": 40, "timeout_ms": 150, "restart": 3},
    ),
    Mission(
        "lost-acknowledgement",
        "Lose an acknowledgement, and nothing else",
        "Lose the acknowledgement of one task. Then run the job to its end, and show that no record is missing.",
        "keyed-sum",
        all_of(message_lost(AcknowledgeCheckpoint, "An acknowledgement"), every_record_once),
        (
            "Run until an acknowledgement is in flight, and click its badge on the stage.",
            "The checkpoint expires. The job continues, because a checkpoint only copies the state.",
        ),
        (RUNNING, TRIGGER, ACKNOWLEDGED, call("faults.lose", "ack"), TO_THE_END),
        {"rows": 40, "timeout_ms": 60, "restart": 3, "tolerable_failures": 3},
    ),
    Mission(
        "failed-write",
        "Let a task fail to write its snapshot",
        "Let one task's snapshot fail, so that the checkpoint is declined. Then complete one without a restart.",
        "keyed-sum",
        all_of(aborted(NOT_WRITTEN, "a snapshot could not be written"), later_completed),
        (
            "A task writes its snapshot after it has received all barriers. Until then nothing can fail.",
            "Search for WriteSnapshot under Faults. A full disk is called io there.",
        ),
        (
            RUNNING,
            TRIGGER,
            until(
                "any('WriteSnapshot' in each.text for each in lab.faults.possible())",
                lambda lab: any("WriteSnapshot" in each.text for each in lab.faults.possible()),
            ),
            call("faults.fail", "WriteSnapshot"),
            ABORTED,
            TRIGGER,
            COMPLETE_2,
        ),
        {"rows": 40, "restart": 3, "tolerable_failures": 3},
    ),
    Mission(
        "blocked-channel",
        "Let records wait behind a barrier",
        "Make one task align for so long that two buffers wait behind the barrier of a blocked channel.",
        "keyed-sum",
        records_wait_behind_a_barrier,
        (
            "A task blocks a channel when its barrier has come, until the barriers of all other channels have come.",
            "Click one channel into sums/0, and hold it back. Then trigger a checkpoint, and step.",
        ),
        (
            RUNNING,
            hold_back("receive letters/1 sums/0"),
            TRIGGER,
            until(
                "any(each.blocked and len(each.arrived) > 1 for each in lab.moment().channels.values())",
                lambda lab: any(each.blocked and len(each.arrived) > 1 for each in lab.moment().channels.values()),
            ),
        ),
        {"rows": 40},
    ),
    Mission(
        "overtaking",
        "Store in-flight data",
        "Barriers overtake records here. Complete a checkpoint that contains buffers which a barrier has overtaken.",
        "keyed-sum",
        in_flight_data_is_stored,
        (
            "A barrier overtakes only what is queued when it comes: let records queue up before you trigger.",
            "Hold a channel back for a while. Or try another moment: step back, and fork.",
        ),
        (RUNNING, TRIGGER, COMPLETE_1),
        {"rows": 40, "unaligned": True},
    ),
    Mission(
        "restore",
        "Restore checkpoint 1",
        "Complete checkpoint 1, lose worker 1, and let the job continue from the checkpoint.",
        "flights",
        restored(1),
        (
            "Click a task of worker 1: its worker can be killed there.",
            "The restart strategy waits for a moment. Run until all tasks are running.",
        ),
        (RUNNING, TRIGGER, COMPLETE_1, call("faults.kill", 1), RUNNING),
        {"rows": 40, "restart": 3},
    ),
    Mission(
        "lost-checkpoint",
        "Lose a checkpoint to a failure",
        "Kill a worker while a checkpoint is pending. Then complete a later checkpoint.",
        "keyed-sum",
        all_of(aborted(FAILOVER, "the job was restarted"), later_completed),
        (
            "Trigger a checkpoint, step once or twice, and kill a worker before all tasks have acknowledged.",
            "Checkpoint ids are never used twice: the next checkpoint has a higher one.",
        ),
        (
            RUNNING,
            TRIGGER,
            call("run_until", record="CheckpointTriggered"),
            call("faults.kill", 1),
            RUNNING,
            TRIGGER,
            COMPLETE_2,
        ),
        {"rows": 40, "restart": 3},
    ),
    Mission(
        "lost-notification",
        "Lose the news of a complete checkpoint",
        "A sink publishes when it learns that a checkpoint is complete. Let it miss the news once, and publish later.",
        "keyed-sum",
        all_of(message_lost(NotifyCheckpointComplete, "A notification"), published_later),
        (
            "Run until checkpoint 1 is complete. The notifications are in flight at this very moment.",
            "Lose the one to sums/1, which has a sink. What it has staged is published with the next checkpoint.",
        ),
        (
            RUNNING,
            TRIGGER,
            COMPLETE_1,
            call("faults.lose", "NotifyCheckpointComplete sums/1"),
            TRIGGER,
            until(
                "lab.moment().tasks['sums/1'].published == 2",
                lambda lab: lab.moment().tasks["sums/1"].published == 2,
            ),
        ),
        {"rows": 40},
    ),
    Mission(
        "late-acknowledgement",
        "Acknowledge too late",
        "Delay an acknowledgement until its checkpoint has expired, and see what the JobMaster does with it.",
        "keyed-sum",
        late_acknowledgement,
        (
            "A checkpoint expires after 40 ms here. A message can be held back for longer.",
            "Run until an acknowledgement is in flight, and search for hold under Faults.",
        ),
        (
            RUNNING,
            TRIGGER,
            ACKNOWLEDGED,
            call("faults.delay", "AcknowledgeCheckpoint", by_ms=100),
            ABORTED,
            wait(120),
        ),
        {"rows": 400, "timeout_ms": 40, "restart": 3, "tolerable_failures": 3},
    ),
    Mission(
        "duplicate",
        "Count a record twice",
        "The mode is at-least-once. Find a schedule in which a record is counted twice.",
        "two-sources",
        counted_twice,
        (
            "Without alignment, a task reads on behind a barrier. These records are in its snapshot, and after a "
            "failure they are read again.",
            "Let one source be far behind when checkpoint 1 begins. Then kill a worker, and run to the end.",
        ),
        (
            RUNNING,
            hold_back("receive right/0 sums/0"),
            TRIGGER,
            COMPLETE_1,
            call("faults.kill", 0),
            TO_THE_END,
        ),
        {"rows": 12, "mode": "at_least_once", "restart": 3},
    ),
    Mission(
        "rescale",
        "Rescale without losing a record",
        "Give sums a third subtask while the job runs. Then run to the end, and show that no record is missing.",
        "keyed-sum",
        all_of(parallelism("sums", 3), every_record_once),
        (
            "The arrow at the end of the control row opens the panel for rescaling.",
            "The job takes a checkpoint, stops, and starts with other ranges of key groups.",
        ),
        (RUNNING, call("rescale", 3, wait=True), TO_THE_END),
        {"rows": 40, "restart": 3},
    ),
)
MISSIONS: Mapping[str, Mission] = {each.name: each for each in _ALL}


def mission(name: str) -> Mission:
    """Return the mission with this name. Raises LabError for an unknown one."""
    if name not in MISSIONS:
        alike = ", ".join(nearest(name, list(MISSIONS)))
        raise LabError(f"there is no mission {name!r}: expected one such as {alike}; kit.missions() lists all")
    return MISSIONS[name]


def missions() -> pd.DataFrame:
    """Return the missions as a table: the name, the title, what to do, the ready job, and the hints."""
    rows = [(each.name, each.title, each.task, each.setup_code, " ".join(each.hints)) for each in MISSIONS.values()]
    return pd.DataFrame(rows, columns=["name", "title", "task", "start", "hints"])
