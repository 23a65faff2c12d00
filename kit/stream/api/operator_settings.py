"""What can be said of an operator once it is there: the methods that streams and sinks share.

Each returns the stream or sink it was called on. Follows the setters of Flink's `SingleOutputStreamOperator`.
"""

from __future__ import annotations

from typing import Self

from kit.stream.api.drafts import Drafts
from kit.stream.api.transformation import Transformation, check_parallelism
from kit.stream.graph.stream_graph import ChainingStrategy, GraphError


class OperatorSettings:
    """What can be said of an operator: who it is, how many subtasks it has, and whom it may share a task with."""

    _drafts: Drafts
    _transformation: Transformation

    def uid(self, uid: str) -> Self:
        """Under which name checkpoints keep the operator's state. Raises DuplicateUidError when it is taken: the
        operator is not in the job then, which is as it was before.
        """
        if not uid:
            raise GraphError(f"the uid of {self._transformation.label!r} is empty: give it at least one character")
        self._drafts.give_uid(self._transformation, uid)
        return self

    def name(self, name: str) -> Self:
        """What pictures and messages call the operator. It may change between runs, a uid must not."""
        self._transformation.name = name
        return self

    def identified(self, uid: str | None, name: str | None) -> Self:
        """Set the uid and the name, each if given."""
        if name is not None:
            self.name(name)
        return self if uid is None else self.uid(uid)

    def set_parallelism(self, parallelism: int) -> Self:
        """How many subtasks run the operator, 1 or more and no more than its maximum parallelism."""
        check_parallelism(self._transformation.label, parallelism, self._transformation.max_parallelism)
        self._transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """How many subtasks may ever run the operator, which is its number of key groups; fixed by its first
        checkpoint. 1 to 32768.
        """
        check_parallelism(self._transformation.label, self._transformation.parallelism, max_parallelism)
        self._transformation.max_parallelism = max_parallelism
        return self

    def disable_chaining(self) -> Self:
        """Give the operator a task of its own."""
        self._transformation.chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Let a new task begin with this operator."""
        self._transformation.chaining = ChainingStrategy.HEAD
        return self
