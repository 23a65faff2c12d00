"""Requests about channel state: executed once, cancelled at most once, and then without buffers."""

from __future__ import annotations

import pytest

from kit.core.protocol.loggable import loggable
from kit.machines.channel.channel_state.channel_state_requests import CheckpointInProgressRequest, RequestState
from kit.machines.channel.channel_state.data_future import DataFuture
from tests.channel.channel_state import buffer, start, write_in, write_out, write_out_future


class Counted(CheckpointInProgressRequest):
    """A request that counts how often it lets go."""

    let_go = 0
    fails = False

    def _act(self, writer: object) -> None:
        if self.fails:
            raise ValueError("no")

    def _let_go(self) -> None:
        self.let_go += 1


def a_request() -> Counted:
    return Counted(task="a/0", subtask=0, checkpoint_id=1)


@pytest.mark.flink("CheckpointInProgressRequestTest.testNoCancelTwice")
def test_ten_cancels_act_once() -> None:
    request = a_request()
    for _ in range(10):
        request.cancel(ValueError("no"))
    assert request.let_go == 1
    assert request.state is RequestState.CANCELLED
    with pytest.raises(RuntimeError, match="CANCELLED"):
        request.execute(None)  # type: ignore[arg-type]


def test_what_was_executed_is_not_cancelled() -> None:
    request = a_request()
    request.execute(None)  # type: ignore[arg-type]
    request.cancel(ValueError("no"))
    assert request.let_go == 1
    assert request.state is RequestState.COMPLETED


def test_what_failed_can_be_cancelled() -> None:
    request = a_request()
    request.fails = True
    with pytest.raises(ValueError, match="no"):
        request.execute(None)  # type: ignore[arg-type]
    assert request.let_go == 0
    request.cancel(ValueError("no"))
    request.cancel(ValueError("no"))
    assert request.let_go == 1


@pytest.mark.parametrize("request_", [write_in(buffer(1)), write_out(buffer(1)), write_out_future()])
def test_a_cancelled_write_holds_nothing(request_: CheckpointInProgressRequest) -> None:
    request_.cancel(ValueError("no"))
    assert not getattr(request_, "buffers", None)
    assert getattr(request_, "future", None) is None
    assert request_.ready


def test_a_request_is_ready_when_its_data_is() -> None:
    future = DataFuture()
    request = write_out_future(future)
    assert not request.ready
    with pytest.raises(RuntimeError, match="before its data was there"):
        request.execute(None)  # type: ignore[arg-type]
    future.complete([])
    assert request.ready
    assert write_in().ready
    assert start().ready


def test_a_trace_counts_buffers() -> None:
    told = {"type": "WriteInputRequest", "channel": [0, 0], "elements": 2}
    assert loggable(write_in(buffer(1), buffer(2))) == told
    assert loggable(start()) == {"type": "CheckpointStartRequest"}
    assert [repr(DataFuture()), repr(start(3))] == ["DataFuture(open)", "CheckpointStartRequest(a/0, chk-3)"]
