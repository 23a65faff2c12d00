"""The names of operators in tables and errors, and the operator that a user names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from kit.core.metadata import CheckpointMetadata
from kit.core.state.errors import CheckpointError, StateError
from kit.core.state.operator_state import OperatorState
from kit.stream.graph.hashing import operator_id_of_uid

MOST_NAMED = 12
"""Names that an error lists."""


def label(operator: OperatorState) -> str:
    """Return what an operator is called in tables: its uid, else its name, else its id."""
    return operator.uid or operator.name or operator.operator_id


def with_uids(metadata: CheckpointMetadata, uids: Iterable[str]) -> CheckpointMetadata:
    """Return the metadata with these uids for the operators whose ids are their hashes and that have no uid.

    Raises TypeError unless the uids are texts.
    """
    listed = list(uids)
    if isinstance(uids, str) or not all(isinstance(each, str) for each in listed):
        raise TypeError(f"uids is {uids!r}, but must be a list of the uids of operators")
    of_id = {operator_id_of_uid(uid): uid for uid in listed}
    states = (
        replace(each, uid=of_id[each.operator_id]) if each.uid is None and each.operator_id in of_id else each
        for each in metadata.operator_states
    )
    return replace(metadata, operator_states=tuple(states)) if of_id else metadata


def operator_named(operators: Sequence[OperatorState], name: str) -> OperatorState:
    """Return the operator of this uid, name or id.

    Raises KeyError if there is none, or several of the name, and TypeError for a name that is not text.
    """
    if not isinstance(name, str):
        raise TypeError(f"operator is {name!r}, but must be the uid, the name or the id of an operator")
    hashed = operator_id_of_uid(name)
    for wanted in (
        lambda each: name in (each.uid, each.operator_id),
        lambda each: each.operator_id == hashed,
        lambda each: each.name == name,
    ):
        found = [each for each in operators if wanted(each)]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(each.operator_id for each in found)
            raise KeyError(f"{len(found)} operators are named {name!r}: give the id of one of them, {ids}")
    there = [label(each) for each in operators]
    more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
    raise KeyError(f"there is no operator {name!r}; there are {', '.join(there[:MOST_NAMED]) or 'none'}{more}")


@contextmanager
def errors_about(operator: OperatorState, what: str) -> Iterator[None]:
    """Name the operator and the state in an error of its files, which becomes a CheckpointError."""
    called = label(operator)
    try:
        yield
    except CheckpointError as error:
        if str(error).startswith(f"{called}, "):  # a part of the state has said so
            raise
        raise error.about(f"{called}, {what}") from error
    except (StateError, OSError, OverflowError, pa.ArrowException) as error:
        raise CheckpointError(f"{called}, {what}: {error}") from error
