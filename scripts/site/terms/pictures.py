"""The picture of each term of the glossary: its form with the data, and what it shows in words.

A shot is a moment of a scenario; the cards draw what no moment shows.
"""

from __future__ import annotations

from typing import Protocol

from scripts.site.terms.cards import COLUMNS, Bar, Cut, Files, Graph, Line, Queue, Ranges, Tables
from scripts.site.terms.shots import Shot


class Form(Protocol):
    """A function that draws a picture, with its data."""

    def draw(self, term: str, says: str) -> str:
        """Return the picture as SVG; `says` is its text alternative."""
        ...


EVERY_TASK = tuple(task for tasks in COLUMNS for task in tasks)
ROWS = tuple(zip(*COLUMNS, strict=True))
"""The tasks by the worker that runs them."""

A_JOB: dict[str, tuple[Form, str]] = {
    "job": (Graph(frames=(("the job", EVERY_TASK),)), "All tasks, from the sources to the sink, in one frame"),
    "operator": (Graph(frames=(("the operator accounts", COLUMNS[1]),)), "Both subtasks of one operator in a frame"),
    "source": (Shot("kill-before-the-trigger", 1, ("t:letters/0",)), "A source task at the left end"),
    "sink": (Graph(marked=COLUMNS[2]), "The tasks at the right end, which write the output"),
    "parallelism": (
        Shot("money-kept", 2, ("facts:accounts",), ("title:accounts", "t:accounts/0")),
        "An operator with 2 subtasks",
    ),
    "subtask": (Shot("subsumption", 3, ("t:sums/1",), ("t:sums/0",)), "The second of two subtasks of an operator"),
    "chain": (Shot("money-kept", 2, ("title:accounts",), ("t:accounts/0",)), "Two operators in one task"),
    "task": (Shot("kill-during-alignment", 3, ("t:right/0",)), "One box: the task right/0"),
    "JobMaster": (
        Shot("subsumption", 3, ("jm:title",), ("jm:idle",)),
        "The title of the JobMaster's panel",
    ),
    "worker": (Graph(frames=(("worker 0", ROWS[0]),)), "One worker runs a subtask of each operator"),
    "slot": (
        Graph(frames=(("slot 0", ROWS[0]), ("slot 1", ROWS[1])), marked=ROWS[1]),
        "Two slots, each with a subtask of every operator; the tasks of slot 1 are marked",
    ),
    "driver": (
        Tables(
            (("*driver", ("JobMaster", "coordinator")), ("worker 0", ("tasks",)), ("worker 1", ("tasks",))),
            "The driver starts the workers.",
        ),
        "The driver, with the JobMaster, and two workers",
    ),
}

RECORDS: dict[str, tuple[Form, str]] = {
    "record": (
        Queue((("record", "ann −30"), ("record", "bob +30"), ("record", "eve −20")), (1,), "Each is one posting."),
        "Three records on their way to a task, one of them marked",
    ),
    "channel": (Shot("money-kept", 2, ("west/0 -> accounts/1",)), "The line from one task to another"),
    "buffer": (
        Shot("kill-before-the-trigger", 1, ("letters/0 -> sums/0:buffer",), ("t:sums/0",)),
        "One buffer in the queue of a receiver",
    ),
    "credit": (
        Queue(
            (("record", ""), ("record", ""), ("free", "free"), ("free", "free")),
            (2, 3),
            "Two credits: two more buffers may be sent.",
        ),
        "A queue with two buffers and two free places",
    ),
    "backpressure": (
        Shot("kill-before-the-trigger", 1, ("letters/0 -> sums/1:sent",), ("t:letters/0",)),
        "Buffers that wait at the sender because the receiver is slow",
    ),
    "in flight": (
        Shot("money-kept", 1, ("east/0 -> accounts/1:arrived",), ("t:accounts/1",)),
        "The records that wait in front of a task",
    ),
    "partitioner": (Graph(edges=True), "The connections from each source to each account, chosen record by record"),
    "watermark": (
        Queue(
            (("record", "3"), ("record", "5"), ("box", "w 5"), ("record", "6"), ("record", "8")),
            (2,),
            "The records behind w 5 are all later than 5.",
        ),
        "A watermark between records; those behind it have later times",
    ),
    "event time": (
        Queue(
            (("record", "12:03"), ("record", "12:01"), ("record", "12:02")),
            (0, 1, 2),
            "The times are in the records, in any order.",
        ),
        "Records with the times that are written in them, out of order",
    ),
}

A_CHECKPOINT: dict[str, tuple[Form, str]] = {
    "checkpoint": (
        Shot("money-kept", 2, ("chip0",), ("jm:title",)),
        "A completed checkpoint, with its duration and size",
    ),
    "consistent cut": (
        Cut(0.5, 0.9, "Sent after the cut, consumed after the cut.", good=True),
        "A record that is after the cut at both ends",
    ),
    "invariant": (
        Tables(
            (("sent", ("12 postings",)), ("counted", ("9 postings",)), ("in flight", ("3 postings",))),
            "12 = 9 + 3: each posting is counted once.",
            between="=+",
        ),
        "12 postings sent are 9 counted and 3 in flight",
    ),
    "barrier": (Shot("overtaking", 1, ("left/0 -> sums/0:barrier",), ("t:sums/0",)), "A barrier in front of a task"),
    "snapshot": (Shot("subsumption", 1, ("t:sums/1",)), "A task that writes its part of checkpoint 1"),
    "checkpoint coordinator": (
        Shot("overtaking", 1, ("jm:title",), ("pending0",)),
        "The JobMaster's panel, with a pending checkpoint",
    ),
    "acknowledgement": (
        Shot("subsumption", 1, ("t:left/0:badge",), ("t:left/0",)),
        "The sign of a task that has acknowledged checkpoint 1",
    ),
    "decline": (
        Shot("decline", 1, ("m:sums/0:out",), ("t:sums/0",)),
        "The message that declines checkpoint 1",
    ),
    "pending checkpoint": (Shot("overtaking", 1, ("pending0",)), "Checkpoint 1, without any of its 3 acknowledgements"),
    "completed checkpoint": (Shot("subsumption", 2, ("chip1",)), "Checkpoint 2, which is complete"),
    "notification": (
        Shot("money-kept", 2, ("m:accounts/0:in",), ("t:accounts/0",)),
        "The message to a task that checkpoint 1 is complete",
    ),
    "abort": (
        Shot("kill-before-the-trigger", 2, ("m:letters/0:in",), ("t:letters/0",)),
        "The message to a task that checkpoint 1 was aborted",
    ),
    "expire": (
        Line(
            (("checkpoint 1", (Bar(5, 70, "box", "pending"),)),),
            ((76, 0, "✗", "head bad"),),
            note="The timeout passes before the last task answers.",
        ),
        "A checkpoint that is still pending when its timeout passes",
    ),
    "subsume": (
        Line(
            (
                ("checkpoint 1", (Bar(0, 62, "held", "pending", True),)),
                ("checkpoint 2", (Bar(30, 62, "box", "pending"), Bar(64, 98, "safe", "complete"))),
            ),
            ((68, 0, "✗", "head bad"),),
        ),
        "Checkpoint 1 is aborted when checkpoint 2 is complete",
    ),
    "minimum pause": (
        Line(
            (
                (
                    "",
                    (
                        Bar(2, 34, "box", "checkpoint 1"),
                        Bar(36, 62, "held", "pause", True),
                        Bar(64, 98, "box", "checkpoint 2"),
                    ),
                ),
            )
        ),
        "The pause between two checkpoints",
    ),
    "synchronous part": (
        Line(
            (
                (
                    "task",
                    (Bar(0, 30, "box", "records"), Bar(32, 50, "safe", "copy", True), Bar(52, 100, "box", "records")),
                ),
                ("writing", (Bar(52, 88, "held", "write"),)),
            )
        ),
        "A task copies its state, and processes no records meanwhile",
    ),
    "asynchronous part": (
        Line(
            (
                ("task", (Bar(0, 30, "box", "records"), Bar(32, 50, "safe", "copy"), Bar(52, 100, "box", "records"))),
                ("writing", (Bar(52, 88, "held", "write", True),)),
            )
        ),
        "The copy is written while the task processes records again",
    ),
}

WAITING: dict[str, tuple[Form, str]] = {
    "alignment": (
        Shot("money-kept", 1, ("t:accounts/1",)),
        "A task that has one of two barriers and waits for the other",
    ),
    "blocked channel": (
        Shot("end-of-partition-for-a-barrier", 2, ("long/0 -> sums/1:arrived",), ("t:sums/1",)),
        "A dashed line with a lock, in front of a task that waits for the other barrier",
    ),
    "aligned checkpoint": (
        Queue(
            (("record", ""), ("record", ""), ("record", ""), ("barrier", "1")),
            (3,),
            "The barrier waits for its turn.",
            "slow",
        ),
        "A barrier behind three records",
    ),
    "unaligned checkpoint": (
        Queue(
            (("barrier", "1"), ("stored", ""), ("stored", ""), ("stored", "")),
            (1, 2, 3),
            "The barrier overtakes; these records are stored.",
            "slow",
        ),
        "A barrier ahead of three records, which are stored",
    ),
    "alignment timeout": (
        Line(
            (("", (Bar(2, 49, "box", "aligned: waits"), Bar(57, 98, "stored", "unaligned"))),),
            ((53, 0, "│", "head bad"),),
            note="At the timeout, the barriers begin to overtake.",
        ),
        "A checkpoint that is aligned until the timeout and unaligned after it",
    ),
    "exactly once": (
        Tables((("sent", ("48 postings",)), ("*counted", ("48 postings",))), "After any failure.", between="="),
        "48 postings sent and 48 counted",
    ),
    "at least once": (
        Cut(0.5, 0.6, "Read again, although it was counted.", good=False),
        "A record that is sent after the source's copy and is in the task's copy",
    ),
    "end of partition": (
        Shot("end-of-partition-for-a-barrier", 2, ("short/0 -> sums/0:last",), ("short/0 -> sums/0:arrived",)),
        "The mark of a channel's end, on its way to a task",
    ),
}

STATE: dict[str, tuple[Form, str]] = {
    "keyed state": (
        Tables(
            (("accounts/0", ("*ann  95", "*bob  115")), ("accounts/1", ("*eve  120", "*joe  70"))),
            "One value for each key.",
        ),
        "Two subtasks with the balances of two accounts each",
    ),
    "operator state": (
        Tables((("east", ("*position 6",)), ("west", ("*position 4",))), "Each subtask has its own entries."),
        "Two sources with a position each",
    ),
    "broadcast state": (
        Tables((("accounts/0", ("*limit 100",)), ("accounts/1", ("*limit 100",))), "The same value in every subtask."),
        "Two subtasks with the same value",
    ),
    "key group": (Ranges((2,), (2,), "Group 2, with all keys that are in it."), "Eight key groups, one of them marked"),
    "maximum parallelism": (
        Ranges((2,), tuple(range(8)), "Eight groups: at most eight subtasks."),
        "All eight key groups",
    ),
    "state backend": (
        Tables((("task accounts/0", ("processes records", "*store: ann 95, bob 115")),)),
        "A task with its store of balances",
    ),
    "incremental checkpoint": (
        Files(
            (
                ("checkpoint 1", (("a", "box"), ("b", "box"))),
                ("checkpoint 2", (("a", "held"), ("b", "held"), ("*c", "barrier"))),
            ),
            "Checkpoint 2 writes c, and refers to a and b.",
        ),
        "Two checkpoints; the second refers to both files of the first and writes one",
    ),
    "state handle": (
        Files(
            (
                ("a handle", (("*bytes 40 to 160 of a", "box"),)),
                ("file a", (("40", "box"), ("120 bytes", "barrier"), ("…", "box"))),
            )
        ),
        "The description of a range of bytes in a file",
    ),
    "`_metadata`": (
        Files((("checkpoint 1", (("*_metadata", "barrier"),)), ("lists", (("a", "box"), ("b", "box"), ("c", "box"))))),
        "The metadata file, which lists three files",
    ),
}

FAILURE: dict[str, tuple[Form, str]] = {
    "restore": (
        Shot("kill-during-alignment", 3, ("t:sums/0:detail",), ("t:sums/0",)),
        "A task whose state comes from checkpoint 1",
    ),
    "restart": (
        Shot("kill-during-alignment", 2, ("jm:status",)),
        "The status of a job whose worker was lost",
    ),
    "restart strategy": (
        Line(
            (("", (Bar(0, 26, "box", "runs"), Bar(36, 60, "box", "runs"), Bar(70, 90, "box", "runs"))),),
            ((30, 0, "✗", "head bad"), (64, 0, "✗", "head bad"), (95, 0, "✗", "head bad")),
            note="Two restarts, with a delay. Then the job fails.",
        ),
        "A job that fails three times and is restarted twice",
    ),
    "attempt": (
        Line(
            (("sums/1", (Bar(0, 44, "box", "sums/1@1"), Bar(58, 100, "box", "sums/1@2", True))),),
            ((51, 0, "✗", "head bad"),),
        ),
        "The second execution of a subtask, after a failure",
    ),
    "region, pipelined region": (
        Line(
            (
                ("a/0", (Bar(0, 44, "box", "a/0@1"), Bar(58, 100, "box", "a/0@2", True))),
                ("a/1", (Bar(0, 44, "box", "a/1@1"), Bar(58, 100, "box", "a/1@2", True))),
                ("b/0", (Bar(0, 100, "box", "b/0@1"),)),
            ),
            ((51, 1, "✗", "head bad"),),
            note="No exchange connects b/0 with the others.",
        ),
        "Two tasks that an exchange connects restart together, while a third runs on",
    ),
    "epoch": (
        Line(
            (
                ("sums/0", (Bar(0, 44, "box", "epoch 1"), Bar(58, 100, "box", "epoch 2", True))),
                ("sums/1", (Bar(0, 44, "box", "epoch 1"), Bar(58, 100, "box", "epoch 2", True))),
            ),
            ((51, 1, "✗", "head bad"),),
        ),
        "All tasks run in epoch 1 until one fails, and again in epoch 2",
    ),
    "deployment": (
        Line(
            (
                ("pipeline a", (Bar(0, 100, "box", "deployment 1"),)),
                ("pipeline b", (Bar(0, 44, "box", "deployment 2"), Bar(58, 100, "box", "deployment 3", True))),
            ),
            ((51, 1, "✗", "head bad"),),
        ),
        "One of two pipelines fails and is deployed again, while the other runs on",
    ),
    "tolerable failures": (
        Line(
            (
                (
                    "",
                    (
                        Bar(0, 20, "safe", "1 ✓"),
                        Bar(22, 42, "box", "2 ✗", True),
                        Bar(44, 64, "safe", "3 ✓"),
                        Bar(66, 86, "box", "4 ✗", True),
                    ),
                ),
            ),
            note="One in a row is tolerated, and a success resets it.",
        ),
        "Checkpoints that fail and complete in turn",
    ),
    "master hook": (
        Tables(
            (("checkpoint 1", ("tasks: 4 snapshots", "*hook: position 7")), ("ledger", ("7 lines",))),
            "A restore cuts the ledger back to line 7.",
        ),
        "A checkpoint with the value of an outside system",
    ),
}

CHANGES: dict[str, tuple[Form, str]] = {
    "savepoint": (Shot("concurrent-savepoints", 1, ("pending0",)), "A pending savepoint"),
    "stop with savepoint": (
        Line(
            (
                ("sources", (Bar(0, 58, "box", "read"), Bar(60, 64, "barrier", "", True))),
                ("job", (Bar(0, 90, "box", "runs"),)),
            ),
            ((96, 1, "■", "head"),),
            note="The sources stop at the savepoint's barrier.",
        ),
        "The sources stop reading at the barrier, and the job ends when the savepoint is complete",
    ),
    "drain": (
        Line(
            (
                (
                    "windows",
                    (
                        Bar(0, 20, "safe", "fired"),
                        Bar(23, 43, "safe", "fired"),
                        Bar(48, 89, "moved", "fires now", True),
                    ),
                ),
            ),
            ((96, 0, "■", "head"),),
            note="The open window fires before the stop.",
        ),
        "An open window that fires before the job stops",
    ),
    "uid": (
        Files(
            (("savepoint", (("uid accounts: 4 balances", "box"),)), ("new job", (("*uid accounts", "barrier"),))),
            "The state finds the operator by its uid.",
        ),
        "State in a savepoint and an operator of a new job with the same uid",
    ),
    "rescale": (
        Ranges((2, 3), (3, 6, 7), "Marked groups move to another subtask."),
        "Eight key groups with two subtasks, and with three",
    ),
    "non-restored state": (
        Files(
            (("savepoint", (("accounts", "box"), ("*audit", "held"))), ("new job", (("accounts", "box"),))),
            "No operator of the job has the uid audit.",
        ),
        "State in a savepoint whose operator the new job does not have",
    ),
}

OUTPUT: dict[str, tuple[Form, str]] = {
    "two-phase commit": (
        Line(
            (("output", (Bar(0, 44, "held", "1: staged"), Bar(54, 98, "safe", "2: published"))),),
            ((49, 0, "✓", "head good"),),
            note="✓ The checkpoint is complete.",
        ),
        "Output that is staged until the checkpoint is complete, and published then",
    ),
    "staged output": (
        Files(
            (("published", (("part-0", "safe"), ("part-1", "safe"))), ("staged", (("*part-2", "held"),))),
            "Readers do not see part-2 yet.",
        ),
        "A file that is written and not yet visible",
    ),
    "committable": (
        Files(
            (
                ("checkpoint 1", (("positions", "box"), ("*publish part-2", "barrier"))),
                ("staged", (("part-2", "held"),)),
            )
        ),
        "An entry of a checkpoint that names a staged file",
    ),
}

PICTURES: dict[str, tuple[Form, str]] = {
    **A_JOB,
    **RECORDS,
    **A_CHECKPOINT,
    **WAITING,
    **STATE,
    **FAILURE,
    **CHANGES,
    **OUTPUT,
}


def picture(term: str) -> str:
    """Return the picture of a term as SVG. Raises KeyError for a term without one."""
    form, says = PICTURES[term]
    return form.draw(term, says)
