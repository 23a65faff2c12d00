"""Advice on checkpoints, from what a real Flink answered (`tests/data/flink_rest`) and from runs of the kit."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, count
from kit.advice import CheckpointFigures, advise, checkpoint_interval, figures_of, read_flink, save_flink
from kit.advice.figures import PHASES, tables
from kit.advice.flink_rest import FlinkRestError
from tests.cli.test_commands import ran

SAVED = Path(__file__).parents[1] / "data" / "flink_rest"
MB = 1_000_000


def symptoms(figures: CheckpointFigures) -> list[str]:
    return [remedy.symptom for remedy in advise(figures).remedies]


# --- what Flink answered ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("backpressured", ["backpressure", "interval"]),
        ("expired", ["expired", "backpressure"]),
        ("large", ["full checkpoints"]),
        ("unaligned", []),
    ],
)
def test_a_job_of_flink_gets_the_advice_that_it_needs(job: str, expected: list[str]) -> None:
    """A slow keyed operator; the same with a timeout of 4 s; 240 MB on the heap; the first with unaligned barriers."""
    assert symptoms(read_flink(SAVED / f"{job}.json")) == expected


def test_figures_are_flinks() -> None:
    figures = read_flink(SAVED / "backpressured.json")
    answers = json.loads((SAVED / "backpressured.json").read_text())
    of_4 = figures.checkpoints.set_index("checkpoint_id").loc[4]
    told = answers["/checkpoints/details/4"]
    assert of_4["duration_ms"] == told["end_to_end_duration"]
    assert of_4["full_bytes"] == told["state_size"]
    parts = figures.subtasks.query("checkpoint_id == 4")
    assert sorted(parts["vertex"].unique()) == ["Source: numbers", "count -> sink: Writer"]
    assert parts["duration_ms"].max() == told["end_to_end_duration"]
    assert parts["checkpointed_bytes"].sum() == told["checkpointed_size"]
    assert figures.settings["interval_ms"] == 4_000
    assert not figures.settings["unaligned"]
    assert repr(figures) == "CheckpointFigures(slow: 4 COMPLETED, 1 PENDING)"


def test_settings_that_an_older_flink_does_not_tell_are_not_known(tmp_path: Path) -> None:
    answers = json.loads((SAVED / "backpressured.json").read_text())
    known = read_flink(SAVED / "backpressured.json").settings
    for gone in ("interval", "aligned_checkpoint_timeout", "tolerable_failed_checkpoints"):
        del answers["/checkpoints/config"][gone]
    (tmp_path / "older.json").write_text(json.dumps(answers))
    left = read_flink(tmp_path / "older.json").settings
    assert left == {name: known[name] for name in ("timeout_ms", "min_pause_ms", "max_concurrent", "unaligned")}


def test_the_numbers_are_in_the_words() -> None:
    advice = advise(read_flink(SAVED / "expired.json"))
    assert advice.verdict.startswith("2 of 8 checkpoints completed.")
    expired = advice.remedies[0]
    assert expired.told == "6 of 8 checkpoints expired after 4.0 s; 12 of 24 subtasks were not done."
    assert expired.where == "count -> sink: Writer"
    assert sum(advice.shares.values()) == pytest.approx(1)
    assert list(advice.to_pandas()["symptom"]) == ["expired", "backpressure"]
    for shown in (str(advice), advice._repr_html_()):
        assert "12 of 24 subtasks were not done" in shown


@pytest.mark.parametrize("job", ["backpressured", "large", "unaligned"])
def test_the_best_interval_comes_from_what_checkpoints_cost(job: str) -> None:
    figures = read_flink(SAVED / f"{job}.json")
    completed = figures.checkpoints.query("status == 'COMPLETED' and kind == 'CHECKPOINT'")["checkpoint_id"]
    costs = []
    for number in completed:
        parts = figures.subtasks[figures.subtasks["checkpoint_id"] == number].to_dict("records")
        costs.append(max(each["sync_ms"] + (0 if each["unaligned"] else each["alignment_ms"]) for each in parts))
    advice = advise(figures)
    assert advice.cost_ms == pytest.approx(sum(costs) / len(costs))
    hours = 6 * 3_600_000
    wanted = checkpoint_interval(max(advice.cost_ms, 1), hours, restart_ms=5_000)
    assert advice.intervals(hours, restart_ms=5_000).equals(wanted)
    arguments = ["advise", SAVED / f"{job}.json", "--failures-every-s", 6 * 3_600, "--restart-s", 5]
    lost = float(wanted.query("best")["lost"].iloc[0])
    assert f" {lost:.2%} " in ran(*arguments)[1]
    code, out, _ = ran(*arguments, "--json")
    best = [row["interval_ms"] for row in map(json.loads, out.splitlines()) if row["best"]]
    assert (code, best) == (0, wanted.query("best")["interval_ms"].tolist())


def test_without_a_completed_checkpoint_there_is_no_cost() -> None:
    with pytest.raises(ValueError, match="no completed checkpoint of 'new'"):
        advise(tables("new", [], [], {})).intervals(1_000)


# --- a live API -------------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[str]:
    """The saved answers of a job, served as Flink serves them."""
    answers = json.loads((SAVED / "backpressured.json").read_text())
    job = answers[""]["jid"]
    pages = {f"/jobs/{job}{path}": answer for path, answer in answers.items()} | {
        f"{place}/jobs": {"jobs": [{"id": each} for each in jobs]}
        for place, jobs in (("", [job]), ("/idle", []), ("/busy", [job, "another"]))
    }
    pages |= {f"/busy{path}": answer for path, answer in pages.items() if job in path}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(page if page is not None else {"errors": ["Not found."]}).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_live_job_is_read_and_saved(served: str, tmp_path: Path) -> None:
    live, saved = read_flink(served), read_flink(SAVED / "backpressured.json")
    assert live.checkpoints.equals(saved.checkpoints)
    assert live.subtasks.equals(saved.subtasks)
    again = read_flink(save_flink(served, tmp_path / "job.json"))
    assert again.subtasks.equals(saved.subtasks)


def test_of_several_jobs_one_must_be_named(served: str) -> None:
    with pytest.raises(FlinkRestError, match=r"/busy has 2 jobs, expected one: .*, another; give the URL of a job"):
        read_flink(f"{served}/busy")
    with pytest.raises(FlinkRestError, match="/idle has 0 jobs, expected one: none; give the URL of a job"):
        read_flink(f"{served}/idle/jobs")
    named = json.loads((SAVED / "backpressured.json").read_text())[""]["jid"]
    assert read_flink(f"{served}/busy/jobs/{named}").checkpoints.equals(read_flink(served).checkpoints)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read as saved figures"),
        ("{", "cannot be read as saved figures"),
        ("[]", "has no answer for /checkpoints"),
        ('{"/checkpoints": {}}', "the answers are not those of Flink"),
        ('{"/checkpoints": {"history": [{"id": 1}]}}', "the answers are not those of Flink"),
    ],
)
def test_what_is_not_from_flink_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(FlinkRestError, match=f"{said}.*give the URL of a job"):
        read_flink(tmp_path / "job.json")


def test_an_address_without_flink_is_refused(served: str) -> None:
    with pytest.raises(FlinkRestError, match="gave no answer of Flink's REST API"):
        read_flink(f"{served}/jobs/nothing")
    with pytest.raises(FlinkRestError, match="cannot be read as saved figures"):
        read_flink("no/such/file.json")


# --- each rule --------------------------------------------------------------------------------------------------------


def made(
    phases: tuple[int, int, int, int] = (1, 1, 1, 1),
    *,
    sizes: tuple[int, ...] = (100, 100),
    full: int | None = None,
    persisted: int = 0,
    failure: str = "",
    settings: dict[str, Any] | None = None,
    kind: str = "CHECKPOINT",
) -> CheckpointFigures:
    """Three checkpoints of one vertex whose subtasks all need `phases` ms and write `sizes` bytes."""
    checkpoints, subtasks = [], []
    for number in (3, 2, 1):
        checkpoints.append(
            {
                "checkpoint_id": number,
                "kind": kind,
                "status": "FAILED" if failure else "COMPLETED",
                "duration_ms": sum(phases),
                "checkpointed_bytes": sum(sizes),
                "full_bytes": sum(sizes) if full is None else full,
                "persisted_bytes": persisted,
                "failure": failure,
            }
        )
        for subtask, size in enumerate(sizes):
            parts = dict(zip(PHASES, phases, strict=True))
            row: dict[str, Any] = {"checkpoint_id": number, "vertex": "count", "subtask": subtask}
            row |= {"status": "acknowledged", "duration_ms": sum(phases), "checkpointed_bytes": size}
            subtasks.append(row | parts)
    return tables("made", checkpoints, subtasks, settings or {})


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (made((5_000, 10, 10, 10)), ["backpressure"]),
        (made((10, 5_000, 10, 10)), ["backpressure"]),
        (made((10, 10, 5_000, 10)), ["slow copy of state"]),
        (made((10, 10, 10, 5_000)), ["slow writing"]),
        (made((500, 10, 10, 10)), []),
        (made((5_000, 10, 10, 10), kind="SAVEPOINT"), []),
        (made(sizes=(100 * MB, 300 * MB, 1_000 * MB), full=9_000 * MB), ["skew"]),
        (made(sizes=(100 * MB, 100 * MB, 200 * MB), full=9_000 * MB), []),
        (made(sizes=(100 * MB, 100 * MB)), ["full checkpoints"]),
        (made(sizes=(100 * MB, 100 * MB), full=300 * MB), []),
        (made(sizes=(100 * MB, 100 * MB), full=300 * MB, persisted=150 * MB), ["in-flight data"]),
        (made((300, 300, 300, 300), settings={"interval_ms": 1_000}), ["backpressure", "interval"]),
        (made((300, 300, 300, 300), settings={"interval_ms": 2_000}), ["backpressure"]),
        (made(failure="Checkpoint was declined."), ["failing"]),
        (made(failure="Checkpoint has been subsumed."), []),
    ],
)
def test_each_rule_speaks_when_its_numbers_say_so(figures: CheckpointFigures, expected: list[str]) -> None:
    assert symptoms(figures) == expected


def test_the_speed_of_writing_is_that_of_a_subtask_in_a_second() -> None:
    slow = advise(made((10, 10, 10, 5_000), sizes=(100 * MB, 100 * MB))).remedies
    told = {each.symptom: each.told for each in slow}
    assert "Writing takes 5.0 s for 100 MB: 20 MB a second and subtask" in told["slow writing"]


Part = tuple[int, str, int, tuple[int, int, int, int], int]
"""One subtask in a checkpoint: the checkpoint, vertex and subtask, its time in each phase in ms, the bytes written."""


def of_parts(parts: Iterable[Part], **changed: dict[str, Any]) -> CheckpointFigures:
    """Return the figures of completed checkpoints whose subtasks differ; `changed` holds columns of `chk_<number>`."""
    checkpoints: dict[int, dict[str, Any]] = {}
    subtasks = []
    for number, vertex, subtask, phases, size in parts:
        whole = checkpoints.setdefault(
            number,
            {
                "checkpoint_id": number,
                "kind": "CHECKPOINT",
                "status": "COMPLETED",
                "duration_ms": 0,
                "checkpointed_bytes": 0,
                "full_bytes": 0,
                "persisted_bytes": 0,
                "failure": "",
            },
        )
        whole["duration_ms"] = max(whole["duration_ms"], sum(phases))
        whole["checkpointed_bytes"] += size
        whole["full_bytes"] += size
        row: dict[str, Any] = {
            "checkpoint_id": number,
            "vertex": vertex,
            "subtask": subtask,
            "checkpointed_bytes": size,
        }
        row |= {"status": "acknowledged", "duration_ms": sum(phases)}
        subtasks.append(row | dict(zip(PHASES, phases, strict=True)))
    for name, columns in changed.items():
        checkpoints[int(name.removeprefix("chk_"))] |= columns
    return tables("varied", [checkpoints[number] for number in sorted(checkpoints, reverse=True)], subtasks, {})


@pytest.mark.parametrize("phase", range(4))
def test_the_slowest_subtask_of_each_checkpoint_counts_and_the_slowest_of_all_is_named(phase: int) -> None:
    def took(long_ms: int) -> tuple[int, int, int, int]:
        first, second, third, fourth = (long_ms if phase == each else 10 for each in range(4))
        return first, second, third, fourth

    parts: list[Part] = [
        (1, "read", 0, took(100), MB),
        (1, "count", 0, took(2_000), 50 * MB),
        (1, "count", 1, took(1_000), MB),
        (2, "read", 0, took(9_000), 30 * MB),
        (2, "count", 0, took(100), MB),
        (2, "count", 1, took(300), MB),
        (3, "read", 0, took(200), MB),
        (3, "count", 0, took(300), MB),
        (3, "count", 1, took(4_000), 70 * MB),
    ]
    advice = advise(of_parts(parts))
    assert "The slowest subtask takes 4.0 s at the median" in advice.verdict
    first = advice.remedies[0]
    assert first.where == "count", "two of the three slowest subtasks"
    most = ("9.0 s at most", "9.0 s at most", "9.0 s; meanwhile", "9.0 s for 70 MB: 17.5 MB a second and subtask")
    assert most[phase] in first.told
    shares = {name: advice.shares[name] for name in PHASES}
    assert max(shares, key=lambda name: shares[name]) == PHASES[phase]


def test_only_the_newest_checkpoint_says_whether_bytes_are_skewed() -> None:
    def sizes(number: int, vertex: str, *written: int) -> list[Part]:
        return [(number, vertex, subtask, (1, 1, 1, 1), size * MB) for subtask, size in enumerate(written)]

    skewed, even = (100, 900, 80), (100, 110, 90)
    over = of_parts([*sizes(1, "count", *skewed), *sizes(2, "count", *even)])
    assert "skew" not in symptoms(over)
    begun = of_parts(
        [*sizes(1, "read", *even), *sizes(1, "count", *even), *sizes(2, "read", *even), *sizes(2, "count", *skewed)]
    )
    remedy = next(each for each in advise(begun).remedies if each.symptom == "skew")
    assert (remedy.where, remedy.told) == ("count", "Subtask 1 writes 900 MB, the median is 100 MB.")


def test_state_is_written_again_only_if_no_checkpoint_wrote_less() -> None:
    parts: list[Part] = [(number, "count", 0, (1, 1, 1, 1), 100 * MB) for number in (1, 2, 3)]
    assert symptoms(of_parts(parts)) == ["full checkpoints"]
    assert symptoms(of_parts(parts, chk_2={"checkpointed_bytes": 5 * MB})) == []
    assert symptoms(of_parts(parts, chk_1={"full_bytes": MB}, chk_3={"full_bytes": MB})) == [], "only one is large"


def test_expired_checkpoints_name_the_subtasks_that_were_late() -> None:
    figures = of_parts(
        [(number, vertex, 0, (1, 1, 1, 1), MB) for number in (1, 2, 3) for vertex in ("read", "count", "out")],
        chk_1={"status": "FAILED", "failure": "Checkpoint expired before completing."},
        chk_3={"status": "FAILED", "failure": "Checkpoint expired before completing."},
    )
    late = figures.subtasks["checkpoint_id"].isin([1, 3]) & (figures.subtasks["vertex"] == "count")
    late |= (figures.subtasks["checkpoint_id"] == 3) & (figures.subtasks["vertex"] == "out")
    figures.subtasks.loc[late, "status"] = "late"
    figures.subtasks.loc[late, "duration_ms"] = [7_000, 12_000, 9_000]
    remedy = next(each for each in advise(figures).remedies if each.symptom == "expired")
    assert remedy.where == "count, out"
    assert remedy.told == "2 of 3 checkpoints expired; 3 of 6 subtasks were not done."
    assert "The late ones took 12.0 s at most" in remedy.do


def test_where_barriers_overtake_already_it_says_something_else() -> None:
    remedy = advise(made((5_000, 1, 1, 1), settings={"unaligned": True})).remedies[0]
    assert "busy with one row or timer" in remedy.do


def test_a_job_without_checkpoints_gets_no_advice() -> None:
    advice = advise(tables("none", [], [], {}))
    assert (advice.verdict, advice.remedies) == ("There is no periodic checkpoint yet.", ())
    assert "There is no periodic checkpoint yet." in advice._repr_html_()


# --- runs of the kit --------------------------------------------------------------------------------------------------


def test_a_run_of_the_kit_is_read_like_one_of_flink() -> None:
    env = StreamEnvironment("letters", parallelism=2, checkpoint=CheckpointConfig(interval_ms=20))
    rows = [{"k": n % 3} for n in range(600)]
    counted = env.from_source(CollectionSource(rows, batch_rows=5), uid="rows").key_by("k").aggregate(n=count())
    counted.uid("count").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    statistics = lab.statistics
    figures = figures_of(statistics, "letters")
    assert figures.checkpoints["duration_ms"].tolist() == statistics.history["duration_ms"].tolist()
    assert len(figures.checkpoints) > 1
    newest = figures.checkpoints["checkpoint_id"].max()
    parts, told = figures.subtasks.query(f"checkpoint_id == {newest}"), statistics.subtasks(newest)
    for name in (*PHASES, "checkpointed_bytes"):
        assert parts[name].tolist() == told[name].tolist()
    assert figures.settings["interval_ms"] == 20
    assert advise(figures).verdict.startswith(f"{len(figures.checkpoints)} of {len(figures.checkpoints)} checkpoints")


# --- the interval -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cost_ms", "between_ms"), [(100, 3_600_000), (2_000, 21_600_000), (60_000, 86_400_000)])
def test_the_best_interval_loses_least(cost_ms: float, between_ms: float) -> None:
    table = checkpoint_interval(cost_ms, between_ms, restart_ms=30_000)
    best = table[table["best"]].iloc[0]
    assert best["lost"] == table["lost"].min()
    first_order = (2 * cost_ms * between_ms) ** 0.5
    assert best["interval_ms"] == pytest.approx(first_order, rel=0.05)
    sums = table[["checkpoints", "repeated", "restarts"]].sum(axis="columns")
    assert table["lost"].tolist() == pytest.approx(sums.tolist())


@pytest.mark.parametrize("wrong", [(0, 1_000), (-1, 1_000), (10, 0), (float("nan"), 10), (10, float("inf"))])
def test_numbers_that_cannot_be_are_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        checkpoint_interval(*wrong)
    with pytest.raises(ValueError, match="restart_ms is -1"):
        checkpoint_interval(1, 2, restart_ms=-1)
