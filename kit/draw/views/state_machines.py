"""The machines' transition tables as pictures, with the present state highlighted and passed states marked.

They are drawn from the tables that the code follows (`kit.core.protocol.transitions`). An event that leads from many
states to the same one is listed in the box of that state, without arrows. Events that do not change a state appear on
hover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import pandas as pd

from kit.core.protocol import tasks
from kit.core.protocol.commands import JobStatusChanged, StartEpoch, StopEpoch, StopTasks, WriteSnapshot
from kit.core.protocol.events import StartJob
from kit.core.protocol.messages import DeclineCheckpoint, TriggerTaskCheckpoint
from kit.core.protocol.notes import AlignmentTimedOut, BarrierAligned, BarrierCounted, BarrierPrioritized, EndCounted
from kit.core.protocol.transitions import Transitions, label
from kit.draw.graphs import Edge, Graph, Node
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import Svg
from kit.draw.view_html import fold, graph_html, legend, view_html
from kit.machines.coordinator import checkpoint_state
from kit.machines.job import status
from kit.machines.job.status import Phase
from kit.machines.task import barrier_states
from kit.run.barrier_log import awaits
from kit.run.captions import listed
from kit.run.checkpoint_log import CheckpointLog
from kit.run.stage import Stage, stage_for
from kit.run.subject import Subject
from kit.why.evidence import Evidence

MANY = 3
"""An event that leads from at least this many states to one is listed in the box of that state."""
LINE = 22
ALTERNATES = "Alternating"
"""The prefix of the states in which a barrier may overtake buffers."""
_SUSPENSION = (Phase.SUSPENDING, Phase.SUSPENDED)
ALIGNED, ALTERNATING, COUNTING = "aligned", "alternating", "counting"
"""The kinds of barrier handlers that a job's tasks may have, according to its checkpoints."""


@dataclass(frozen=True)
class StateMachine:
    """One table as a picture. `lit` maps present states to those in them; `been` are the states passed before."""

    title: str
    table: Transitions[Any]
    lit: Mapping[str, str]
    been: Collection[str] = ()
    only: Collection[str] = ()
    """The states to draw; () for all."""

    def graph(self) -> Graph:
        """Return the states as boxes, with the events on the arrows."""
        edges: dict[tuple[str, str], list[str]] = defaultdict(list)
        stays: dict[str, list[str]] = defaultdict(list)
        shared = self._shared()
        for state, event, target in self._steps():
            if state == target:
                stays[state].append(event)
            elif (event, target) not in shared:
                edges[state, target].append(event)
        drawn = (state for state in self.table if not self.only or label(state) in self.only)
        nodes = tuple(self._node(state, stays[label(state)], shared) for state in drawn)
        arrows = []
        for (state, target), events in edges.items():
            lines = tuple(line for event in events for line in wrap(event, LINE))
            is_lit = state in self.been and (target in self.been or target in self.lit)
            arrows.append(Edge(state, target, lines, "lit" if is_lit else ""))
        name = self.title.replace(" ", "_")
        layout: dict[str, Any] = {"direction": "TB", "rank_gap": 16.0, "plain_labels": True}
        return Graph(name, self.caption, nodes, tuple(arrows), **layout)

    @property
    def caption(self) -> str:
        """The present states, in words."""
        lit = "; ".join(f"{state}: {who}" if who else state for state, who in self.lit.items())
        return f"{self.title}: {lit}" if lit else self.title

    def _steps(self) -> Iterator[tuple[str, str, str]]:
        for state, event, target in self.table.to_pandas().itertuples(index=False):
            if not self.only or (state in self.only and target in self.only):
                yield state, event, target

    def _shared(self) -> dict[tuple[str, str], str]:
        """Return the events that lead from many states to the same one, with those states in words."""
        sources: dict[tuple[str, str], list[str]] = defaultdict(list)
        for state, event, target in self._steps():
            if state != target:
                sources[event, target].append(state)
        every = list(dict.fromkeys(state for state, _, _ in self._steps()))
        found = {}
        for pair, states in sources.items():
            others = [state for state in every if state not in states and state != pair[1]]
            if len(states) >= MANY:
                some = f"any state but {', '.join(others)}" if others else "any state"
                found[pair] = some if len(some) < len(", ".join(states)) else ", ".join(states)
        return found

    def _node(self, state: Any, stays: Iterable[str], shared: Mapping[tuple[str, str], str]) -> Node:
        name = label(state)
        lines = [name, *wrap(self.lit.get(name, ""), LINE)]
        comes: dict[str, list[str]] = defaultdict(list)
        for (event, target), sources in shared.items():
            if target == name:
                comes[sources].append(event)
        for sources, events in comes.items():
            lines += wrap(f"from {sources}: {', '.join(events)}", max(LINE, len(name)))
        meaning = "lit" if name in self.lit else "been" if name in self.been else ""
        tip = f"stays {name}: {', '.join(stays)}" if stays else ""
        return Node(name, tuple(lines), meaning, tip=tip, ends=self.table.is_end(state))

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per transition: state, event, target, and whether the state and the target are highlighted."""
        frame = self.table.to_pandas()
        return frame.assign(state_is_lit=frame.state.isin(self.lit), target_is_lit=frame.target.isin(self.lit))

    def svg(self) -> Svg:
        """Return the picture alone, in light colours."""
        return self.graph().svg()

    def dot(self) -> Dot:
        """Return the picture as an object of the `graphviz` package."""
        return self.graph().dot()

    def body(self) -> str:
        """Return the picture and the legend as HTML."""
        entries = [("lit", "is here now")] * bool(self.lit) + [("been", "was here before")] * bool(self.been)
        return graph_html(self.graph()) + legend(entries)

    def _repr_html_(self) -> str:
        return view_html(self.caption, self.body())

    def __repr__(self) -> str:
        return f"StateMachine({self.caption})"


class StateMachines(dict[str, StateMachine]):
    """The machines of a run at a moment, by name: job, checkpoint, task, barrier handler."""

    def body(self, *names: str) -> str:
        """Return these machines, or all, each in a fold."""
        chosen = [self[name] for name in names or self if name in self]
        return "".join(
            fold(each.title, each.caption.partition(": ")[2], each.body(), is_open=number == 0)
            for number, each in enumerate(chosen)
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per present state: machine, state, who."""
        rows = [[name, state, who] for name, machine in self.items() for state, who in machine.lit.items()]
        return pd.DataFrame(rows, columns=["machine", "state", "who"])

    def _repr_html_(self) -> str:
        return view_html("State machines, with the present states lit", self.body())

    def __repr__(self) -> str:
        return f"StateMachines({', '.join(self)})"


def state_machines(
    run: Any, n: int | None = None, checkpoint: int | None = None, task: str | None = None
) -> StateMachines:
    """Return the state machines of a Lab, a SparkJob or a Trace after its first `n` records.

    They are those of `checkpoint`, by default the newest, and of `task`, by default of all tasks; each state lists the
    tasks that are in it.

    Raises ValueError for an unknown task.
    """
    subject = Subject(run, n, checkpoint)
    evidence = Evidence.of(subject)
    log = CheckpointLog(evidence.reading, evidence.n)
    return machines_of(log, evidence, stage_of(subject, evidence), subject.checkpoint, task)


def stage_of(subject: Subject, evidence: Evidence) -> Stage:
    """Return the stage of the epoch that ran then."""
    started = evidence.last(StartEpoch)
    return stage_for(subject.whole.stages, 1 if started is None else started.data["epoch"])


def machines_of(
    log: CheckpointLog, evidence: Evidence, stage: Stage, checkpoint: int | None, task: str | None = None
) -> StateMachines:
    """Return the machines of a run at the moment of the evidence."""
    names = stage.tasks()
    if task is not None and task not in names:
        raise ValueError(f"there is no task {task!r}; there are: {listed(names)}")
    chosen = names if task is None else [task]
    found = StateMachines()
    number = checkpoint if checkpoint is not None else max(log.lives, default=None)
    life = log.lives.get(number) if number is not None else None
    if life is not None and life.state is not None:
        *before, (now, _) = life.states
        lit = {now.value: f"checkpoint {life.checkpoint_id}"}
        passed = {state.value for state, _ in before}
        found["checkpoint"] = StateMachine("A checkpoint", checkpoint_state.TRANSITIONS, lit, passed)
    phase = phase_of(evidence)
    rare = set() if phase in _SUSPENSION else {*_SUSPENSION}  # these occur with a second driver only
    if not evidence.of_kind(StopTasks, role="command"):
        rare.add(Phase.FAILING_OVER)  # this one with a restart of some regions
    only = [each.value for each in Phase if each not in rare]
    found["job"] = StateMachine("A job", status.PHASES, {phase.value: "the job"}, only=only)
    states = _where({name: log.moment.tasks[name].state for name in chosen if name in log.moment.tasks})
    found["task"] = StateMachine("A task", tasks.TRANSITIONS, states)
    handlers = handlers_of(evidence, stage, chosen)
    if handlers:
        overtakes = handler_kind(evidence) == ALTERNATING
        own = [state for state in map(label, barrier_states.TRANSITIONS) if state.startswith(ALTERNATES) == overtakes]
        title = f"A barrier handler that {'may overtake' if overtakes else 'aligns'}"
        found["barrier handler"] = StateMachine(title, barrier_states.TRANSITIONS, _where(handlers), only=own)
    return found


def _where(states: Mapping[str, str]) -> dict[str, str]:
    """Return, by state, the tasks in it."""
    tasks_in: dict[str, list[str]] = defaultdict(list)
    for task, state in states.items():
        tasks_in[state].append(task)
    return {state: listed(names) for state, names in tasks_in.items()}


def phase_of(evidence: Evidence) -> Phase:
    """Return the phase of the job's life, which is finer than the status shown to users."""
    phase = Phase.STARTING
    for record in evidence.of_kinds(StartJob, StartEpoch, StopTasks, JobStatusChanged, StopEpoch):
        match record.kind, record.role:
            case StartJob.__name__, "event":
                phase = Phase.STARTING
            case StartEpoch.__name__, "command":
                phase = Phase.RUNNING
            case StopTasks.__name__, "command":
                phase = Phase.FAILING_OVER
            case JobStatusChanged.__name__, "command":
                name = str(record.data["status"])
                if phase is Phase.FAILING_OVER:
                    phase = {"RUNNING": Phase.RUNNING, "RESTARTING": phase}.get(name) or Phase.__members__[name]
                elif name != "RUNNING":
                    phase = Phase.__members__.get(name, phase)
                elif phase in (Phase.STARTING, Phase.RESTARTING):
                    phase = Phase.RESTORING
            case StopEpoch.__name__, "command" if phase is Phase.RUNNING:
                phase = Phase.FINISHING
            case StopEpoch.__name__, "command" if phase is Phase.FAILING_OVER:
                phase = Phase.RESTARTING
    return phase


# --- barrier handlers -------------------------------------------------------------------------------------------------


def handler_kind(evidence: Evidence) -> str:
    """Return the kind of barrier handler of the job's tasks, according to its checkpoints; "" before the first."""
    found = ""
    for record in evidence.of_kind(TriggerTaskCheckpoint, role="command"):
        options = record.data["options"]
        if options["alignment"] == "AT_LEAST_ONCE":
            return COUNTING
        if options["alignment"] == "UNALIGNED" or options["aligned_timeout_ms"] < NEVER_MS:
            return ALTERNATING
        found = ALIGNED
    return found


NEVER_MS = 2**62
"""A timeout at least this long is no timeout."""


def handlers_of(evidence: Evidence, stage: Stage, names: Iterable[str]) -> dict[str, str]:
    """Return the state of the barrier handler of each task with inputs; empty if unknown, or if barriers are counted.

    An alternating handler waits unaligned from the timeout until the first barrier of the checkpoint.
    """
    kind = handler_kind(evidence)
    if kind in ("", COUNTING):
        return {}
    inputs = {channel.target for channel in stage.channels}
    collecting, overtaking = _collecting(evidence)
    found = {}
    for name in names:
        known = evidence.moment.tasks.get(name)
        if name not in inputs or known is None or known.state in ("FINISHED", "FAILED", "CANCELED"):
            continue
        home = ALTERNATES if kind == ALTERNATING else ""
        unaligned = "Unaligned" if kind == ALTERNATING and name in overtaking else ""
        found[name] = f"{home}{'CollectingBarriers' if name in collecting else 'WaitingForFirstBarrier'}{unaligned}"
    return found


def _collecting(evidence: Evidence) -> tuple[set[str], set[str]]:
    """Return the tasks whose handler waits for more barriers, and those that take them unaligned.

    A task takes them unaligned from the timeout on, or if it took a snapshot while barriers were missing. A handler
    learns only from barriers and markers that a checkpoint was aborted.
    """
    awaiting: dict[str, int | None] = {}
    overtaking: set[str] = set()
    for record in evidence.of_kinds(*_OF_HANDLERS):
        task = record.machine
        if record.is_a(StartEpoch):
            awaiting, overtaking = {}, set()
        elif record.is_a(BarrierAligned, BarrierCounted, EndCounted):
            before, now = awaiting.get(task), record.checkpoint_id if awaits(record) else None
            if now is None or before not in (None, now):
                overtaking.discard(task)
            awaiting[task] = now
        elif record.is_a(AlignmentTimedOut, BarrierPrioritized):
            overtaking.add(task)
        elif record.is_a(WriteSnapshot):
            if awaiting.get(task) == record.checkpoint_id:
                overtaking.add(task)
        elif record.is_a(DeclineCheckpoint) and record.role == "command" and record.data["reason"] in _BY_THE_HANDLER:
            overtaking.discard(task)
            awaiting[task] = None
    return {task for task, number in awaiting.items() if number is not None}, overtaking


_OF_HANDLERS = (
    StartEpoch,
    BarrierAligned,
    BarrierCounted,
    EndCounted,
    AlignmentTimedOut,
    BarrierPrioritized,
    WriteSnapshot,
    DeclineCheckpoint,
)
_BY_THE_HANDLER = frozenset(
    {
        "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
        "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
        "CHECKPOINT_DECLINED_SUBSUMED",
    }
)
