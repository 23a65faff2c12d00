"""How a host carries a command out: with a function of its table, and whatever that raises becomes an answer.

A driver that has lost the leadership finds so whatever it does with its store, and its JobMaster hears only that.

What goes wrong outside (a full disk, a missing savepoint) and what nobody foresaw (an error of the user's own source or
hook, or of ours) end alike: in the event with which the command says that it failed. Where a command has none nobody
waits for it, and the log has the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from kit.core.protocol.duties import Command, check_answer
from kit.core.protocol.events import LeadershipLost
from kit.core.protocol.words import ProtocolError, Word
from kit.hosts.files.stores.errors import LeadershipLostError

logger = logging.getLogger("kit.hosts.files")


def carry_out(owner: Any, how: Mapping[type[Word], Callable[[Any, Any], Word | None]], command: Command) -> Word | None:
    """Have `owner` do what the command says; gives the event that answers it.

    Raises ProtocolError for a command that `how` does not have, and for an answer that the command does not declare.
    """
    do = how.get(type(command))
    if do is None:
        raise ProtocolError(f"{owner!r} does not know how to carry out {command!r}")
    try:
        answer = do(owner, command)
    except LeadershipLostError as error:
        answer = LeadershipLost(error=str(error))
    except Exception as error:
        answer = command.failed(error)
        if answer is None:
            logger.warning("%s: %s: %s", type(command).__name__, type(error).__name__, error)
    check_answer(command, answer)
    return answer
