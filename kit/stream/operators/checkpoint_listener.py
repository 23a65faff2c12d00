"""User functions that are notified of how checkpoints end.

Derive a function from `CheckpointListener` as well as from its own base class:

    class Confirming(ProcessFunction, CheckpointedFunction, CheckpointListener):
        PENDING = ListStateDescriptor("pending", pa.struct([("checkpoint_id", pa.int64()), ("n", pa.int64())]))

        def initialize_state(self, context):
            self.state = context.operator_state.list_state(self.PENDING)
            self.pending = self.state.get()
            self.since_the_last = []

        def process_element(self, row, ctx):
            self.since_the_last.append(row["n"])
            ctx.emit(row)

        def snapshot_state(self, context):
            self.pending += [{"checkpoint_id": context.checkpoint_id, "n": n} for n in self.since_the_last]
            self.since_the_last = []
            self.state.update(self.pending)

        def notify_checkpoint_complete(self, checkpoint_id):
            confirm([each["n"] for each in self.pending if each["checkpoint_id"] <= checkpoint_id])
            self.pending = [each for each in self.pending if each["checkpoint_id"] > checkpoint_id]

A notification comes after the fact, and it can be missed: a task that fails before it is notified is restored from that
very checkpoint and never hears of it. So a listener follows Flink's rule for subsumed checkpoints: the completion of a
checkpoint covers all checkpoints with a lower id, whether they completed or not. A task is notified of completions in
ascending order of their ids, and of each at most once. A savepoint is announced only if the job stops with it.
In 1.11 every savepoint is announced, and a completion that a task missed is not made up for by an abort.

The operators of a task are notified from the tail of its chain to the head, and all of them even if one fails. An
exception fails the task, and with it the job; the checkpoint stays completed or aborted. A task that is not running is
not notified.

Follows Flink's `CheckpointListener`.
"""

from __future__ import annotations


class CheckpointListener:
    """A second base class of a user's function that is notified of how checkpoints end.

    The module `kit.stream.operators.checkpoint_listener` says what a listener can rely on.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of this checkpoint, and with it of all earlier ones that have ended.

        Flink: `CheckpointListener.notifyCheckpointComplete`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define notify_checkpoint_complete(checkpoint_id)")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle the abort of this checkpoint; discard nothing, since the next one covers it too.

        Flink: `CheckpointListener.notifyCheckpointAborted`.
        """
