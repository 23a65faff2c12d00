"""What may fail in an exploration."""

from __future__ import annotations

FAULTS = {
    "kill": "a worker dies, with all subtasks of its number",
    "expire": "a checkpoint takes longer than its timeout",
    "fail": "a file, a directory or the store fails: a command ends in the failure that it declares",
    "lose": "an acknowledgement never arrives; when nothing else can happen any more, the checkpoint expires",
    "repeat": "an acknowledgement arrives twice",
}
"""The kinds of fault, and what each is."""
