"""The first job of the README, as a newcomer runs it: again and again, and stopped on the way."""

from __future__ import annotations

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, sum_

ROWS = [{"letter": "abc"[i % 3], "n": i} for i in range(40)]


def letters() -> StreamEnvironment:
    env = StreamEnvironment("letters", parallelism=2, checkpoint=CheckpointConfig(interval_ms=50))
    stream = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def test_it_never_shows_a_failed_checkpoint() -> None:
    taken = []
    for seed in range(20):
        lab = Lab(letters(), seed=seed)
        lab.run()
        taken += lab.checkpoints()["status"].tolist()
    assert len(taken) >= 40
    assert set(taken) == {"COMPLETED"}


def test_it_can_be_stopped_at_any_time_before_its_end() -> None:
    stopped = 0
    for seed in range(30):
        lab = Lab(letters(), seed=seed)
        lab.run_until(checkpoint=1)
        coordinator = lab.look.master.checkpoints
        ends_by_itself = lab.look.master.tasks.all_data_ended
        request = lab.stop()
        lab.run()
        answer = lab._world.answers[request]
        assert ends_by_itself or not answer.error or "the job finishes by itself" in answer.error
        stopped += not answer.error
        assert not coordinator.pending
    assert stopped >= 25
