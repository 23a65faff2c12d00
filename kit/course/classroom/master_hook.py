"""Checks of the lab "a master hook": an outside system that is kept consistent with the job's checkpoints.

The outside system is a `Ledger`: a list of lines with a position, which a hook may append to and cut. It does not go
back with the lab: like any other system it must be told to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import letters, reached_in_time, walked
from kit.course.classroom.searching import orders, searched
from kit.files.master_hooks import MasterHook
from kit.hosts.lab.lab import Lab


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


class HookBench:
    """A hook by hand, and the lines that its ledger must have after each step."""

    def __init__(self, hook: Hook, *, goes_back: bool = False, ends: bool = False) -> None:
        self._make = hook
        self.ledger = Ledger()
        self.hook = hook(self.ledger)
        self._goes_back, self._ends = goes_back, ends
        self._lines: list[str] = []
        self._values: dict[int, int] = {}
        """The value of each checkpoint that the job can go back to."""
        self._next = 2
        self._over = False

    def choices(self) -> list[str]:
        """Return what may happen next."""
        if self._over:
            return []
        found = [f"checkpoint {self._next} begins"]
        if self._goes_back:
            found += [f"the job goes back to checkpoint {number}" for number in self._values]
            found += [f"a new driver goes back to checkpoint {number}" for number in self._values]
            found += ["the job goes back to a checkpoint without a value"]
        return found + (["the job begins from nothing", "the job is over"] if self._ends else [])

    def do(self, step: str) -> None:
        """Do it, and compare."""
        number = int(next((word for word in step.split() if word.isdigit()), 0))
        if step.endswith("begins"):
            self._trigger(number)
        elif step.endswith("without a value"):
            self.hook.restore_checkpoint(self._next, None)
            self._lines, self._values = [], {}
        elif number:
            if step.startswith("a new driver"):
                self.hook = self._make(self.ledger)
            self.hook.restore_checkpoint(number, self._values[number])
            self._lines = self._lines[: self._values[number]]
            self._values = {each: value for each, value in self._values.items() if each <= number}
        elif step == "the job is over":
            self._over = True
            self._lines.append("the job is over")
            self.hook.close()
        else:
            self.hook.reset()
            self._lines, self._values = [], {}
        if self.ledger.lines != self._lines:
            raise NotYet(f"the ledger has {self.ledger.lines}. Expected {self._lines}. {_why_lines(step)}")

    def _trigger(self, number: int) -> None:
        self._lines.append(f"checkpoint {number}")
        self._values[number] = len(self._lines)
        self._next += 1 + number % 2  # ids are not positions
        found = self.hook.trigger_checkpoint(number, 100 * number)
        if found != self._values[number] or not isinstance(found, int):
            raise NotYet(
                f"the hook gave {found!r}. Expected {self._values[number]}, the position behind the line: a smaller "
                "one cuts the checkpoint's own line off when the job goes back to it. Ids of checkpoints have gaps."
            )


def _why_lines(step: str) -> str:
    if step.endswith("begins"):
        return "Each checkpoint adds one line."
    if step.endswith("without a value"):
        return "That checkpoint was taken without this hook: nothing in the ledger belongs to it."
    if "goes back" in step:
        return "What came after that checkpoint has not happened; its own line stays."
    if step == "the job is over":
        return "Only the last line is added."
    return "A job that begins from nothing begins with an empty ledger."


@check
def gives_the_position_behind_its_line(hook: Hook) -> str:
    """Check that a checkpoint adds one line, and returns the position behind it."""
    return searched(partial(HookBench, hook), runs=10, walks=1)


@check
def writes_its_value_as_bytes(hook: Hook) -> str:
    """Check that the stored value can be read again, and that another version's value is rejected."""
    writer, reader = hook(Ledger()).serializer, hook(Ledger()).serializer
    if writer is None or reader is None:
        raise NotYet("The hook gives a value and has no serializer: nothing could be stored.")
    values = (0, 7, 123_456, 2**40)
    for value in values:
        data = writer.serialize(value)
        if not isinstance(data, bytes):
            raise NotYet(f"serialize({value}) gave {data!r}: expected bytes, for they go into a file.")
        back = reader.deserialize(writer.version, data)
        if back != value or not isinstance(back, int):
            raise NotYet(
                f"{value} was written as {data!r}, and another hook read {back!r} from it: expected the number {value}."
            )
    for version in (writer.version + 1, writer.version - 1):
        try:
            reader.deserialize(version, writer.serialize(7))
        except ValueError:
            continue
        raise NotYet(
            f"deserialize was given bytes of version {version}, which it does not know, and read them all the same. "
            "Expected a ValueError: a wrong position would cut off what is good."
        )
    return f"{len(values)} numbers there and back, and other versions refused"


@check
def goes_back_with_the_job(hook: Hook) -> str:
    """Check that a restore cuts off later lines, and that one without a value leaves nothing."""
    return searched(partial(HookBench, hook, goes_back=True))


@check
def begins_and_ends_with_the_job(hook: Hook) -> str:
    """Check a whole job: an empty ledger at the start, one line per checkpoint, a last line."""
    by_hand = searched(partial(HookBench, hook, goes_back=True, ends=True))
    ledger = Ledger()
    ledger.append("left over from another job")
    lab = walked(Lab(letters(), hooks=[hook(ledger)]))
    if "left over from another job" in ledger.lines:
        raise NotYet(f"The job began from nothing, and the ledger did not (`reset`): {ledger.lines}.", lab)
    if ledger.lines[-1:] != ["the job is over"]:
        raise NotYet(f"The job is over, and the ledger's last line does not say so (`close`): {ledger.lines}.", lab)
    if ledger.lines.count("the job is over") > 1:
        raise NotYet(f"The job is over once, and the ledger says so several times (`close`): {ledger.lines}.", lab)
    return f"{by_hand}; a job without failures: {', '.join(ledger.lines)}"


@check
def tells_each_checkpoint_once(hook: Hook) -> str:
    """Check in the lab, with a worker that dies while a checkpoint is pending."""
    seeds = orders(6)
    for seed in seeds:
        ledger = Ledger()
        lab = Lab(letters(), hooks=[hook(ledger)], seed=seed)
        if not reached_in_time(lab, seed, "CheckpointCompleted", "MasterHookTriggered"):
            continue
        lab.faults.kill(seed % 2)
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
    return f"{len(seeds)} orders, in each a worker died: the ledger tells of completed checkpoints only, each once"
