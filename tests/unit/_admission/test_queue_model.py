"""A pool with a configured wait queue, driven at random beside a model (`tests.unit._admission.queue_model`)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from motorlite._admission.bounded_queue import Adaptive, AgedQueue, ByPriority
from motorlite._pool.state import PoolState
from tests.unit._admission.queue_model import CONFIGURATIONS, check


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_wake_up_is_lost_and_nobody_overtakes(name: str) -> None:
    outcomes = check(name, 40_000)
    assert outcomes["FakeConnection"] > 500
    assert outcomes["AutoReconnect"] > 5
    waited = ["WaitQueueFullError", "WaitQueueTimeoutError", "timer"]
    refusals = ["PoolFullError"] if "reject" in name else waited
    assert min(outcomes[refusal] for refusal in refusals) > 10


def test_a_lost_wake_up_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    serve, calls = PoolState.serve, count(1)

    def forgetful(state: PoolState, now: float) -> None:
        if next(calls) % 500:
            serve(state, now)

    monkeypatch.setattr(PoolState, "serve", forgetful)
    with pytest.raises(AssertionError):
        check("fifo", 5_000)


@pytest.mark.parametrize(("name", "method"), [("fifo", AgedQueue), ("priority", ByPriority), ("adaptive", Adaptive)])
def test_another_order_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, method: Any) -> None:
    def last(self: Any, now: float) -> Any:
        *_, request = self
        self.discard(request)
        return request

    monkeypatch.setattr(method, "pop", last)
    with pytest.raises(AssertionError):
        check(name, 5_000)
