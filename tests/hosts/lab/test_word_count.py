"""The first word count that everyone writes: lines of text, counted exactly whatever fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import CheckpointConfig, CollectSink, FixedDelay, Lab, StreamEnvironment, TextSource, count
from tests.properties import examples

POEM = """the rose is a rose
and was always a rose\r
but the theory now goes

that the apple's a rose"""


def word_count(path: Path, parallelism: int, splits: int | None = None) -> StreamEnvironment:
    settings = CheckpointConfig(interval_ms=10, tolerable_failures=1_000)
    env = StreamEnvironment(
        "words", parallelism=parallelism, max_parallelism=8, checkpoint=settings, restart=FixedDelay(1_000, 1)
    )
    lines = env.from_source(TextSource(path, batch_rows=1, splits=splits), uid="lines")
    words = lines.flat_map(lambda row: [{"word": word} for word in row["line"].split()], {"word": pa.string()})
    counts = words.uid("words").key_by("word").aggregate(n=count(), emit="final").uid("counts")
    counts.sink_to(CollectSink("counts"), uid="out")
    return env


def counted(lab: Lab) -> Counter[str]:
    found = lab.output("counts")
    assert found["word"].is_unique
    return Counter(dict(zip(found["word"], found["n"], strict=True)))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parallelism=st.integers(1, 3),
    splits=st.none() | st.integers(1, 9),
    kills=st.lists(st.tuples(st.integers(1, 120), st.integers(0, 2)), max_size=4),
    seed=st.integers(0, 99),
)
def test_every_word_is_counted_once_whatever_is_killed(tmp_path, parallelism, splits, kills, seed) -> None:
    (tmp_path / "a.txt").write_bytes(POEM.encode())
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(b"a rose\n")
    lab = Lab(word_count(tmp_path, parallelism, splits), seed=seed)
    for steps, worker in kills:
        for _ in range(steps):
            if lab.enabled():
                lab.step()
        if any(task.subtask == worker for task in lab._world.tasks.values()):
            lab.faults.kill(worker)
    while lab.enabled():
        lab.step()
    assert lab.look.master.status.name == "FINISHED", lab.look.master.error
    assert counted(lab) == Counter(f"{POEM} a rose".split())


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_checkpoint_is_gone_on_from_in_the_middle_of_a_file(tmp_path, parallelism) -> None:
    (tmp_path / "a.txt").write_bytes(POEM.encode())
    before = Lab(word_count(tmp_path / "*.txt", 2), seed=3)
    before.run_until(checkpoint=1)
    latest = before.look.master.checkpoints.store.latest
    assert latest is not None
    after = Lab(word_count(tmp_path / "*.txt", parallelism), restore_path=latest.path, after=before)
    after.run()
    assert counted(after) == Counter(POEM.split())
