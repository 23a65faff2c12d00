"""The usual mistakes of a newcomer in the lab: each ends immediately in one message that says how to fix it."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    ExponentialDelay,
    FixedDelay,
    GeneratorSource,
    Lab,
    NoRestart,
    ProcessFunction,
    StreamEnvironment,
    sum_,
)
from kit.draw.stage.frames import last_frame
from kit.hosts.lab import LabError, LabWarning
from kit.hosts.lab import lab as lab_module
from kit.hosts.lab.conditions import record_kinds
from kit.hosts.lab.failures import LAB_ATTEMPTS
from kit.machines.job.failures import REPEATS
from kit.stream.operators.sources.source import ReadResult, Split

ROWS = [{"letter": "abc"[n % 3], "n": n} for n in range(40)]
OUT = pa.schema([("n", pa.int64())])


def readme(**settings: Any) -> StreamEnvironment:
    """The README's job."""
    checkpoint = settings.pop("checkpoint", CheckpointConfig(interval_ms=50))
    env = StreamEnvironment("letters", parallelism=2, checkpoint=checkpoint, **settings)
    stream = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def mapped(function: Callable[[dict[str, Any]], dict[str, Any]], **settings: Any) -> StreamEnvironment:
    """A job with a user-defined function."""
    checkpoint = settings.pop("checkpoint", CheckpointConfig(interval_ms=50))
    env = StreamEnvironment("mapped", checkpoint=checkpoint, **settings)
    stream = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="rows")
    stream.map(function, returns=OUT).uid("mistake").sink_to(CollectSink("out"), uid="out")
    return env


def wrong_column(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": row["number"]}


def message(error: pytest.ExceptionInfo[LabError]) -> str:
    text = str(error.value)
    assert 1 <= len(text.splitlines()) <= 6
    assert max(map(len, text.splitlines())) < 400
    return text


# --- a function that always raises ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "checkpoint", "until"])
def test_a_function_that_always_raises_stops_the_run_and_says_what_failed(way: str) -> None:
    lab = Lab(mapped(wrong_column))
    ways: dict[str, Callable[[], object]] = {
        "run": lab.run,
        "checkpoint": lambda: lab.run_until(checkpoint=100),
        "until": lambda: lab.run_until(lambda lab: False),
    }
    with pytest.raises(LabError) as caught:
        ways[way]()
    text = message(caught)
    assert "job 'mapped' FAILED" in text
    assert "has failed 3 times in the same way" in text
    assert "mistake: function " in text
    assert "wrong_column failed on row {'letter': 'a', 'n': 0}: KeyError: 'number'" in text
    assert 'test_lab.py", line' in text
    assert 'in wrong_column: return {"n": row["number"]}' in text
    assert lab.look.master.epoch == REPEATS
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "wrong_column"


class CutOff(GeneratorSource):
    """A user-defined source whose feed ends in an unexpected error."""

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        if position > 20:
            raise ZeroDivisionError("the feed is cut")
        return super().read_split(split, position, max_rows)


def test_a_source_that_raises_stops_the_run_and_says_where() -> None:
    env = StreamEnvironment("feed", checkpoint=CheckpointConfig(interval_ms=50))
    env.from_source(CutOff(100, 10, splits=2, batch_rows=10), uid="rows").sink_to(CollectSink("out"), uid="out")
    with pytest.raises(LabError) as caught:
        Lab(env).run()
    text = message(caught)
    assert "job 'feed' FAILED" in text
    assert "has failed 3 times in the same way" in text
    assert "source 'rows': ZeroDivisionError: the feed is cut" in text
    assert 'in read_split: raise ZeroDivisionError("the feed is cut")' in text
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "read_split"


def test_a_job_that_fails_in_ever_other_ways_is_restarted_until_the_lab_gives_up() -> None:
    kinds = iter([type(f"Mishap{number}", (Exception,), {}) for number in range(LAB_ATTEMPTS + 1)])

    def fails_otherwise(row: dict[str, Any]) -> dict[str, Any]:
        raise next(kinds)("not this time")

    lab = Lab(mapped(fails_otherwise))
    with pytest.raises(LabError) as caught:
        lab.run()
    assert lab.look.master.status.name == "FAILED"
    assert lab.look.master.epoch == LAB_ATTEMPTS + 1
    assert f"a lab restarts a job {LAB_ATTEMPTS} times" in message(caught)


def test_a_job_that_failed_too_often_can_be_looked_at_from_before() -> None:
    lab = Lab(mapped(wrong_column))
    with pytest.raises(LabError, match="in the same way"):
        lab.run()
    assert lab.status == "FAILED"
    failed_at = lab.position
    lab.back(8)
    assert lab.status != "FAILED"
    with pytest.raises(LabError, match="in the same way"):
        lab.run()
    assert lab.position == failed_at


def test_a_strategy_that_counts_is_left_to_count_and_one_that_does_not_is_stopped() -> None:
    counts = Lab(mapped(wrong_column, restart=FixedDelay(attempts=5, delay_ms=10)))
    with pytest.raises(LabError, match="job 'mapped' FAILED"):
        counts.run()
    assert counts.look.master.epoch == 6
    endless = Lab(mapped(wrong_column, restart=ExponentialDelay()))
    with pytest.raises(LabError, match="in the same way"):
        endless.run()
    assert endless.look.master.epoch == REPEATS
    assert endless.job.settings.restart == ExponentialDelay()


def test_a_function_that_fails_at_times_or_after_a_checkpoint_is_no_repeated_failure() -> None:
    failed: list[int] = []

    def fails_twice(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 20 and len(failed) < REPEATS - 1:
            failed.append(1)
            raise OSError("try again")
        return {"n": row["n"]}

    lab = Lab(mapped(fails_twice))
    lab.run()
    assert lab.look.master.epoch == REPEATS
    assert sorted(lab.output()["n"]) == list(range(40))

    seen: set[int] = set()

    def fails_ever_later(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] % 8 == 7 and row["n"] not in seen:
            seen.add(row["n"])
            raise OSError("once for each")
        return {"n": row["n"]}

    lab = Lab(mapped(fails_ever_later, checkpoint=CheckpointConfig(interval_ms=10)), seed=1)
    lab.run()
    assert len(seen) == 5 > REPEATS
    assert sorted(lab.output()["n"]) == list(range(40))


def test_workers_killed_by_hand_are_no_repeated_failure() -> None:
    lab = Lab(readme())
    for _ in range(REPEATS + 2):
        lab.run_until(record="AllTasksRunning")
        lab.faults.kill(0)
    lab.run()
    assert lab.look.master.status.name == "FINISHED"


# --- a lab that failed ------------------------------------------------------------------------------------------------


def test_a_lab_that_failed_says_so_everywhere() -> None:
    lab = Lab(mapped(wrong_column, checkpoint=CheckpointConfig()))
    with pytest.raises(LabError) as caught:
        lab.run()
    text = message(caught)
    assert "job 'mapped' FAILED" in text
    assert "wrong_column failed on row" in text
    assert "was not restarted: the job takes no periodic checkpoints" in text
    for again in (lab.run, lambda: lab.run_until(checkpoint=1), lambda: lab.run_until(ended=True)):
        with pytest.raises(LabError, match="wrong_column failed on row"):
            again()
    with pytest.warns(LabWarning, match="wrong_column failed on row"):
        assert lab.output().empty
    assert "wrong_column" in lab.error
    assert "FAILED: " in repr(lab)
    assert "KeyError: 'number'" in repr(lab)
    assert "\n" not in repr(lab)
    what, then = (re.findall(rf'data-name="{name}"[^>]*>([^<]*)<', lab.look.svg())[0] for name in ("what", "then"))
    assert what.startswith("The job has failed: rows/0 failed: UserFunctionError: mistake: function")
    assert "wrong_column failed on row {'letter': 'a', 'n': 0}: KeyError: 'number'" in f"{what} {then}"


def test_a_job_that_may_not_restart_says_so() -> None:
    lab = Lab(mapped(wrong_column, restart=NoRestart()))
    with pytest.raises(LabError, match=r"it was not restarted: restart=NoRestart\(\)"):
        lab.run()


def test_a_lab_that_has_finished_may_be_run_again() -> None:
    lab = Lab(readme())
    last = lab.run()
    assert lab.run().number == last.number == lab.position
    assert lab.error == ""


def test_a_restore_path_that_leads_nowhere_is_found_at_once() -> None:
    lab = Lab(mapped(lambda row: {"n": row["n"]}))
    lab.run_until(record="AllTasksRunning")
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    with pytest.raises(LabError) as caught:
        Lab(readme(), restore_path="/savepoints/savepoint-oops", after=lab)
    assert "/savepoints/savepoint-oops" in message(caught)
    assert str(lab.look.answer(request)) in str(caught.value)
    with pytest.raises(LabError) as caught:
        Lab(readme(), restore_path="/savepoints/savepoint-oops")
    assert "after=<the lab that wrote it>" in message(caught)
    with pytest.raises(TypeError, match="restore_path is 7"):
        Lab(readme(), restore_path=7)  # type: ignore[arg-type]


# --- names that are not there -----------------------------------------------------------------------------------------


def test_a_sink_that_is_not_there_is_told_with_those_that_are() -> None:
    env = readme()
    lab = Lab(env)
    assert lab.output("out").empty
    assert lab.output().empty
    with pytest.raises(LabError, match="no sink 'nope'; job 'letters' writes to 'out'"):
        lab.output("nope")
    with pytest.raises(LabError, match="no sink 'ut'"):
        lab.output("ut")
    env = mapped(lambda row: row)
    env.from_source(CollectionSource(ROWS), uid="more").sink_to(CollectSink("more"), uid="more-out")
    lab = Lab(env)
    with pytest.raises(LabError, match=r"which sink.*'more', 'out'"):
        lab.output()
    lonely = StreamEnvironment("lonely")
    lonely.from_source(CollectionSource(ROWS), uid="rows").process(ProcessFunction)
    with pytest.raises(LabError, match=r"job 'lonely' has no sink: end a stream with \.sink_to"):
        Lab(lonely).output()


def test_a_record_kind_is_checked_before_anything_runs() -> None:
    lab = Lab(readme())
    with pytest.raises(LabError, match=r"no record is a 'CheckpointCompletd'; did you mean CheckpointCompleted"):
        lab.run_until(record="CheckpointCompletd")
    assert lab.position == 1
    lab.run()
    assert {record.kind for record in lab.trace} <= set(record_kinds())


def test_what_can_never_come_is_said() -> None:
    lab = Lab(readme())
    for wrong in (-1, "1"):
        with pytest.raises(LabError, match="they are counted from 1"):
            lab.run_until(checkpoint=wrong)  # type: ignore[arg-type]
    with pytest.raises(LabError, match="checkpoint=3 for checkpoint 3"):
        lab.run_until(3)  # type: ignore[arg-type]
    with pytest.raises(LabError) as caught:
        lab.run_until(checkpoint=1_000)
    text = message(caught)
    assert "the job came to rest in FINISHED" in text
    assert "checkpoint 1000 is not there: 1" in text
    assert "completed" in text


def test_an_action_that_is_not_enabled_is_told_with_those_most_like_it() -> None:
    lab = Lab(readme())
    lab.run_until(record="AllTasksRunning")
    with pytest.raises(LabError) as caught:
        lab.step("run:letters")
    assert "'run:letters' cannot happen now; enabled are" in message(caught)
    with pytest.raises(LabError) as caught:
        lab.step(99)
    assert f"there is no action 99: lab.enabled() has {len(lab.enabled())}" in message(caught)
    with pytest.raises(LabError, match=r"there is no step 9999.*goto\(1\) to goto"):
        lab.goto(9999)


def test_a_fork_with_another_seed_goes_another_way_and_the_old_one_goes_on() -> None:
    straight = Lab(readme(), seed=3)
    straight.run_until(checkpoint=1)
    there = straight.position
    same, other = straight.fork(), straight.fork(seed=7)
    assert (other.past.seed, straight.past.seed) == (7, 3)
    for lab in (straight, same, other):
        lab.run()
    assert same.past.actions == straight.past.actions
    assert other.past.actions[:there] == straight.past.actions[:there]
    assert other.past.actions != straight.past.actions
    totals = [lab.output("out").groupby("letter")["total"].max().tolist() for lab in (straight, other)]
    assert totals[0] == totals[1]
    with pytest.raises(LabError, match="seed is '7'"):
        straight.fork(seed="7")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Lab("letters"), "not a str"),  # type: ignore[arg-type]
        (lambda: Lab(readme().execution_graph()), "not an ExecutionGraph"),  # type: ignore[arg-type]
        (lambda: Lab(StreamEnvironment("empty")), r"job 'empty' has no operators: begin with env.from_source"),
        (lambda: Lab(readme(), scheduler="last"), r"scheduler is 'last', but must be Random\(\), First\(\)"),
        (lambda: Lab(readme(), seed="x"), "seed is 'x'"),  # type: ignore[arg-type]
        (lambda: Lab(readme(), claim_mode="MINE"), "claim_mode is 'MINE', but must be one of 'CLAIM'"),
        (lambda: Lab(readme(), after="before"), "after is a str"),  # type: ignore[arg-type]
    ],
)
def test_what_no_lab_can_run_is_refused_when_it_is_made(wrong: Callable[[], Lab], said: str) -> None:
    with pytest.raises(ValueError if "no operators" in said else LabError, match=said) as caught:
        wrong()
    assert len(str(caught.value).splitlines()) <= 6


# --- what long work shows ---------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("terminal", "off"), [(True, ""), (True, "1"), (False, "")])
def test_long_work_is_shown_where_somebody_looks(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, off: str) -> None:
    screen, looks = Terminal() if terminal else io.StringIO(), terminal and not off
    monkeypatch.setenv("TQDM_DISABLE", off)
    monkeypatch.setattr(sys, "stderr", screen)
    clock = iter(range(1_000_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    lab = Lab(readme())
    lab.run()
    shown = screen.getvalue()
    assert ("lab letters" in shown) is looks
    if looks:
        assert "checkpoint" in shown
        assert shown.endswith("\r")
    else:
        assert shown == ""
    again = Lab(readme())
    monkeypatch.undo()
    again.run()
    assert [repr(each) for each in lab.trace] == [repr(each) for each in again.trace]


def test_a_notebook_keeps_nothing_of_the_line_that_showed_how_far_a_run_was(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    clock = iter(range(1_000_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    try:
        with capture_output() as captured:
            Lab(readme()).run()
    finally:
        InteractiveShell.clear_instance()
    shown = [output.data["text/plain"] for output in captured.outputs]
    assert shown[0].startswith("lab letters: ")
    assert shown[-1] == ""
    assert not any("widget" in kind for output in captured.outputs for kind in output.data)
    assert captured.stderr == ""


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_picture_takes_in_what_is_new_and_is_the_same_as_one_drawn_anew() -> None:
    lab = Lab(readme(), seed=5)
    for position in (30, 60, 61, 45, 200):
        while lab.position < position:
            lab.step()
        lab.goto(position)
        assert lab.look.svg() == last_frame(lab).svg()
    other = lab.fork(seed=8)
    other.run_until(checkpoint=1)
    assert other.look.svg() == last_frame(other).svg()
    assert lab.look.svg() == last_frame(lab).svg()
    lab.back(30).faults.kill(0)
    lab.run()
    assert lab.look.svg() == last_frame(lab).svg()


def test_a_large_run_is_a_table_until_its_picture_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(readme())
    lab.run_until(record="CheckpointTriggered")
    assert lab._repr_html_() == lab.look.svg()._repr_html_()
    assert str(lab._repr_svg_()).startswith("<svg")
    monkeypatch.setattr(lab_module, "LARGE", 50)
    other = Lab(readme())
    other.run_until(record="CheckpointTriggered")
    table = other._repr_html_()
    assert other._repr_svg_() is None
    assert table is not None
    assert "many to draw at once" in table
    assert "letters" in table
    assert "2 RUNNING" in table
    assert "of 2" in table
    assert other.look.svg() == lab.look.svg()
    assert other._repr_html_() == lab._repr_html_()
    assert other._repr_svg_() == lab.look.svg()


def test_a_trace_is_a_table_of_its_ends() -> None:
    lab = Lab(readme())
    lab.run()
    shown = lab.trace._repr_html_()
    assert f"{len(lab.trace):,} records, {len(lab.trace) - 20:,} of them left out" in shown
    assert "StartJob" in shown
    assert f'<th scope="row">{len(lab.trace) - 1}</th>' in shown
    assert shown.count("<tr") == 21
    short = lab.trace[:3]._repr_html_()
    assert "3 records:" in short
    assert short.count("<tr") == 4
    assert "0 records" in lab.trace[:0]._repr_html_()
    assert len(lab.trace.to_pandas()) == len(lab.trace)


def test_a_step_is_a_line_and_a_table_of_its_records() -> None:
    lab = Lab(readme())
    step = lab.step(0)
    assert repr(step) == "step 2: carry out EnumerateSplits for job"
    assert "SplitsEnumerated" in step._repr_html_()
    assert len(step.to_pandas()) == len(step.records)
    assert lab.cancel() == lab.status == "CANCELLING"


def test_restores_are_a_table_as_on_spark() -> None:
    lab = Lab(readme())
    assert lab.look.restores().empty
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run_until(record="StateAssigned")
    assert set(lab.look.restores()["checkpoint_id"]) == {1}
    assert {"epoch", "task", "operator", "entries"} <= set(lab.look.restores().columns)
