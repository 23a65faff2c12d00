"""The forms of an answer: a story, a table and a picture; for a lab, its trace, a saved trace, and on Spark."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit import Lab, SparkJob, Trace
from kit.why import Fact, Why, WhyError
from tests.hosts.spark.jobs import ThreadGang, generator, totals_job
from tests.why.jobs import beginning, running, says, settle_without


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A lab with one write of checkpoint 1 in progress."""
    lab = running()
    lab.trigger_checkpoint()
    settle_without(lab, beginning("deliver:TriggerTaskCheckpoint:chk-1:job:letters/1"))
    return lab


def test_the_story_is_numbered_from_the_question_down(lab: Lab) -> None:
    why = lab.why("letters/0 -> totals/1")
    question, *lines = str(why).splitlines()
    assert question == why.question
    assert lines[0].startswith("1. [")
    assert ", totals/1] totals/1 took barrier 1 of letters/0 " in lines[0]
    assert lines[1].startswith("2. because [")
    assert repr(why) == "Why('Why is letters/0 -> totals/1 blocked?', 2 facts)"


def test_several_causes_are_indented_and_what_was_told_is_referred_to(lab: Lab) -> None:
    why = lab.why(checkpoint=1)
    lines = str(why).splitlines()[1:]
    assert [line for line in lines if "   " in line and "and because" in line]
    again = [each for each in why.numbered if each.before]
    assert again
    for each in again:
        assert why.numbered[each.before - 1].fact is each.fact
        assert lines[each.number - 1].endswith(f"(see {each.before})")


def test_the_table_has_a_row_for_each_fact_with_its_record(lab: Lab) -> None:
    why = lab.why(checkpoint=1)
    table = why.to_pandas()
    assert list(table.number) == [each.number for each in why.numbered]
    assert table.because_of[0] == 0
    assert (table.because_of < table.number).all()
    told = table[table.record_id != ""]
    for row in told.itertuples():
        record = lab.trace.find(row.record_id)
        assert record is not None
        assert (record.at_ms, record.machine, record.kind) == (row.at_ms, row.machine, row.kind)
    assert set(table[table.is_root].says) == {root.says for root in why.roots} | {
        each.says for each in why.numbered if each.fact.is_root
    }


def test_the_pictures_hold_every_fact(lab: Lab) -> None:
    why = lab.why(checkpoint=1)
    html, svg, dot = why._repr_html_(), why.svg(), why.dot().source
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert svg.count("<rect") == 1 + len(why.numbered)
    assert svg.count("marker-end") == len(why.numbered) - 1
    assert html.count("<tr>") == 1 + len(why.numbered)
    assert dot.count(" [label=") == 1 + len(why.facts)
    assert dot.count(" -> ") == len(why.numbered)
    assert svg.caption == why.question


def test_in_a_panel_the_same_table_is_narrow_and_folded_after_the_first_facts(lab: Lab) -> None:
    why = lab.why(checkpoint=1)
    whole, narrow = why.html(), why.html(most=2, machines=False)
    assert why._repr_html_().endswith(whole)
    first, rest = narrow.split("<details>")
    assert first.count("<tr><td ") == 2
    assert f"<summary>{len(why.numbered) - 2} more</summary>" in rest
    for each in why.numbered:
        assert f'<tr><td class="kit-number">{each.number}</td>' in (first if each.number <= 2 else rest)
    assert "<th>machine</th>" in whole
    assert "machine</th>" not in narrow
    assert "<details>" not in why.html(most=len(why.numbered))
    assert " -> " in str(lab.why("letters/0 -> totals/1"))
    assert "letters/0 → totals/1" in lab.why("letters/0 -> totals/1").html()


def test_a_dead_end_says_that_the_trace_does_not_tell(lab: Lab) -> None:
    records = [record for record in lab.trace if record.kind != "CheckpointCompleted"]
    cut = Trace(records, stages=lab.trace.stages)
    assert says(cut.why(checkpoint=1))[0].startswith("checkpoint 1 has been pending")
    aborted = running()
    aborted.trigger_checkpoint()
    aborted.run_until(record="CheckpointTriggered")
    aborted.faults.kill(0)
    left = [record for record in aborted.trace if record.kind != "SlotLost"]
    assert "what led to it: the trace does not say" in says(Trace(left, stages=aborted.look.stages).why(checkpoint=1))


def test_a_circle_is_told_as_one() -> None:
    one = Fact("one")
    why = Why("Why?", Fact("both", (one, Fact("other", (one,)))))
    assert [(each.number, each.because_of, each.before) for each in why.numbered] == [
        (1, 0, 0),
        (2, 1, 0),
        (3, 1, 0),
        (4, 3, 2),
    ]
    assert why.facts == [each.fact for each in why.numbered[:3]]


def test_a_lab_its_trace_and_a_saved_one_answer_alike(lab: Lab, tmp_path: Path) -> None:
    saved = Trace.load(lab.trace.save(tmp_path / "run.jsonl"))
    for about in ("letters/0 -> totals/1", "out/0", "checkpoint 1", "job", "no checkpoint", "restart"):
        answers = [str(run.why(about)).split("ms") for run in (lab.trace, saved)]
        assert answers[0] == answers[1]
        assert lab.why(about).to_pandas()["record_id"].tolist() == saved.why(about).to_pandas()["record_id"].tolist()


def test_asked_again_later_earlier_or_on_another_way_it_is_as_asked_for_the_first_time() -> None:
    """A lab reads only the records since the last question, unless it went back or diverged."""
    lab = running(interval_ms=40)

    def agree(one: Lab) -> None:
        for about in ("totals/0", "letters/0 -> totals/1", "job", "no checkpoint"):
            asked, anew = one.why(about).to_pandas(), one.trace.why(about).to_pandas()
            assert asked.record_id.tolist() == anew.record_id.tolist()
            assert asked.kind.tolist() == anew.kind.tolist()

    for _ in range(4):
        lab.run_until(at_ms=lab.look.at_ms + 25)
        agree(lab)
    lab.back(30)
    agree(lab)
    other = lab.fork(seed=99)
    for one in (other, lab, other):
        one.run_until(at_ms=one.look.at_ms + 20)
        agree(one)


def test_a_record_is_asked_about_itself(lab: Lab) -> None:
    record = next(each for each in lab.trace if each.kind == "TriggerTaskCheckpoint" and each.role == "event")
    told = says(lab.why(record))
    assert told[0].endswith(" begins checkpoint 1: a source waits for no barrier")


def test_what_is_nothing_to_ask_about_is_refused(lab: Lab) -> None:
    with pytest.raises(WhyError, match=r"'nonsense' names no subject: ask about a task .*letters/0, letters/1"):
        lab.why("nonsense")
    with pytest.raises(WhyError, match="cannot explain a float"):
        lab.why(2.5)
    with pytest.raises(WhyError, match="the run has no task totals/7; it has 6: "):
        lab.why(task="totals/7")


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran_on_spark(tmp_path_factory: pytest.TempPathFactory) -> SparkJob:
    """A job whose slots are threads, cancelled after two checkpoints."""
    directory = tmp_path_factory.mktemp("spark")
    env = totals_job(directory, generator(10**8, rows_per_second=20_000), interval_ms=None)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        for _ in range(2):
            job.trigger_checkpoint()
        job.cancel()
        job.wait(60)
    return job


def test_a_job_on_spark_says_where_the_time_of_its_checkpoint_went(ran_on_spark: SparkJob) -> None:
    why = ran_on_spark.why(checkpoint=1)
    assert why.answer.says.startswith("checkpoint 1 is complete, ")
    kinds = [fact.record.kind for fact in why.facts if fact.record is not None]
    assert kinds[:4] == ["CheckpointCompleted", "CheckpointStored", "StoreCheckpoint", "MetadataWritten"]
    assert "WriteSnapshot" in kinds
    assert kinds[-1] in ("CheckpointIdAllocated", "CheckpointPending")


def test_it_tells_what_became_of_its_requests_and_of_the_job(ran_on_spark: SparkJob) -> None:
    number = ran_on_spark.trace.story(kind="RequestCheckpoint")[0].data["request_id"]
    assert says(ran_on_spark.why(request=number))[0].startswith(f"request {number} is answered: ")
    story = str(ran_on_spark.why(request=number)).splitlines()
    told_ms = story[1].partition("[")[2].partition(" ms")[0].replace(",", "")
    assert 0 <= int(told_ms) < 600_000  # since the job began, not since 1970
    assert ran_on_spark.why().question == "Why is the job CANCELED?"


def test_at_any_moment_of_its_run_what_was_pending_has_a_cause(ran_on_spark: SparkJob) -> None:
    """Cut where the first barrier was taken: the others are in flight, and the trace shows where."""
    trace = ran_on_spark.trace
    taken = [number for number, record in enumerate(trace) if record.kind == "BarrierAligned"]
    asked = 0
    for number in taken:
        cut = trace[: number + 1]
        channel, checkpoint_id = trace[number].data["channel"], trace[number].checkpoint_id
        if not trace[number].data["awaited"]:
            continue
        first, *rest = says(cut.why(channel=channel))
        assert f" took barrier {checkpoint_id} of " in first
        assert any(any(place in each for place in PLACES) for each in rest), rest
        assert says(cut.why(checkpoint=checkpoint_id))[0].startswith(
            f"checkpoint {checkpoint_id} has been pending for "
        )
        asked += 1
    assert asked


PLACES = ("on the wire", "in the queue of", "in the output queue of", "under way", "not answered")
