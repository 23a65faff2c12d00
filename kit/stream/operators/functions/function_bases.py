"""Base classes that give a user's function hooks of its own, and checks that a function has the ones it needs."""

from __future__ import annotations

from typing import Any

from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.functions.checkpointed import CheckpointedFunction

HOOKS: dict[type, tuple[str, ...]] = {
    CheckpointListener: ("notify_checkpoint_complete", "notify_checkpoint_aborted"),
    CheckpointedFunction: ("initialize_state", "snapshot_state"),
}
"""The methods that are called only on a function that is derived from the class."""


def check_bases(function: type, operator: str) -> None:
    """Raise TypeError for a class that defines a hook which is never called, because it lacks the base class."""
    for base, hooks in HOOKS.items():
        defined = [hook for hook in hooks if callable(getattr(function, hook, None))]
        if defined and not issubclass(function, base):
            raise TypeError(
                f"{operator}: {function.__name__} defines {defined[0]}, which is called only on a {base.__name__}: "
                f"derive {function.__name__} from {base.__name__} as well"
            )


def check_shared(value: Any, operator: str, remedy: str) -> None:
    """Raise TypeError for a function, source or sink with hooks, if one object serves all subtasks.

    `remedy` says where the hooks would be called.
    """
    kind = value if isinstance(value, type) else type(value)
    for base in HOOKS:
        if issubclass(kind, base):
            raise TypeError(
                f"{operator}: {kind.__name__} is a {base.__name__}, but its hooks are never called, because all "
                f"subtasks share one object: {remedy}"
            )
