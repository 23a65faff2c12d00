"""The answer of a check: a verdict, the findings, and what each subtask would get, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kit.core.display import display
from kit.core.state.key_groups import key_group_partitions, sums_by_subtask
from kit.core.state.operator_state import OperatorState
from kit.machines.restore.errors import RestoreError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from kit.restore_check.findings import Effect, Finding, Severity, SharedFinding, shared, uid_or_name
from kit.restore_check.key_group_bytes import key_group_bytes

if TYPE_CHECKING:
    import pandas as pd


class Match(Enum):
    """The relation between an operator of the job and an operator of the checkpoint."""

    MATCHED = "matched"
    MISSING = "missing"
    """The state has no operator in the job."""
    EMPTY = "empty"
    """The checkpoint lists the operator without any state, and the job does not have it."""
    NEW = "new"
    """The operator finds no state and starts empty."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, repr=False)
class MatchedOperator:
    """An operator of the checkpoint (`state`), of the job (`vertex`, `pair`), or of both."""

    match: Match
    state: OperatorState | None
    vertex: AssignmentVertex | None
    pair: OperatorIDPair | None

    @property
    def label(self) -> str:
        """The operator's uid, else its name: in the job, else in the checkpoint."""
        if self.pair is not None and self.pair.uid:
            return self.pair.uid
        if self.state is not None and (self.state.uid or self.pair is None or not self.pair.name):
            return uid_or_name(self.state)
        return "" if self.pair is None else self.pair.name or self.pair.generated_id

    def __repr__(self) -> str:
        return f"MatchedOperator({self.label}: {self.match})"


@dataclass(frozen=True, slots=True, repr=False)
class RestoreCheck:
    """The result of checking a checkpoint against a job.

    `error` is the first error of the assignment, as in Flink; None if there is none. `assignments` are the rows of
    `assigned`.
    """

    checkpoint_id: int
    error: RestoreError | None
    matches: tuple[MatchedOperator, ...]
    findings: tuple[Finding, ...]
    assignments: tuple[Mapping[str, Any], ...]

    @property
    def restores(self) -> bool:
        """True if the job can be restored from the checkpoint."""
        return not any(finding.severity is Severity.FAILS for finding in self.findings)

    @property
    def costs(self) -> bool:
        """True if state is lost or rows are repeated although the job can be restored."""
        return any(finding.effect in (Effect.LOST, Effect.REPEATED) for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        failing = [finding for finding in self.findings if finding.severity is Severity.FAILS]
        if failing:
            what = f"{len(failing)} things must change" if len(failing) > 1 else failing[0].found
            return f"Checkpoint {self.checkpoint_id} does not restore to this job: " + what.rstrip(".")
        lost = [finding.operator for finding in self.findings if finding.effect is Effect.LOST]
        again = [finding.operator for finding in self.findings if finding.effect is Effect.REPEATED]
        costs = [f"state of {', '.join(lost)} is lost"] if lost else []
        costs += [f"rows of {', '.join(again)} are repeated"] if again else []
        return f"Checkpoint {self.checkpoint_id} restores to this job" + (
            f", but {' and '.join(costs)}" if costs else ""
        )

    @property
    def shared_findings(self) -> list[SharedFinding]:
        """The findings for display: a finding that several operators share is listed once, with all of them."""
        return shared(self.findings)

    def to_pandas(self) -> pd.DataFrame:
        """Return the findings, one row per operator.

        Columns: severity, operator, found, effect, fix, known_by, flink (the message it fails with).
        """
        import pandas as pd

        columns = ["severity", "operator", "found", "effect", "fix", "known_by", "flink"]
        rows = [[str(getattr(finding, column)) for column in columns] for finding in self.findings]
        return pd.DataFrame(rows, columns=columns)

    @property
    def operators(self) -> pd.DataFrame:
        """The operators of both sides, a row each.

        Columns: operator, uid, operator_id, match, parallelism_before, parallelism_after, max_parallelism_before,
        max_parallelism_after, bytes.
        """
        import pandas as pd

        rows = [
            {
                "operator": each.label,
                "uid": (each.pair and each.pair.uid) or (each.state and each.state.uid),
                "operator_id": each.state.operator_id if each.state else each.pair and each.pair.generated_id,
                "match": str(each.match),
                "parallelism_before": each.state and each.state.parallelism,
                "parallelism_after": each.vertex and each.vertex.parallelism,
                "max_parallelism_before": each.state and each.state.max_parallelism,
                "max_parallelism_after": each.vertex and (each.vertex.max_parallelism or _adopted(each)),
                "bytes": each.state.state_size if each.state else 0,
            }
            for each in self.matches
        ]
        numbers = [f"{what}_{when}" for what in ("parallelism", "max_parallelism") for when in ("before", "after")]
        columns = ["operator", "uid", "operator_id", "match", *numbers, "bytes"]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, "Int64"))

    @property
    def assigned(self) -> pd.DataFrame:
        """Return the state that each subtask would get, a row per subtask, operator and kind; empty if the restore
        fails.

        Columns: operator, task, kind, from (old subtasks), key_groups (first and last), entries, bytes (of the files
        that it reads).
        """
        import pandas as pd

        columns = ["operator", "task", "kind", "from", "key_groups", "entries", "bytes"]
        return pd.DataFrame(list(self.assignments), columns=columns)

    @property
    def balance(self) -> pd.DataFrame:
        """The keyed state of each subtask after the restore: operator, subtask, first_group, last_group, bytes."""
        import pandas as pd

        rows = []
        for each in self.matches:
            if each.state is None or each.vertex is None or each.vertex.parallelism > each.state.max_parallelism:
                continue
            sizes = key_group_bytes(each.state)
            if sizes.any():
                ranges = key_group_partitions(len(sizes), each.vertex.parallelism)
                shares = sums_by_subtask(sizes, each.vertex.parallelism)
                rows += [
                    (each.label, subtask, groups.start, groups.end, round(size))
                    for subtask, (groups, size) in enumerate(zip(ranges, shares, strict=True))
                ]
        return pd.DataFrame(rows, columns=["operator", "subtask", "first_group", "last_group", "bytes"])

    def __repr__(self) -> str:
        counts = {match: sum(each.match is match for each in self.matches) for match in Match}
        listed = ", ".join(f"{count} {match}" for match, count in counts.items() if count)
        return f"RestoreCheck({'restores' if self.restores else 'does not restore'}: {listed or 'no operators'})"

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  {each}" for each in self.shared_findings)])

    def _repr_html_(self) -> str:
        return str(display("restore_check_html", self))


def _adopted(each: MatchedOperator) -> int | None:
    if each.state is not None:
        return each.state.max_parallelism
    return each.vertex.current_max_parallelism if each.vertex is not None else None
