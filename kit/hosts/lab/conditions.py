"""The conditions of `Lab.run_until`: a checkpoint, a record, a time, the end, or a function of the lab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.arguments.checks import flag_given
from kit.core.arguments.durations import Duration, DurationError, to_ms
from kit.hosts.lab.errors import LabError, enumerated, nearest, whole_number
from kit.hosts.lab.faults.faults import FAULTS
from kit.run.kinds import KINDS

Condition = Callable[[int], bool]
"""Returns True if the condition holds after a step; takes the number of records before the step."""


def record_kinds() -> tuple[str, ...]:
    """Return the kinds of record that a trace may have: the names of all commands, events, notes and faults."""
    return tuple(sorted({*KINDS, *FAULTS}))


def condition_of(
    lab: Any,
    until: Callable[[Any], bool] | None,
    checkpoint: int | None,
    record: str | None,
    at_ms: Duration | None,
    *,
    ended: bool,
) -> Condition:
    """Return the condition for the arguments of `Lab.run_until`: True if any of them holds. Raises LabError for one
    that can never hold, and if there are none.
    """
    conditions: list[Condition] = []
    if until is not None:
        if not callable(until):
            raise LabError(f"until is {until!r}, but must be a function of the lab; checkpoint=3 for checkpoint 3")
        conditions.append(lambda before: until(lab))
    if checkpoint is not None:
        if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or checkpoint < 0:
            raise LabError(
                f"there will be no checkpoint {checkpoint!r}: they are counted from 1, and checkpoint=1 is the first"
            )
        conditions.append(lambda before: lab._world.master.checkpoints.store.latest_id >= checkpoint)
    if record is not None:
        if not isinstance(record, str) or record not in record_kinds():
            raise LabError(f"no record is a {record!r}; did you mean {enumerated(nearest(record, record_kinds()))}?")
        conditions.append(lambda before: any(each.kind == record for each in lab.trace.since(before)))
    if at_ms is not None:
        try:
            until_ms = to_ms(at_ms, "run_until: at_ms")
        except DurationError as error:
            raise LabError(str(error)) from None
        whole_number("at_ms", until_ms, "a time of the lab, as lab.look.at_ms is", 0)
        conditions.append(lambda before: lab._world.at_ms >= until_ms)
    if flag_given("ended", ended):
        conditions.append(lambda before: lab.ended)
    if not conditions:
        raise LabError("run_until needs a condition: checkpoint=, record=, at_ms=, ended=True or a function")
    return conditions[0] if len(conditions) == 1 else lambda before: any(each(before) for each in conditions)
