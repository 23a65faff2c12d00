"""A user's session with one or more runs, without a widget: what is shown, and everything that can be done.

The session has the runs, each with its cursor, its selected item and the user's actions as code; the run that is shown;
and the message about the last action. Widgets observe it. However many changes an action consists of, the observers are
called once, after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.course.missions.mission import Mission
from kit.course.missions.missions import MISSIONS
from kit.hosts.lab import Lab, LabError
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.machines.job.errors import JobFailedError
from kit.machines.job.status import JobStatus
from widgets.runs.action_history import RUN
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import can_go_on, why_none_can_act
from widgets.runs.targets import ALL_RUNNING, NEXT_CHECKPOINT, targets

MOST_UNSEEN = 20
"""The most steps that one press of the button takes, if they record nothing."""
LONGEST_ERROR = 400
BY_START = {each.setup_code: each for each in MISSIONS.values()}
Act = Callable[[Lab], object]


class Session:
    """A session that begins with one run: a Lab, a SparkJob, a Trace or a scenario. `setup_code` creates a lab.

    `run` is the run that is shown, and `runs` has all of them, the first one first. Raises TypeError for anything but a
    run.
    """

    def __init__(self, thing: Any, setup_code: str = "") -> None:
        self.run = ExploredRun("the run", thing, setup_code)
        self.runs: tuple[ExploredRun, ...] = (self.run,)
        self.error = ""
        """The error of the last action; "" if it succeeded."""
        self.missed = ""
        """The last condition that was awaited and did not occur before the job's end."""
        self.answer = ""
        """The answer to the user's last question about the selected item, as HTML; "" once the next action begins."""
        self.accomplished: set[str] = set()
        """The names of the missions that were accomplished."""
        self._observers: list[Callable[[], object]] = []
        self._listeners: list[Callable[[str, bool], object]] = []
        self._over: list[Callable[[], object]] = []
        """The functions that remove the messages of the last action."""
        self._under_way = 0
        """The number of calls of `attempt` that have not returned: only the outermost is an action of its own."""
        self._is_changed = False

    # --- observers ------------------------------------------------------------------------------------------------

    def observe(self, update: Callable[[], object]) -> None:
        """Call `update` once after each action that has changed anything."""
        self._observers.append(update)

    def listen(self, show: Callable[[str, bool], object]) -> None:
        """Call `show` with each message at once, and True if it is an error; "" takes back the last message."""
        self._listeners.append(show)

    def until_next(self, take_away: Callable[[], object]) -> None:
        """Call `take_away` when the next action begins: a message is about the last one only."""
        self._over.append(take_away)

    def close(self) -> None:
        """Call no observer from now on."""
        self._observers.clear()
        self._listeners.clear()
        self._over.clear()

    def attempt(self, act: Callable[[], object], *, by_itself: bool = False) -> None:
        """Perform an action, and call the observers if it has changed anything; an error becomes a message.

        The message about the previous action is removed, unless this happens `by_itself`, or as a part of another
        action.
        """
        is_outermost = self._under_way == 0
        self._under_way += 1
        try:
            with interrupts_deferred():  # finish everything that follows the action, above all the picture
                if is_outermost and not by_itself:
                    self._forget()
                self._catch(act)
                if is_outermost:
                    self._catch(self._notify)
        except KeyboardInterrupt as interrupt:  # it has waited for the end of the block
            self._report(interrupt)
        finally:
            self._under_way -= 1

    def changed(self) -> None:
        """Call the observers after the action that is under way."""
        self._is_changed = True

    def _notify(self) -> None:
        if self._is_changed:
            self._is_changed = False
            for update in self._observers:
                update()

    def _catch(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (Exception, KeyboardInterrupt) as error:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        """Show an error in one line, since users do not read the kernel's log."""
        if isinstance(error, KeyboardInterrupt):
            self.say(f"Interrupted at {self.run.end}: the last step is complete, and the run can continue.")
        elif isinstance(error, LabError):
            self.say(_short(str(error).partition("\n")[0]))
        elif isinstance(error, JobFailedError | ValueError):  # their texts say what to do
            self.say(_short(str(error)))
        elif isinstance(error, OSError):
            what = f"{error.strerror}: {error.filename}" if error.errno and error.filename else str(error)
            self.say(_short(what))
        else:
            self.say(f"{type(error).__name__}: {_short(str(error))}")

    def say(self, error: str) -> None:
        """Set the error of the action, and show it; "" takes it back."""
        self.error = error
        self._show_message(error, is_error=True)

    def _show_message(self, text: str, *, is_error: bool) -> None:
        for show in self._listeners:
            show(text, is_error)

    def _forget(self) -> None:
        over, self._over = self._over, []
        for take_away in over:
            take_away()
        self.answer = ""
        if self.error:
            self.say("")

    # --- the cursor and the selection -----------------------------------------------------------------------------

    def move(self, cursor: int | None) -> None:
        """Move the cursor of the shown run to this number of records, or to the end of the run (None)."""
        self.attempt(lambda: self._point(cursor, self.run.selected))

    def pick(self, item: str) -> None:
        """Select an item of the picture, named as in the stepper; "" for none."""
        self.attempt(lambda: self._point(self.run.cursor, item))

    def _point(self, cursor: int | None, item: str) -> None:
        self.run.cursor, self.run.selected = cursor, item
        self.changed()

    def show(self, run: ExploredRun) -> None:
        """Show a run of the session, or one that is added to it."""
        self.attempt(lambda: self._show(run))

    def _show(self, run: ExploredRun) -> None:
        self.say("")
        self.missed = ""
        if run not in self.runs:
            self.runs += (run,)
        self.run = run
        self.changed()

    # --- actions on the lab ---------------------------------------------------------------------------------------

    def do(self, act: Act, code: str = "", awaited: str = "") -> None:
        """Perform an action on the lab at the cursor; in a fork, if the cursor is in the past.

        `code` is its Python code; if it is "", the steps taken are written as code. `awaited` names the condition for
        which the action waits, if any.
        """
        self.attempt(lambda: self._do(lambda lab: (act, code), awaited))

    def run_until(self, condition: str) -> None:
        """Run the lab until one of its `targets` holds."""
        self.attempt(lambda: self._do(lambda lab: targets(lab)[condition], condition))

    def _do(self, planned: Callable[[Lab], tuple[Act, str]], awaited: str) -> None:
        self.say("")
        self.missed = ""
        reason = why_none_can_act(self.run)
        if reason:
            raise ValueError(reason)
        if not self.run.is_present:
            self._fork()
        assert self.run.lab is not None
        act, code = planned(self.run.lab)
        is_long = code.startswith(RUN)
        if is_long:  # the kernel handles no messages until it is done
            self._show_message("Running …", is_error=False)
        try:
            self._perform(self.run, act, code, awaited or code)
        finally:
            if is_long:
                self.say(self.error)
            self.run.changes += 1
            self.changed()

    def _perform(self, run: ExploredRun, act: Act, code: str, awaited: str) -> None:
        lab, history = run.lab, run.history
        assert lab is not None
        assert history is not None
        before = lab.position
        try:
            act(lab)
            if code:
                history.add(code, before)
        except KeyboardInterrupt:
            if code.startswith(RUN) and lab.position > before:
                history.add(f"lab.run_until(lambda lab: lab.position == {lab.position})", before)
            raise
        except LabError:
            if not lab.ended or can_go_on(lab) or not code.startswith(RUN):
                raise
            self.missed = awaited  # not an error: the control row shows it
            if lab.status == JobStatus.FINISHED.name:  # and asking consumes nothing
                lab.goto(before)

    def step(self) -> None:
        """Take one step, chosen by the scheduler.

        A step that records nothing changes no picture; the next one is taken as well.
        """
        self.attempt(self._step)

    def _step(self) -> None:
        for _ in range(MOST_UNSEEN):
            before = self.run.n
            self.do(lambda lab: lab.step(), "lab.step()")
            lab = self.run.lab
            if self.error or lab is None or not can_go_on(lab) or len(lab.trace) > before:
                break

    def go_to_next(self, mark: str) -> None:
        """Run to the next checkpoint, asked for at the end of the run; for other marks, say that there is none."""
        if mark == "checkpoint" and not why_none_can_act(self.run):
            self.run_until(NEXT_CHECKPOINT)
            return
        hint = "" if mark == "checkpoint" else " Make something fail under Faults, or by a click on the item itself."
        self.attempt(lambda: self.say(f"No {mark} follows.{hint}"))

    def ask(self, label: str, request: str, *arguments: Any, **settings: Any) -> None:
        """Make a request to the job, as the method of the lab with this name does; `label` names it in its outcome."""
        as_code = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in settings.items())]

        def act(lab: Lab) -> None:
            number = getattr(lab, request)(*arguments, **settings)
            if isinstance(number, int):
                self.run.note_request(number, label)

        self.do(act, f"lab.{request}({', '.join(as_code)})")

    def let_tasks_run(self) -> None:
        """Run the lab until all tasks are running, unless the job runs already."""
        if self.run.lab is not None and self.run.lab.status != JobStatus.RUNNING.name:
            self.run_until(ALL_RUNNING)

    def go_on_from_here(self) -> None:
        """Move the lab back to the cursor and undo everything after it."""
        self.attempt(self._go_on)

    def _go_on(self) -> None:
        self.say("")
        run = self.run
        if run.lab is None:
            raise ValueError(why_none_can_act(run))
        assert run.history is not None
        run.lab.goto(run.position)
        run.history.cut()
        run.cursor = None
        run.changes += 1
        self.changed()

    # --- more runs ------------------------------------------------------------------------------------------------

    def fork(self) -> None:
        """Show a second run, which has the past up to the cursor."""
        self.attempt(self._fork)

    def _fork(self) -> None:
        self._show(self.run.fork(f"fork {len(self.runs)} at {self.run.at}"))

    def begin(self, name: str, lab: Lab, setup_code: str) -> None:
        """Show another run, which has just started, besides the others; `setup_code` creates its lab."""
        self.show(ExploredRun(self._unlike(name), lab, setup_code))

    def show_job(self, job: Any) -> None:
        """Show a job on Spark besides the existing runs, or again."""
        known = next((each for each in self.runs if each.thing is job), None)
        self.show(known or ExploredRun(self._unlike(job.job.name), job))
        self.look_again()

    def _unlike(self, name: str) -> str:
        names = [each.name for each in self.runs]
        return name if name not in names else f"{name} ({len(names)})"

    @property
    def is_live(self) -> bool:
        """True if a job on Spark may still progress by itself."""
        return any(not each.thing.ended for each in self.runs if is_on_spark(each.thing))

    def look_again(self) -> None:
        """Let the observers read the progress of the job, if it runs on Spark."""
        if is_on_spark(self.run.thing):
            self.run.changes += 1
            self.attempt(self.changed, by_itself=True)

    # --- missions -------------------------------------------------------------------------------------------------

    @property
    def mission(self) -> Mission | None:
        """The mission that the shown run was started for, or the run that it was forked from."""
        return None if self.run.history is None else BY_START.get(self.run.history.setup_code)

    def verdict(self) -> str:
        """Return the title of the mission on the shown run, with the result of its check; "" without one."""
        mission, lab = self.mission, self.run.lab
        if mission is None or lab is None:
            return ""
        found = mission.check(lab)
        if found.done:
            self.accomplished.add(mission.name)
        return f"{'✓' if found.done else '○'} {mission.title}: {found.says}"

    def __repr__(self) -> str:
        return f"Session({self.run.name}, {len(self.runs)} runs)"


def is_on_spark(thing: Any) -> bool:
    """Return True if it is a SparkJob. The class is compared by name, so that Spark does not have to be installed."""
    return type(thing).__name__ == "SparkJob"


def _short(text: str) -> str:
    """Return one line of an error, cut if it is very long."""
    line = "; ".join(" ".join(each.split()) for each in text.splitlines() if each.strip())
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
