"""The settings of an added operator: the methods that streams and sinks share.

Each returns the stream or sink it was called on. Follows the setters of Flink's `SingleOutputStreamOperator`.
"""

from __future__ import annotations

from typing import Self

from kit.stream.api.transformation import Transformation, check_parallelism
from kit.stream.api.transformations import Transformations
from kit.stream.graph.stream_graph import ChainingStrategy, GraphError


class OperatorSettings:
    """The setters of an operator's identity, parallelism and chaining."""

    _transformations: Transformations
    _transformation: Transformation

    def uid(self, uid: str) -> Self:
        """Set the name under which checkpoints keep the operator's state.

        Raises DuplicateUidError if it is taken: the operator is then not in the job, which is otherwise unchanged.
        """
        self._expect_text("uid", uid)
        if not uid:
            raise GraphError(f"the uid of {self._transformation.label!r} is empty: give it at least one character")
        self._transformations.give_uid(self._transformation, uid)
        return self

    def name(self, name: str) -> Self:
        """Set the operator's name in pictures and messages. Unlike a uid, it may change between runs."""
        self._expect_text("name", name)
        self._transformation.name = name
        return self

    def _expect_text(self, what: str, found: object) -> None:
        if not isinstance(found, str):
            raise GraphError(f"the {what} of {self._transformation.label!r} is {found!r}, but must be a text")

    def identified(self, uid: str | None, name: str | None) -> Self:
        """Set the uid and the name, each if given."""
        if name is not None:
            self.name(name)
        return self if uid is None else self.uid(uid)

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks: at least 1, and at most the maximum parallelism."""
        check_parallelism(self._transformation.label, parallelism, self._transformation.max_parallelism)
        self._transformation.own_parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the maximum number of subtasks, which is the number of key groups: 1 to 32768.

        It is fixed by the operator's first checkpoint.
        """
        check_parallelism(self._transformation.label, self._transformation.parallelism, max_parallelism)
        self._transformation.own_max_parallelism = max_parallelism
        return self

    def disable_chaining(self) -> Self:
        """Give the operator a task of its own."""
        self._transformation.chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Start a new task with this operator."""
        self._transformation.chaining = ChainingStrategy.HEAD
        return self
