"""Widgets that build the next run: a ready job or your own, its settings, the restart strategy, scheduler and seed.

Only differences from the job's own settings are set, and only these are in the code. A run may start from scratch, or
resume from a snapshot of the run that is shown, possibly with another parallelism. The snapshot is one that the run has
taken, as if it had ended then, or a savepoint with which a copy of the run is stopped now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import ipywidgets

from kit.core.protocol.notes import CheckpointCompleted
from kit.hosts.lab import Adversarial, Fair, First, Lab, ready_job
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.jobs.ready_jobs import READY_JOBS, default_settings
from kit.machines.job.errors import JobFailedError
from kit.run.durations import duration
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import at_parallelism
from kit.stream.settings.job_settings import (
    CheckpointConfig,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobSettings,
    NoRestart,
    RescaleConfig,
)
from widgets.base.buttons import ROW, button
from widgets.panels.place import Place
from widgets.runs.session import Session

OWN = "the job that is shown"
SCRATCH, SAVEPOINT = "from scratch", "from a savepoint taken now"
RUNNING = "AllTasksRunning"
RESTARTS: Mapping[str, Any] = {
    "as the job says": "",
    "never": NoRestart(),
    "3 times, after 5 ms": FixedDelay(3, 5),
    "ever more slowly": ExponentialDelay(),
    "at most 2 failures a minute": FailureRate(2, 60_000, 5),
}
SCHEDULERS: Mapping[str, Any] = {
    "random, by the seed": "",
    "the first of the list": First(),
    "in turn": Fair(),
    "sinks and last tasks come last": "last",
}
OF_CHECKPOINTS = {each.name for each in fields(CheckpointConfig)}
OF_RESCALING = {each.name for each in fields(RescaleConfig)}
OF_JOB = {each.name for each in fields(JobSettings)}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, its label, its meaning, and the kind of widget: "count", "ms", "flag", or a choice of
    values. None stands for an empty field.
    """

    name: str
    label: str
    hint: str
    kind: str | tuple[str, ...] = "count"


SETTINGS: Mapping[str, tuple[Setting, ...]] = {
    "Job": (
        Setting("rows", "rows", "rows of each source of a ready job"),
        Setting("rows_per_second", "rows a second", "how fast each source subtask reads; empty: as fast as it can"),
        Setting("parallelism", "parallelism", "subtasks of each operator that does not set its own"),
        Setting("max_parallelism", "max parallelism", "key groups: the limit of the number of subtasks"),
    ),
    "Checkpoints": (
        Setting("interval_ms", "interval", "from one trigger to the next; empty: only on request", "ms"),
        Setting("mode", "mode", "each record counted once, or at least once", ("exactly_once", "at_least_once")),
        Setting("unaligned", "unaligned", "barriers overtake records", "flag"),
        Setting("aligned_timeout_ms", "aligned timeout", "barriers overtake only after this alignment time", "ms"),
        Setting("max_concurrent", "concurrent", "checkpoints that may be pending at once"),
        Setting("min_pause_ms", "minimum pause", "between the end of one and the start of the next", "ms"),
        Setting("timeout_ms", "timeout", "a pending checkpoint expires after this", "ms"),
        Setting("tolerable_failures", "tolerable failures", "checkpoints that may fail in a row before the job does"),
    ),
    "Rescaling": (
        Setting("reactive", "reactive", "continue with the available slots when some are lost or come back", "flag"),
        Setting("minimum_parallelism", "minimum", "with fewer slots the job waits; it may not be rescaled to fewer"),
        Setting("cooldown_ms", "cooldown", "after a deployment nothing is rescaled for so long", "ms"),
        Setting(
            "stabilization_ms", "stabilization", "the time it waits for more slots, unless all are available", "ms"
        ),
        Setting(
            "max_trigger_delay_ms",
            "longest wait",
            "the time after a change until it rescales without a new checkpoint",
            "ms",
        ),
        Setting(
            "max_checkpoint_failures", "failed checkpoints", "the number after which it rescales from the last one"
        ),
        Setting("slot_wait_ms", "wait for slots", "a job without enough slots fails after this; empty: never", "ms"),
    ),
    "Channels": (
        Setting("channel_credits", "credits", "buffers that may be in flight on a channel"),
        Setting("buffer_bytes", "bytes in a buffer", "a buffer carries at most so much"),
    ),
}
PLAIN = {each.name: each for group in SETTINGS.values() for each in group}


class RunSettings:
    """The panel. `job` names a ready job or the one that is shown, `fields` are the widgets by the setting's name.

    `show_redistribution` is called once a run has begun with a snapshot.
    """

    title = "Another run"
    place = Place.INSTEAD

    def __init__(self, session: Session, show_redistribution: Callable[[], object]) -> None:
        self._session = session
        self._show_redistribution = show_redistribution
        self.job = ipywidgets.Dropdown(
            description="job",
            tooltip="which job is run",
            options=[(OWN, OWN), *((f"{name}: {job.what}", name) for name, job in READY_JOBS.items())],
            layout={"width": "46em", "max_width": "100%"},
        )
        self.fields = {name: _field(setting) for name, setting in PLAIN.items()}
        self.restart = _choice("restart", "when a failed job is started again", RESTARTS)
        self.scheduler = _choice("scheduler", "who chooses what happens next", SCHEDULERS)
        self.seed = ipywidgets.BoundedIntText(
            description="seed",
            tooltip="decides between equals",
            value=0,
            min=0,
            max=2**31 - 1,
            style={"description_width": "6em"},
            layout={"width": "13em"},
        )
        self.begin = _choice("begin", "what the run begins with", {SCRATCH: SCRATCH})
        self.begin.layout.width = "34em"
        self._taken: dict[str, tuple[str, int]] = {}
        """The label of each snapshot, and the step at which it was complete, by its path."""
        hint = "create the run, and show it beside the others"
        self.start = button("Start", hint, lambda: session.attempt(self._begin), "play", "primary")
        self.reset = button("Defaults", "let all settings be as the job has them", self._defaults)
        boxes = [_group(title, [self.fields[each.name] for each in settings]) for title, settings in SETTINGS.items()]
        boxes.append(_group("Order and failures", [self.restart, self.scheduler, self.seed]))
        groups = ipywidgets.HBox(boxes, layout=ROW | {"align_items": "flex-start", "grid_gap": "0 26px"})
        head = ipywidgets.HBox([self.job, self.begin, self.start, self.reset], layout=ROW)
        self.widget = ipywidgets.VBox([head, groups])
        self.job.observe(lambda _: session.attempt(self._defaults), "value")
        lab = session.run.lab
        if lab is None:
            self.job.options = self.job.options[1:]
        elif session.run.job_code and lab.job.name in READY_JOBS:
            self.job.value = lab.job.name
        self._given: dict[str, Any] = {}
        self._defaults()
        self._offer_snapshots()

    def update(self) -> None:
        """Show the settings of the run that is shown; settings made by the user are kept."""
        self._offer_snapshots()
        if self._given != self._defaults_of_job():
            self._defaults()

    def rescale(self, parallelism: int) -> None:
        """Prepare a run of the same job at this parallelism, from its newest snapshot, or from one taken now."""
        self.update()
        if self._session.run.lab is not None:
            self.job.value = OWN
        self._defaults()
        self.fields["parallelism"].value = str(parallelism)
        if len(self.begin.options) == 1:
            raise LabError("the job has ended and left no snapshot: go back in the slider, and take a savepoint there")
        self.begin.value = self.begin.options[1][1]

    def _offer_snapshots(self) -> None:
        """List the snapshots that a run may start from: those at the cursor, or one taken now."""
        lab = self._session.run.lab_at_cursor
        self._taken = {} if lab is None else snapshots_of(lab)
        options = [(SCRATCH, SCRATCH), *((f"from {label}", path) for path, (label, _) in self._taken.items())]
        if lab is not None and not lab.ended:
            options.append((SAVEPOINT, SAVEPOINT))
        if list(self.begin.options) != options:
            chosen = self.begin.value
            self.begin.options = options
            self.begin.value = chosen if chosen in dict(options).values() else SCRATCH

    # --- what is set ----------------------------------------------------------------------------------------------

    def _defaults_of_job(self) -> dict[str, Any]:
        if self.job.value != OWN:
            defaults = default_settings(self.job.value)
            return {name: getattr(defaults[name], "value", defaults[name]) for name in PLAIN}
        lab = self._session.run.lab
        return {} if lab is None else settings_of_graph(lab.job)

    def _defaults(self) -> None:
        self._given = self._defaults_of_job()
        for name, field in self.fields.items():
            field.disabled = name not in self._given
            _put(field, self._given.get(name))

    @property
    def differences(self) -> dict[str, Any]:
        """Return the settings that differ from the job's. Raises ValueError for a text that is not a number."""
        found = {name: _value(PLAIN[name], field) for name, field in self.fields.items() if not field.disabled}
        changed = {name: value for name, value in found.items() if value != self._given.get(name)}
        if self.restart.value != "":
            changed["restart"] = self.restart.value
        return changed

    # --- the run --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        goes_on = self.begin.value != SCRATCH
        self._session.begin(*self.build())
        if goes_on:
            self._show_redistribution()

    def build(self) -> tuple[str, Lab, str]:
        """Return the name of the run, its lab at the beginning, and the code that makes it. Raises LabError or
        SettingError for invalid settings.
        """
        changed, shown = self.differences, self._session.run
        own = self.job.value == OWN
        if own and shown.lab is None:
            raise LabError("the run that is shown is recorded and has no job to run again: choose a ready one")
        job: Any = None
        if own:
            assert shown.lab is not None
            job, lines = changed_job(shown.lab.job, changed), [*shown.job_code, *changed_job_code(changed)]
        else:
            arguments_code = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            job = ready_job(self.job.value, **changed)
            lines = [f"env = ready_job({self.job.value!r}{', ' if arguments_code else ''}{arguments_code})"]
        arguments: dict[str, Any] = {"seed": self.seed.value} if self.seed.value else {}
        scheduler = _last_come_last(job) if self.scheduler.value == "last" else self.scheduler.value
        if scheduler != "":
            arguments["scheduler"] = scheduler
        arguments_code = "".join(f", {name}={value!r}" for name, value in arguments.items())
        if self.begin.value != SCRATCH:
            earlier, path, before = self._earlier()
            lines = [before, *lines]
            arguments |= {"restore_path": path, "after": earlier}
            arguments_code += ", restore_path=path, after=earlier"
        lab = Lab(job, **arguments)
        shown_as = {name: type(value).__name__ if is_dataclass(value) else value for name, value in changed.items()}
        name = lab.job.name + "".join(f", {name}={value}" for name, value in shown_as.items())
        return name, lab, "\n".join([*lines, f"lab = Lab(env{arguments_code})"])

    def _earlier(self) -> tuple[Lab, str, str]:
        """Return a copy of the run at the completion of the chosen snapshot, or stopped with a savepoint now; the path
        of the snapshot; and the code for both.
        """
        shown, path = self._session.run, self.begin.value
        if shown.lab_at_cursor is None or shown.history is None:
            raise LabError("a run that is recorded has no snapshots on the lab's disk: begin from scratch")
        earlier = shown.lab_at_cursor.fork()
        if path in self._taken:
            earlier.goto(self._taken[path][1])
            code = shown.history.again(earlier).body
            return earlier, path, f"{code}\nearlier = lab\npath = {path!r}\n"
        code = f"{shown.history.again(earlier).body}\nearlier = lab\n"
        if earlier.status == "CREATED":
            earlier.run_until(record=RUNNING)
            code += f"earlier.run_until(record={RUNNING!r})\n"
        try:
            path = earlier.stop(wait=True)
        except JobFailedError as error:
            raise LabError(f"no savepoint can be taken any more, choose an existing snapshot: {error}") from error
        return earlier, path, f"{code}path = earlier.stop(wait=True)\n"


def snapshots_of(lab: Lab) -> dict[str, tuple[str, int]]:
    """Return the complete snapshots whose `_metadata` is still on the lab's disk, newest first: the label of each, and
    the step at which it was complete, by its path.
    """
    table = lab.checkpoints().query("status == 'COMPLETED' and not discarded")
    restorable = {int(row.id): row for row in table.itertuples() if f"{row.path}/_metadata" in lab.look.files.contents}
    found = {}
    for number, record in enumerate(lab.trace if restorable else ()):
        row = restorable.get(record.checkpoint_id or 0) if record.is_a(CheckpointCompleted) else None
        if row is not None:
            label = f"{row.kind.lower()} {row.id}, complete at {duration(record.at_ms)}"
            found[row.path] = label, max(1, lab.past.position_of(number + 1))
    return dict(reversed(found.items()))


def settings_of_graph(graph: JobGraph) -> dict[str, Any]:
    """Return the settings of a job that can be changed."""
    settings, checkpoint = graph.settings, graph.settings.checkpoint
    found = {name: getattr(checkpoint, name) for name in PLAIN if name in OF_CHECKPOINTS}
    found |= {name: getattr(settings.rescaling, name) for name in PLAIN if name in OF_RESCALING}
    found |= {name: getattr(settings, name) for name in PLAIN if name in OF_JOB}
    widest = max(vertex.parallelism for vertex in graph.vertices)
    return found | {"mode": checkpoint.mode.value, "parallelism": widest}


def changed_job(graph: JobGraph, changed: Mapping[str, Any]) -> JobGraph:
    """Return the same job with other settings. Another parallelism applies to the vertices with the highest one."""
    settings = graph.settings
    checkpoint = {name: value for name, value in changed.items() if name in OF_CHECKPOINTS}
    rescaling = {name: value for name, value in changed.items() if name in OF_RESCALING}
    others = {name: value for name, value in changed.items() if name in OF_JOB}
    if "restart" in others:
        others["restart_is_default"] = False
    settings = replace(
        settings,
        checkpoint=replace(settings.checkpoint, **checkpoint),
        rescaling=replace(settings.rescaling, **rescaling),
        **others,
    )
    job = at_parallelism(graph, changed["parallelism"]) if "parallelism" in changed else graph
    return replace(job, settings=settings)


def changed_job_code(changed: Mapping[str, Any]) -> list[str]:
    """Return code that changes `env` in the same way."""
    if not changed:
        return []
    arguments_code = ", ".join(f"{name!r}: {value!r}" for name, value in changed.items())
    return [
        "from widgets.panels.run_settings import changed_job",
        f"env = changed_job(env.job_graph(), {{{arguments_code}}})",
    ]


def _last_come_last(job: StreamEnvironment | JobGraph) -> Adversarial:
    """Return a scheduler that takes the turns of tasks without outputs last, so their inputs queue up."""
    graph = job.job_graph() if isinstance(job, StreamEnvironment) else job
    names = [vertex.name for vertex in graph.vertices if not vertex.outputs]
    return Adversarial([f"turn {name}/{number}" for name in names for number in range(graph.vertex(name).parallelism)])


# --- widgets ----------------------------------------------------------------------------------------------------------


def _field(setting: Setting) -> Any:
    appearance = {
        "description": f"{setting.label}, ms" if setting.kind == "ms" else setting.label,
        "tooltip": setting.hint,
        "style": {"description_width": "10.5em"},
        "layout": {"width": "min(21em, 100%)"},
    }
    if setting.kind == "flag":
        return ipywidgets.Checkbox(value=False, indent=True, **appearance)
    if isinstance(setting.kind, tuple):
        return ipywidgets.Dropdown(options=setting.kind, **appearance)
    return ipywidgets.Text(placeholder="none", **appearance)


def _choice(name: str, hint: str, options: Mapping[str, Any]) -> ipywidgets.Dropdown:
    return ipywidgets.Dropdown(
        description=name,
        tooltip=hint,
        options=list(options.items()),
        style={"description_width": "6em"},
        layout={"width": "25em", "max_width": "100%"},
    )


def _group(title: str, members: list[Any]) -> ipywidgets.VBox:
    return ipywidgets.VBox([ipywidgets.HTML(f"<b>{title}</b>"), *members], layout={"overflow": "visible"})


def _put(field: Any, value: Any) -> None:
    if isinstance(field, ipywidgets.Text):
        field.value = "" if value is None else str(value)
    elif isinstance(field, ipywidgets.Checkbox):
        field.value = bool(value)
    else:
        field.value = getattr(value, "value", value) or field.options[0]


def _value(setting: Setting, field: Any) -> Any:
    if not isinstance(field, ipywidgets.Text):
        return field.value
    text = field.value.strip().replace(",", "").replace("_", "")
    if not text:
        return None
    try:
        return float(text) if setting.name == "rows_per_second" else int(text)
    except ValueError:
        raise ValueError(f"{setting.label} is {field.value!r}: expected a whole number, or nothing") from None
