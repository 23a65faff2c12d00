"""Checks of the lab "a master hook": an outside system that is kept consistent with the job's checkpoints.

The outside system is a `Ledger`: a list of lines with a position, which a hook may append to and cut. It does not go
back with the lab: like any other system it must be told to.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import letters, reached, walked
from kit.hosts.lab.lab import Lab
from kit.machines.coordinator.master_hooks import MasterHook

ORDERS = range(6)


class Ledger:
    """A system outside of the job: lines, one after another."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @property
    def position(self) -> int:
        """The number of lines."""
        return len(self.lines)

    def append(self, line: str) -> None:
        """Add a line at the end."""
        self.lines.append(line)

    def cut(self, position: int) -> None:
        """Keep only the first lines."""
        del self.lines[position:]

    def __deepcopy__(self, memo: dict[int, object]) -> Ledger:
        """Return the ledger itself: it is outside, and does not go back with a lab."""
        return self

    def __repr__(self) -> str:
        return f"Ledger({self.lines})"


Hook = Callable[[Ledger], MasterHook]


@check
def gives_the_position_behind_its_line(hook: Hook) -> str:
    """Check that a checkpoint adds one line, and returns the position behind it."""
    ledger = Ledger()
    made = hook(ledger)
    given = [made.trigger_checkpoint(number, 100 * number) for number in (1, 2)]
    if ledger.lines != ["checkpoint 1", "checkpoint 2"]:
        raise NotYet(
            f"Checkpoints 1 and 2 have begun and the ledger has {ledger.lines}. Expected one line for each: "
            "'checkpoint 1', 'checkpoint 2'."
        )
    if given != [1, 2]:
        raise NotYet(
            f"Checkpoints 1 and 2 have begun and the hook gave {given}. Expected [1, 2]: the position behind the line. "
            "A checkpoint that says less cuts its own line off when the job goes back to it."
        )
    return "two checkpoints: two lines, and the positions behind them"


@check
def writes_its_value_as_bytes(hook: Hook) -> str:
    """Check that the stored value can be read again, and that another version's value is rejected."""
    serializer = hook(Ledger()).serializer
    if serializer is None:
        raise NotYet("The hook gives a value and has no serializer: nothing could be stored.")
    for value in (0, 7, 123_456):
        data = serializer.serialize(value)
        if not isinstance(data, bytes):
            raise NotYet(f"serialize({value}) gave {data!r}: expected bytes, for they go into a file.")
        back = serializer.deserialize(serializer.version, data)
        if back != value or not isinstance(back, int):
            raise NotYet(f"{value} was written as {data!r} and read as {back!r}: expected the number {value}.")
    try:
        serializer.deserialize(serializer.version + 1, serializer.serialize(7))
    except ValueError:
        return "three numbers there and back, and another version's refused"
    raise NotYet(
        "deserialize was given bytes of a version that it does not know, and read them all the same. Expected a "
        "ValueError: a wrong position would cut off what is good."
    )


@check
def goes_back_with_the_job(hook: Hook) -> str:
    """Check that a restore cuts off later lines, and that one without a value, or a new start, leaves nothing."""
    ledger = Ledger()
    made = hook(ledger)
    positions = [made.trigger_checkpoint(number, 0) for number in (1, 2, 3)]
    made.restore_checkpoint(2, positions[1])
    if ledger.lines != ["checkpoint 1", "checkpoint 2"]:
        raise NotYet(
            f"The job went back from checkpoint 3 to checkpoint 2 and the ledger has {ledger.lines}. Expected "
            "['checkpoint 1', 'checkpoint 2']: what came later has not happened."
        )
    made.restore_checkpoint(5, None)
    if ledger.lines:
        raise NotYet(
            f"The job went back to a checkpoint that was taken without this hook (the value is None), and the ledger "
            f"has {ledger.lines}. Expected nothing: none of it belongs to that checkpoint."
        )
    return "to the second of three checkpoints, and to one that does not know the hook"


@check
def begins_and_ends_with_the_job(hook: Hook) -> str:
    """Check a whole job: an empty ledger at the start, one line per checkpoint, a last line."""
    ledger = Ledger()
    ledger.append("left over from another job")
    lab = walked(Lab(letters(), hooks=[hook(ledger)]))
    if "left over from another job" in ledger.lines:
        raise NotYet(f"The job began from nothing, and the ledger did not (`reset`): {ledger.lines}.", lab)
    if ledger.lines[-1:] != ["the job is over"]:
        raise NotYet(f"The job is over, and the ledger's last line does not say so (`close`): {ledger.lines}.", lab)
    return "a job without failures: " + ", ".join(ledger.lines)


@check
def tells_each_checkpoint_once(hook: Hook) -> str:
    """Check in the lab, with a worker that dies while a checkpoint is pending."""
    for seed in ORDERS:
        ledger = Ledger()
        lab = Lab(letters(), hooks=[hook(ledger)], seed=seed)
        reached(reached(lab, "CheckpointCompleted"), "MasterHookTriggered").faults.kill(seed % 2)
        walked(lab)
        ended = lab.look.master.checkpoints.ledger.ended
        wanted = [f"checkpoint {number}" for number, how in sorted(ended.items()) if how == "COMPLETED"]
        found = [line for line in ledger.lines if line.startswith("checkpoint")]
        off = [line for line in found if line not in wanted]
        if off:
            raise NotYet(
                f"A worker died while {off[0]} was under way, so it never completed: the job went back to the one "
                f"before. But the ledger tells of it: {ledger.lines}.",
                lab,
            )
        if found != wanted:
            raise NotYet(f"Completed: {', '.join(wanted)}. The ledger tells: {', '.join(found) or 'nothing'}.", lab)
    return f"{len(ORDERS)} orders, in each a worker died: the ledger tells of completed checkpoints only, each once"
