"""Interrupts: afterwards a lab is at a whole step, and continues as if nothing had happened."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kit
from kit.course.comparing import compare_modes
from kit.hosts.lab import Interrupted, interrupts, progress
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.scenarios.scenario import Scenario, open_scenario
from kit.hosts.lab.world import keyframes
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig
from kit.verify.explore import Exploration, explore
from kit.verify.swarm.swarm import swarm
from tests.hosts.lab.interrupting import Interrupter, Lines, interruptible, same_run, seconds
from tests.hosts.lab.jobs import Shape, environment, wrong
from tests.verify.explore.jobs import collects
from widgets.explorer.explorer import Explorer

pytestmark = pytest.mark.signals

SHAPES = {
    "totals": (Shape("totals", rows=24, splits=3), {}),
    "windows": (Shape("windows", rows=24, splits=2), {"unaligned": True}),
    "union": (Shape("union", rows=20, splits=2), {"unaligned": True, "aligned_timeout_ms": 5}),
}


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    with interruptible():
        yield


def a_lab(name: str, seed: int = 0) -> Lab:
    shape, settings = SHAPES[name]
    return Lab(environment(shape, **settings), seed=seed)


Until = Callable[[Callable[[], bool], Callable[[], object]], None]


def uninterrupted(is_so: Callable[[], bool], act: Callable[[], object]) -> None:
    while not is_so():
        act()


def life(lab: Lab, until: Until) -> Lab:
    """Run a job with a kill, a rescale and a savepoint; `until` repeats an action until a condition holds."""

    def has_completed(number: int) -> Callable[[], bool]:
        return lambda: lab.look.master.checkpoints.store.latest_id >= number or lab.ended

    def once(act: Callable[[], object]) -> None:
        before = lab.position
        until(lambda: lab.position > before, act)

    until(has_completed(1), lambda: lab.run_until(lambda lab: has_completed(1)()))
    once(lambda: lab.faults.kill(1))
    until(has_completed(2), lambda: lab.run_until(lambda lab: has_completed(2)()))
    once(lambda: lab.rescale(3))
    once(lab.savepoint)
    until(lambda: lab.ended and not lab.enabled(), lab.run)
    return lab


def assert_ended_as(lab: Lab, reference: Lab, shape: Shape) -> None:
    assert wrong(lab, shape) == {}
    assert same_run(lab, reference)
    lab.look.validate()
    assert lab.look.svg() == reference.look.svg()


# --- signals at random moments ----------------------------------------------------------------------------------------


def interrupt_runs(name: str, fewest: int, more_than: int) -> None:
    reference = life(a_lab(name), uninterrupted)
    took_s = seconds(lambda: life(a_lab(name), uninterrupted))
    interrupter = Interrupter(seed=7, mean_s=took_s / 12)
    for _ in interrupter.rounds(fewest, more_than):
        assert_ended_as(life(a_lab(name), interrupter.until), reference, SHAPES[name][0])


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_that_is_interrupted_ends_as_one_that_is_not(name: str) -> None:
    interrupt_runs(name, 4, more_than=10)


def test_going_back_and_forth_is_done_as_a_whole() -> None:
    reference = life(a_lab("windows"), uninterrupted)
    lab = reference.fork()
    interrupter = Interrupter(seed=3, mean_s=seconds(lambda: reference.fork().goto(2)) / 2)
    for _ in interrupter.rounds(40, more_than=5, most_each=2):
        before, position = lab.position, interrupter.chance.randint(1, reference.position)
        if not interrupter.tried(lambda position=position: lab.goto(position)):  # type: ignore[misc]
            assert lab.position in ({before, position} if position < before else range(before, position + 1))
        assert lab.past.actions == reference.past.actions[: lab.position]
        assert (lab.look.at_ms, len(lab.trace)) == (lab.fork().look.at_ms, len(lab.trace.since(0)))
    assert same_run(lab.goto(reference.position), reference)


def interrupt_scenarios(name: str, fewest: int, more_than: int) -> None:
    reference = open_scenario(name).run()
    interrupter = Interrupter(seed=5, mean_s=seconds(lambda: open_scenario(name).run()) / 8)
    for _ in interrupter.rounds(fewest, more_than):
        scenario: Scenario = open_scenario(name)
        interrupter.until(lambda scenario=scenario: scenario.done, lambda scenario=scenario: scenario.run())  # type: ignore[misc]
        assert [repr(each) for each in scenario.block_runs] == [repr(each) for each in reference.block_runs]
        assert [lab.past.actions for lab in scenario.labs] == [lab.past.actions for lab in reference.labs]
        assert scenario.differences == ""
        assert scenario.notes == reference.notes


def test_a_scenario_that_is_interrupted_is_played_block_by_block() -> None:
    interrupt_scenarios("late-ack", 2, more_than=5)


def explored(found: Any) -> Any:
    return found.to_pandas().drop(columns="seconds").to_dict("records"), found.machines.to_dict("records"), found.holds


def interrupt_explorations(fewest: int, more_than: int) -> None:
    def explored_now() -> Exploration:
        return explore(collects(), checkpoints=1, kinds=("lose", "repeat"))

    reference = explored_now()
    interrupter = Interrupter(seed=2, mean_s=seconds(explored_now) / 4)
    found: list[Any] = []
    partly: list[Any] = []

    def act() -> None:
        try:
            found.append(explored_now())
        except Interrupted as interrupt:
            partly.append(interrupt.found)
            raise

    for _ in interrupter.rounds(fewest, more_than, most_each=4):
        found.clear()
        interrupter.until(lambda: bool(found), act)
        assert explored(found[0]) == explored(reference)
    for each in partly:
        assert each.states <= reference.states
        assert not each.complete
        assert not each.holds
        assert "stopped by an interrupt" in repr(each)
    assert any(each.states > 1 for each in partly)


def test_an_exploration_that_is_interrupted_says_what_it_saw_and_can_be_made_again() -> None:
    interrupt_explorations(1, more_than=2)


def interrupt_swarms(fewest: int, more_than: int) -> None:
    reference = swarm(range(2, 6))
    interrupter = Interrupter(seed=4, mean_s=seconds(lambda: swarm(range(2, 6))) / 4)
    found: list[Any] = []
    partly: list[Any] = []

    def act() -> None:
        try:
            found.append(swarm(range(2, 6)))
        except Interrupted as interrupt:
            partly.append(interrupt.found)
            raise

    for _ in interrupter.rounds(fewest, more_than, most_each=6):
        found.clear()
        interrupter.until(lambda: bool(found), act)
        assert found[0].rows == reference.rows
    for each in partly:
        assert each.rows == reference.rows[: each.trials]
    assert any(each.trials for each in partly)


def test_a_swarm_that_is_interrupted_gives_the_trials_before() -> None:
    interrupt_swarms(1, more_than=2)


def interrupt_the_explorer(fewest: int, more_than: int) -> None:
    """The button that runs the job to its end, pressed until it has ended; the app itself says that it was stopped."""
    reference = a_lab("windows")
    reference.run_until(ended=True)

    def press_until_the_end(interrupter: Interrupter | None) -> Explorer:
        explorer = kit.show(a_lab("windows"))
        explorer.controls.until.value = "the job has ended"
        press = explorer.controls.go.click
        while not explorer.lab.ended:
            before = explorer.lab.position
            (interrupter.tried if interrupter is not None else uninterruptedly)(press)
            if explorer.error.startswith("Interrupted"):
                assert interrupter is not None
                interrupter.count += 1
            elif explorer.lab.position == before:
                raise AssertionError(explorer.error)
        return explorer

    interrupter = Interrupter(seed=9, mean_s=seconds(lambda: press_until_the_end(None)) / 8)
    for _ in interrupter.rounds(fewest, more_than, most_each=6):
        explorer = press_until_the_end(interrupter)
        assert same_run(explorer.lab, reference)
        assert explorer.explored.n == len(reference.trace)
        assert explorer.explored.is_present


def uninterruptedly(act: Callable[[], object]) -> None:
    act()


def test_a_button_that_is_interrupted_can_be_pressed_again() -> None:
    interrupt_the_explorer(1, more_than=2)


MANY = {
    "runs with totals": (lambda many: interrupt_runs("totals", 1, many), 75),
    "runs with windows": (lambda many: interrupt_runs("windows", 1, many), 75),
    "runs with a union": (lambda many: interrupt_runs("union", 1, many), 75),
    "scenarios": (lambda many: interrupt_scenarios("late-ack", 1, many), 75),
    "explorations": (lambda many: interrupt_explorations(1, many), 75),
    "swarms": (lambda many: interrupt_swarms(1, many), 75),
    "the explorer": (lambda many: interrupt_the_explorer(1, many), 50),
}
"""Five hundred interrupts in all."""


@pytest.mark.soak
@pytest.mark.parametrize("what", MANY)
def test_five_hundred_interrupts_at_random_moments(what: str) -> None:
    interrupt, many = MANY[what]
    interrupt(many - 1)


def test_comparisons_can_be_made_again() -> None:
    def compared() -> Any:
        return compare_modes("two-sources")

    reference = compared()
    interrupter = Interrupter(seed=6, mean_s=seconds(compared) / 4)
    for _ in interrupter.rounds(1, more_than=1, most_each=6):
        found: list[Any] = []
        interrupter.until(lambda found=found: bool(found), lambda found=found: found.append(compared()))  # type: ignore[misc]
        assert found[0].to_pandas().equals(reference.to_pandas())


# --- at every line ----------------------------------------------------------------------------------------------------


def test_wherever_an_exception_breaks_a_step_off_the_lab_stands_at_the_step_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exception is not deferred: a tracer raises it, as Python does when another thread asks for it."""
    monkeypatch.setattr(keyframes, "KEYFRAME_EVERY", 20)
    monkeypatch.setattr(keyframes, "STEPS_PER_PART", 1)
    shape = Shape("windows", rows=9, splits=2)

    def a_small_lab() -> Lab:
        return Lab(environment(shape, unaligned=True), seed=3)

    reference, lab = life(a_small_lab(), uninterrupted), a_small_lab()
    lines = Lines("lab/lab.py", "lab/keyframes.py", "lab/interrupts.py", share=0.02)
    assert_ended_as(life(lab, lines.until), reference, shape)
    lines.until(lambda: lab.position == 40, lambda: lab.goto(40))
    assert same_run(lab, reference.goto(40))
    assert lines.count > 300
    with pytest.raises(KeyboardInterrupt):  # a handler that was left behind takes itself away
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- functions that hang ----------------------------------------------------------------------------------------------


def hanging(hangs: Callable[[int], None]) -> StreamEnvironment:
    def function(row: dict[str, Any]) -> dict[str, Any]:
        hangs(row["n"])
        return row

    env = StreamEnvironment("hanging", checkpoint=CheckpointConfig(interval_ms=10))
    rows = env.from_source(CollectionSource([{"n": n} for n in range(30)], batch_rows=3), uid="rows")
    rows.rebalance().map(function).uid("function").sink_to(CollectSink("out"), uid="out")
    return env


def assert_it_goes_on(lab: Lab, hangs_no_more: Callable[[], object]) -> None:
    reference = Lab(hanging(lambda n: None))
    reference.run_until(lambda other: other.position == lab.position)
    assert repr(lab) == repr(reference)
    hangs_no_more()
    lab.run()
    reference.run()
    assert same_run(lab, reference)
    assert sorted(lab.output()["n"]) == [*range(30)]


def test_a_second_interrupt_leaves_a_function_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_S", 3_600.0)
    interrupted: list[int] = []

    def hangs(n: int) -> None:
        while n == 17 and len(interrupted) < 2:
            interrupted.append(n)
            signal.raise_signal(signal.SIGINT)

    lab = Lab(hanging(hangs))
    with pytest.raises(KeyboardInterrupt):
        lab.run()
    assert interrupted == [17, 17]
    assert_it_goes_on(lab, lambda: None)


def test_one_interrupt_leaves_a_function_that_hangs_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_S", 0.05)
    stop = threading.Event()
    entered: list[int] = []

    def hangs(n: int) -> None:
        if n == 17 and not stop.is_set():
            if not entered:
                signal.raise_signal(signal.SIGINT)
            entered.append(n)
            threading.Event().wait()  # forever

    lab = Lab(hanging(hangs))
    with pytest.raises(KeyboardInterrupt):
        lab.run()
    assert entered == [17]
    assert_it_goes_on(lab, stop.set)


def test_a_function_that_hangs_when_the_steps_are_repeated_can_be_left_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab has to repeat all steps from a copy of the first one, and a row now hangs that did not hang before."""
    monkeypatch.setattr(interrupts, "GRACE_S", 0.05)
    rows = {17}

    def hangs(n: int) -> None:
        if n in rows:
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait()

    lab = Lab(hanging(hangs))
    for row in (17, 5, 5):
        rows.add(row)
        with pytest.raises(KeyboardInterrupt):
            lab.run()
    rows.clear()
    assert_it_goes_on(lab, lambda: None)


# --- other handlers, other threads ------------------------------------------------------------------------------------


def signalling(at: int, signals: list[int]) -> Lab:
    """A lab whose function sends a signal at one row."""

    def send(n: int) -> None:
        if n == at and not signals:
            signals.append(n)
            signal.raise_signal(signal.SIGINT)

    return Lab(hanging(send))


def test_an_interrupt_waits_for_the_end_of_the_step() -> None:
    signals: list[int] = []
    lab = signalling(8, signals)
    with pytest.raises(KeyboardInterrupt) as caught:
        lab.run()
    assert "function" in str(lab.past.last_action)
    assert caught.value.__notes__ == [f"{lab!r}: its last step is complete, and run() continues from there"]
    assert_it_goes_on(lab, lambda: None)


def test_a_handler_that_raises_nothing_is_called_between_two_steps() -> None:
    positions: list[int] = []
    signals: list[int] = []
    lab = signalling(8, signals)
    signal.signal(signal.SIGINT, lambda *_: positions.append(lab.position))
    lab.run()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert len(positions) == 1
    assert lab.ended


def test_where_interrupts_are_ignored_they_stay_so() -> None:
    signals: list[int] = []
    lab = signalling(8, signals)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lab.run()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN
    assert (signals, lab.ended) == ([8], True)


def test_a_handler_that_a_function_installs_stays() -> None:
    def install(n: int) -> None:
        if n == 8:
            signal.signal(signal.SIGINT, mine)

    def mine(*_: object) -> None:
        raise AssertionError

    Lab(hanging(install)).run()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is mine


def test_a_loop_that_cancels_its_task_is_asked_between_two_steps() -> None:
    signals: list[int] = []
    lab = signalling(8, signals)

    async def main() -> None:
        lab.run()
        await asyncio.sleep(3_600)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert lab.ended


def test_an_exception_sent_to_another_thread_breaks_no_step_in_two() -> None:
    """There are no signals there, so nothing is deferred, and what was begun is undone."""
    lab, reference = a_lab("totals"), a_lab("totals")
    interrupted, goes_on = threading.Event(), threading.Event()

    def run() -> None:
        while not lab.ended:
            try:
                lab.run()
            except KeyboardInterrupt:
                interrupted.set()
                goes_on.wait()

    thread = threading.Thread(target=run)
    thread.start()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raise_in(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))
    interrupted.wait(60)
    goes_on.set()
    thread.join()
    reference.run()
    assert interrupted.is_set()
    assert same_run(lab, reference)


# --- what is seen of it -----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_that_shows_progress_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "LOOK_EVERY", 1)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    lab = signalling(8, [])
    with pytest.raises(KeyboardInterrupt):
        lab.run()
    assert "lab hanging" in screen.getvalue()
    assert screen.getvalue().endswith("\r")
    assert gc.get_freeze_count() == 0


def test_buttons_of_the_explorer_work_after_an_interrupt() -> None:
    explorer, reference = kit.show(signalling(8, [])), signalling(99, [])
    explorer.controls.until.value = "the job has ended"
    explorer.controls.go.click()
    lab = explorer.lab
    assert (
        explorer.error
        == f"Interrupted at {explorer.explored.end}: the last step is complete, and the run can continue."
    )
    assert not lab.ended
    assert explorer.explored.is_present
    assert explorer.explored.n == len(lab.trace)
    assert f"lab.run_until(lambda lab: lab.position == {lab.position})" in explorer.code
    explorer.controls.go.click()
    assert explorer.error == ""
    reference.run_until(ended=True)
    assert same_run(lab, reference)
