"""All commands: what machines ask of their hosts, and the messages they send to each other."""

from __future__ import annotations

from types import ModuleType

from kit.core.protocol import commands, messages
from kit.core.protocol.duties import Command
from kit.core.protocol.notes import NOTES


def _commands_in(module: ModuleType) -> tuple[type[Command], ...]:
    return tuple(
        word
        for word in vars(module).values()
        if isinstance(word, type) and issubclass(word, Command) and word.__module__ == module.__name__
    )


COMMANDS = _commands_in(commands) + _commands_in(messages) + NOTES
"""All commands, including the base classes of the messages."""
