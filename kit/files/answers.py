"""The execution of a command by a host: a function from its table, and an answer for everything that it raises.

A driver that has lost the leadership finds out with any use of its store, and its JobMaster receives only that.

External failures (a full disk, a missing savepoint) and unexpected errors (in the user's source or hook, or in the kit)
end alike: in the event with which the command reports that it failed. If a command has no such event, no machine waits
for it, and the error is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from kit.core.protocol.duties import Command, check_answer
from kit.core.protocol.events import LeadershipLost
from kit.core.protocol.words import ProtocolError, ProtocolMessage
from kit.files.stores.errors import LeadershipLostError

logger = logging.getLogger("kit.files")


def carry_out(
    owner: Any, how: Mapping[type[ProtocolMessage], Callable[[Any, Any], ProtocolMessage | None]], command: Command
) -> ProtocolMessage | None:
    """Let `owner` carry out the command, and return the event that answers it.

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
