"""The operators of an environment, as they are added, named and replaced.

When a cell of a notebook is run again (`kit.stream.api.cells`), its first operator removes all that its earlier
execution added, and what depended on that. An operator is also removed if a later cell gives its uid to one of the same
kind on the same input. Operators that were removed although their own cell was not run again are remembered, for a
warning when the job is built. In a script nothing is ever replaced. A rejected operator is not added.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from kit.stream.api.cells import CellRun, callers_level, current_cell
from kit.stream.api.transformation import Defaults, Origin, Transformation, check_parallelism
from kit.stream.graph.stream_graph import DuplicateUidError, GraphError, check_uids
from kit.stream.operators.base import OperatorSpec

_MOST_NAMED = 3


class Transformations:
    """The present operators, in the order in which they were added, and their default settings."""

    def __init__(self, parallelism: int = 1, max_parallelism: int | None = None) -> None:
        self.defaults = Defaults(parallelism, max_parallelism)
        self._present: list[Transformation] = []
        self._rejected: list[Transformation] = []
        """Operators that could not have the uid they were given: they are added again if they are used."""
        self._removed_with_input: list[Transformation] = []
        """Operators that were removed because an operator they depended on was replaced."""

    def __iter__(self) -> Iterator[Transformation]:
        return iter(self._present)

    def __len__(self) -> int:
        return len(self._present)

    def add(self, spec: OperatorSpec, *inputs: tuple[Origin, ...]) -> Transformation:
        """Add an operator of any kind; `inputs` has the origins of the records for each of its inputs.

        Raises GraphError, and changes nothing, if it would depend on a removed operator.
        """
        cell = current_cell()
        void = [each for each in self._present if each.cell is not None and each.cell.is_before(cell)]
        gone = self._with_all_behind(void)
        origins = [origin.transformation for origins in inputs for origin in origins]
        for origin in origins:
            if origin in gone:
                raise GraphError(_own_work(origin, void, cell))
            self._bring_back(origin)
        self._remove(gone, void)
        self._removed_with_input = [
            each for each in self._removed_with_input if each.cell is None or not each.cell.is_before(cell)
        ]
        operator = Transformation(len(self._present) + 1, spec, inputs, self.defaults, cell=cell)
        self._present.append(operator)
        return operator

    def set_defaults(self, job: str, parallelism: int, max_parallelism: int | None) -> None:
        """Set what operators have that do not set their own. Raises GraphError, and changes nothing, if it does not fit
        the job or one of its operators.
        """
        check_parallelism(job, parallelism, max_parallelism)
        for each in self._present:
            of_its_own, most = each.own_parallelism, each.own_max_parallelism
            check_parallelism(
                each.label,
                parallelism if of_its_own is None else of_its_own,
                max_parallelism if most is None else most,
            )
        self.defaults.parallelism, self.defaults.max_parallelism = parallelism, max_parallelism

    def give_uid(self, operator: Transformation, uid: str) -> None:
        """Set an operator's uid. Raises DuplicateUidError if it is taken; the operator is then removed."""
        self._bring_back(operator)
        taken = next((each for each in self._present if each.uid == uid and each is not operator), None)
        if taken is not None and _is_rerun_of(operator, taken):
            self._remove(self._with_all_behind([taken]), [taken])
        before, operator.uid = operator.uid, uid
        try:
            check_uids((each.uid, _label(each)) for each in self._present)
        except DuplicateUidError:
            operator.uid = before
            if operator is self._present[-1]:
                self._rejected.append(self._present.pop())
            raise
        self._removed_with_input = [each for each in self._removed_with_input if each.uid != uid]

    def warn_of_removed(self) -> None:
        """Warn of operators that were removed although their own cell was not run again."""
        if not self._removed_with_input:
            return
        warnings.warn(
            f"the operators that these depend on were replaced, so they are no longer in the job:\n"
            f"  {_named(self._removed_with_input)}\n"
            "Run these lines again if they are to be part of it.",
            stacklevel=callers_level(),
        )

    def used(self) -> list[Transformation]:
        """Return the operators whose records reach a sink, or a function that may have side effects, in order.

        The others would consume input without any output: a warning names them. If no operator remains, all are
        returned: such a job is a sketch, which can be drawn but not run.
        """
        kept = {each for each in self._present if each.spec.acts}
        for each in reversed(self._present):
            if each in kept:
                kept.update(origin.transformation for origins in each.inputs for origin in origins)
        if not kept or len(kept) == len(self._present):
            return list(self._present)
        left_out = [each for each in self._present if each not in kept]
        warnings.warn(
            f"these operators reach no sink, so they are left out of the job:\n  {_named(left_out)}\n"
            "End their stream with .sink_to(...) if they are to be part of it.",
            stacklevel=callers_level(),
        )
        return [each for each in self._present if each in kept]

    def _with_all_behind(self, operators: Iterable[Transformation]) -> list[Transformation]:
        """Return these operators and all that get their records, in order."""
        gone: list[Transformation] = list(operators)
        for each in self._present:
            if each not in gone and any(origin.transformation in gone for origins in each.inputs for origin in origins):
                gone.append(each)
        return gone

    def _remove(self, gone: list[Transformation], replaced: list[Transformation]) -> None:
        self._removed_with_input += [each for each in gone if each not in replaced]
        self._present = [each for each in self._present if each not in gone]
        for number, each in enumerate(self._present, 1):
            each.number = number

    def _bring_back(self, operator: Transformation) -> None:
        """Add an operator again that is used. Raises GraphError for one that was replaced."""
        if operator in self._present:
            return
        if operator not in self._rejected:
            made = f", made by {operator.cell}," if operator.cell is not None else ""
            raise GraphError(
                f"{operator.label!r}{made} is no longer in the job: it, or an input of it, was replaced since.\n"
                "Run the line that made it again first, then this one."
            )
        self._rejected.remove(operator)
        operator.number = len(self._present) + 1
        self._present.append(operator)


def _named(operators: list[Transformation]) -> str:
    """Return the first operators as text, one per line, with the cells that added them."""
    named = [
        f"{each.label!r}, made by {each.cell}" if each.cell is not None else repr(each.label)
        for each in operators[:_MOST_NAMED]
    ]
    more = [f"and {len(operators) - _MOST_NAMED} more"] if len(operators) > _MOST_NAMED else []
    return "\n  ".join(named + more)


def _label(operator: Transformation) -> str:
    where = f", {operator.cell}" if operator.cell is not None else ""
    return f"{operator.name or operator.spec.name!r} (#{operator.number}{where})"


def _is_rerun_of(operator: Transformation, other: Transformation) -> bool:
    """Return True if `operator` is from a later execution, and of the same kind on the same input as `other`."""
    later = operator.cell is not None and other.cell is not None and operator.cell.run != other.cell.run
    return later and type(operator.spec) is type(other.spec) and operator.inputs == other.inputs


def _own_work(operator: Transformation, void: list[Transformation], cell: CellRun | None) -> str:
    """Return the error for a cell that continues from what its own earlier execution added."""
    first = next((each for each in _before(operator) if each not in void), None)
    where = f"\n  {first.cell}" if first is not None and first.cell is not None else " the cell before"
    return (
        f"this cell continues from {operator.label!r}, which it made itself when it was run before ({operator.cell}): "
        f"run again, it would come twice.\nRun this first, then this cell again:{where}"
    )


def _before(operator: Transformation) -> Iterator[Transformation]:
    """Yield the operators that an operator depends on, the nearest first."""
    for origins in operator.inputs:
        for origin in origins:
            yield origin.transformation
            yield from _before(origin.transformation)
