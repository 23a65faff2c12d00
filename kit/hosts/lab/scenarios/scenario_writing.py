"""Writing any run of a lab as a scenario: its steps as commands.

    do turn:letters/0 receive:0:letters/0:sums/0
    inflict KillWorker(worker=1)
    trigger checkpoint

Actions are written by their keys, faults with all their fields, and the user's requests as in any scenario.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from kit.core.protocol.events import (
    RequestCancel,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
    StartJob,
)
from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import FAULTS
from kit.hosts.lab.scenarios.scenario_text import Block, Command, ScenarioText
from kit.hosts.lab.world.actions import Action, DisposeSavepoint, LetTimePass

LINE_LENGTH = 110
LINES_PER_BLOCK = 10
MATTERS_OF_COURSE = ("do ", "follow ", "take ")


def scenario_of(lines: Iterable[str], name: str, job: str, title: str, question: str) -> ScenarioText:
    """Return the scenario of these commands, in a lab of the ready job `job` or of your own job, without outcomes."""
    return ScenarioText(name, {"title": title, "question": question, "job": job}, tuple(_blocks(list(lines))))


def scenario_lines(actions: Sequence[Action | ProtocolMessage]) -> Iterator[str]:
    """Yield the actions as commands of a scenario. Raises LabError if the run did not start from scratch."""
    keys: list[str] = []
    for action in actions:
        if happens_by_itself(action):
            keys.append(action.key)
            continue
        yield from packed("do", keys)
        keys = []
        if not isinstance(action, StartJob):
            yield line_of(action)
        elif action.restore_path is not None or action.recover:
            raise LabError(
                "this run went on from another lab's, so its actions are not all: "
                "lab.trace.save_recording(path) keeps it, and Lab.follow(job, path, after=...) does it again"
            )
    yield from packed("do", keys)


def happens_by_itself(action: Action | ProtocolMessage) -> TypeGuard[Action]:
    """Return True for an action that is written by its key: no fault, wait or deletion."""
    return isinstance(action, Action) and not isinstance(action, Fault | LetTimePass | DisposeSavepoint)


def packed(verb: str, keys: Sequence[str]) -> Iterator[str]:
    """Yield the lines that apply a command to these keys, with as many keys per line as fit."""
    line: list[str] = []
    for key in keys:
        if line and len(" ".join((*line, key))) > LINE_LENGTH:
            yield f"{verb} {' '.join(line)}"
            line = []
        line.append(key)
    if line:
        yield f"{verb} {' '.join(line)}"


def fault_of(text: str) -> Fault:
    """Parse the fault of an `inflict` line, such as `KillWorker(worker=1)`. Raises LabError."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        fault: Fault = FAULTS[call.func.id](
            **{each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        )
        return fault
    except (AssertionError, KeyError, SyntaxError, TypeError, ValueError) as error:
        raise LabError(f"{text!r} is no fault; there are {', '.join(FAULTS)}, each with its fields") from error


def line_of(action: Action | ProtocolMessage) -> str:
    """Return the command of a fault, a wait or a user's request. Raises LabError for an action without one."""
    if isinstance(action, LetTimePass):
        return f"wait until {action.until_ms} ms"
    if isinstance(action, DisposeSavepoint):
        return f"dispose of {action.path}"
    if isinstance(action, Fault):
        return f"inflict {action.literal}"
    at = f" at {target}" if (target := getattr(action, "target", None)) is not None else ""
    if isinstance(action, RequestCheckpoint):
        return "trigger checkpoint full" if action.full else "trigger checkpoint"
    if isinstance(action, RequestSavepoint):
        return f"trigger savepoint{at}"
    if isinstance(action, RequestStop):
        return f"stop with savepoint{' and drain' if action.drain else ''}{at}"
    if isinstance(action, RequestRescale):
        wanted = ", ".join(f"{name} to {number}" for name, number in action.parallelism.items())
        return f"rescale {wanted}" + ("" if action.at_once else " at the next checkpoint")
    if isinstance(action, RequestCancel):
        return "cancel"
    raise LabError(f"no command of a scenario does {action!r}")


def _blocks(lines: list[str]) -> Iterator[Block]:
    """Yield blocks of some lines each; an unusual line starts a block."""
    block: list[str] = []
    for line in lines:
        if block and (not line.startswith(MATTERS_OF_COURSE) or len(block) == LINES_PER_BLOCK):
            yield _block(block)
            block = []
        block.append(line)
    if block:
        yield _block(block)


def _block(lines: list[str]) -> Block:
    return Block("", tuple(Command(line, 0) for line in lines), ())
