"""A lab and a job on Spark answer the same questions in the same way: names, arguments, answers, errors.

Slots are threads here; what Spark itself adds is held by the other tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit import CheckpointConfig, GeneratorSource, Lab, ParquetSink, SparkJob, StreamEnvironment, sum_
from kit.hosts.lab.look import Look
from kit.hosts.spark.look import SparkLook
from kit.machines.job.errors import JobFailedError
from tests.hosts.lab.test_master_hooks import Hook
from tests.hosts.spark.jobs import ThreadGang

Host = Lab | SparkJob
Begin = Callable[..., Any]


def environment(home: Path, **settings: Any) -> StreamEnvironment:
    """Return a job that runs until it is ended."""
    places = {"directory": str(home / "checkpoints")}
    checkpoint = CheckpointConfig(memory_threshold_bytes=0, **places | settings)
    env = StreamEnvironment("sums", checkpoint=checkpoint)
    source = GeneratorSource(10**8, key_count=5, batch_rows=100, rows_per_second=20_000)
    totals = env.from_source(source, uid="numbers").key_by("key").aggregate(total=sum_("value")).uid("sums")
    totals.sink_to(ParquetSink(str(home / "sums"), mode="overwrite"), uid="out")
    return env


@contextmanager
def in_the_lab(env: StreamEnvironment, **options: Any) -> Iterator[Lab]:
    lab = Lab(env, **options)
    lab.run_until(record="AllTasksRunning")
    yield lab


@contextmanager
def on_threads(env: StreamEnvironment, **options: Any) -> Iterator[SparkJob]:
    with SparkJob(env, launch=ThreadGang, **options) as job:
        yield job.start()


@pytest.fixture(params=[in_the_lab, on_threads])
def begin(request: pytest.FixtureRequest) -> Begin:
    """Begin a job on one of the hosts."""
    return request.param


def until_running(host: Host) -> None:
    if isinstance(host, SparkJob):
        host._driver.running.wait()


def until_answered(host: Host, number: int) -> None:
    while host.look.answer(number) is None:
        if isinstance(host, Lab):
            host.step()


# --- the same script on both ------------------------------------------------------------------------------------------


def test_snapshots_are_asked_for_and_answered_alike(begin: Begin, tmp_path: Path) -> None:
    hook = Hook()
    with begin(environment(tmp_path), hooks=[hook]) as host:
        until_running(host)
        assert host.status == "RUNNING"
        assert host.trigger_checkpoint(wait=True).endswith("/chk-1")
        savepoint = host.savepoint(tmp_path / "savepoints", wait=True)
        assert Path(savepoint).parent == tmp_path / "savepoints"
        number = host.trigger_checkpoint(full=True, wait=False)
        assert isinstance(number, int)
        assert host.look.answer(number + 99) is None
        last = host.stop(tmp_path / "savepoints", wait=True)
        assert Path(last).parent == tmp_path / "savepoints"
        assert (host.status, host.error) == ("FINISHED", "")
        assert host.checkpoints().set_index("id")["status"][[1, 2]].tolist() == ["COMPLETED", "COMPLETED"]
        if isinstance(host, Lab):
            host.run()
    assert {told[0] for told in hook.told[1:-1]} == {"trigger"}
    assert (hook.told[0], hook.told[-1], hook.told.count("close")) == ("reset", "close", 1)


@pytest.mark.parametrize(
    ("settings", "place"),
    [({"savepoint_directory": "mine"}, "mine"), ({"directory": "checkpoints"}, "checkpoints/savepoints")],
)
def test_a_savepoint_without_a_target_goes_to_the_configured_directory(
    begin: Begin, tmp_path: Path, settings: dict[str, str], place: str
) -> None:
    configured = {name: str(tmp_path / directory) for name, directory in settings.items()}
    with begin(environment(tmp_path, **{"directory": None} | configured)) as host:
        assert Path(host.savepoint(wait=True)).parent == tmp_path / place
        assert Path(host.stop(wait=True)).parent == tmp_path / place


@pytest.mark.flink("JobMasterTriggerSavepointITCase.testCancelWithSavepointWithoutConfiguredSavepointDirectory")
def test_without_any_directory_a_lab_has_one_and_spark_says_what_to_do(tmp_path: Path) -> None:
    """A lab writes to its memory; on Spark the temporary directory for checkpoints is deleted with the job."""
    with in_the_lab(environment(tmp_path, directory=None)) as lab:
        assert lab.savepoint(wait=True).startswith("/savepoints/")
    with on_threads(environment(tmp_path, directory=None)) as job:
        for ask in (job.savepoint, job.stop):
            with pytest.raises(JobFailedError, match=r"No savepoint location given .* pass a target directory"):
                ask()
        assert job.status == "RUNNING"


class BrokenHook(Hook):
    """A hook that cannot be triggered."""

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> str:
        raise RuntimeError("the log is full")


def test_what_fails_is_the_same_error(begin: Begin, tmp_path: Path) -> None:
    with begin(environment(tmp_path, savepoint_directory=str(tmp_path)), hooks=[BrokenHook()]) as host:
        for ask in (host.trigger_checkpoint, host.savepoint, host.stop):
            with pytest.raises(
                JobFailedError, match=r"master hook 'log' cannot be triggered: RuntimeError: the log is f"
            ):
                ask(wait=True)
        assert host.status == "RUNNING"
        number = host.trigger_checkpoint(wait=False)
        with pytest.raises(JobFailedError, match="the log is full"):
            until_answered(host, number)


def test_cancelling_says_what_the_job_is(begin: Begin, tmp_path: Path) -> None:
    with begin(environment(tmp_path)) as host:
        assert host.cancel() in ("CANCELLING", "CANCELED")
        if isinstance(host, Lab):
            host.run()
        assert host.status == "CANCELED"
        assert host.error == ""


# --- the same names ---------------------------------------------------------------------------------------------------

SHARED = ["cancel", "checkpoints", "metrics", "output", "savepoint", "stop", "trigger_checkpoint"]
LOOKS = ["answer", "restores"]


@pytest.mark.parametrize(
    ("name", "hosts"), [*((name, (Lab, SparkJob)) for name in SHARED), *((name, (Look, SparkLook)) for name in LOOKS)]
)
def test_arguments_have_the_same_names_and_kinds(name: str, hosts: tuple[type, type]) -> None:
    """Only one default differs: a job on Spark waits for the answer, and a lab does not."""
    lab, spark = (
        [(each.name, each.kind, each.default) for each in inspect.signature(getattr(host, name)).parameters.values()]
        for host in hosts
    )
    assert [each for each in lab if each[0] != "wait"] == [each for each in spark if each[0] != "wait"]
    assert [each[:2] for each in lab] == [each[:2] for each in spark]


def test_what_both_are_made_with_has_the_same_names_and_defaults() -> None:
    lab, spark = (inspect.signature(host).parameters for host in (Lab, SparkJob))
    both = lab.keys() & spark.keys()
    both_take = {"job", "restore_path", "allow_non_restored_state", "claim_mode", "later_output", "recover", "hooks"}
    assert both == both_take | {"parts"}
    assert {name: lab[name].default for name in both} == {name: spark[name].default for name in both}
