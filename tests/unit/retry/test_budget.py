"""The budget of retries counts exactly and never leaves its bounds."""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.retry import RetryBudget

if TYPE_CHECKING:
    from collections.abc import Callable


def test_starts_full() -> None:
    bucket = RetryBudget()
    assert bucket.tokens == bucket.capacity == 1000


@pytest.mark.parametrize(
    ("deposit", "amount"), [("first_attempt_succeeded", 0.1), ("retry_succeeded", 1.1), ("retry_failed_otherwise", 1)]
)
def test_deposits(deposit: str, amount: float) -> None:
    bucket = RetryBudget(5)
    bucket.take()
    bucket.take()
    getattr(bucket, deposit)()
    assert bucket.tokens == pytest.approx(3 + amount, abs=1e-12)
    for _ in range(100):
        getattr(bucket, deposit)()
    assert bucket.tokens == 5


def test_a_capacity_of_its_own() -> None:
    bucket = RetryBudget(2.5)
    assert (bucket.capacity, bucket.tokens) == (2.5, 2.5)
    assert bucket.take()
    assert bucket.take()
    assert not bucket.take()
    assert bucket.tokens == 0.5


A, B = ("a", 1), ("b", 1)


@pytest.mark.parametrize("value", ["10", True, None, [10]])
def test_capacities_of_wrong_types(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^capacity must be a non-negative number, not "):
        RetryBudget(value)
    if value is not None:
        with pytest.raises(TypeError, match=r"^per_server must be a non-negative number, not "):
            RetryBudget(per_server=value)


@pytest.mark.parametrize("value", [-1, -0.1, math.nan, math.inf, 2**53 + 1])
def test_capacities_out_of_range(value: float) -> None:
    with pytest.raises(ValueError, match=r"^capacity must be a non-negative number, at most"):
        RetryBudget(value)
    with pytest.raises(ValueError, match=r"^per_server must be a non-negative number, at most"):
        RetryBudget(per_server=value)


def test_a_retry_takes_a_token_of_its_server_and_of_all() -> None:
    budget = RetryBudget(4, per_server=3)
    assert [budget.take(A) for _ in range(4)] == [True, True, True, False]
    assert (budget.tokens, budget.tokens_for(A), budget.tokens_for(B)) == (1, 0, 3)
    assert budget.take(B)
    assert not budget.take(B), "the budget of all servers is empty"
    assert (budget.tokens, budget.tokens_for(B), budget.per_server) == (0, 2, 3)


def test_without_a_server_only_the_common_token_is_taken() -> None:
    budget = RetryBudget(4, per_server=0)
    assert not budget.take(A)
    assert budget.take(None)
    assert budget.tokens == 3
    # And without limits per server.
    budget = RetryBudget(2)
    assert budget.take(A)
    assert (budget.tokens, budget.tokens_for(A), budget.per_server) == (1, None, None)


def test_deposits_reach_their_server_only() -> None:
    budget = RetryBudget(10, per_server=2)
    for address in (A, A, B, B):
        assert budget.take(address)
    budget.retry_succeeded(A)
    budget.first_attempt_succeeded(B)
    assert (budget.tokens, budget.tokens_for(A), budget.tokens_for(B)) == (7.2, 1.1, 0.1)
    for _ in range(20):
        budget.retry_failed_otherwise(A)
    assert (budget.tokens, budget.tokens_for(A), budget.tokens_for(B)) == (10, 2, 0.1)
    assert not budget.is_full
    for _ in range(19):
        budget.first_attempt_succeeded(B)
    assert (budget.tokens_for(B), budget.is_full) == (2, True)


def test_servers_that_have_all_their_tokens_are_forgotten() -> None:
    budget = RetryBudget(1000, per_server=5)
    for port in range(500):
        assert budget.take(("a", port))
    for port in range(500):
        budget.retry_not_made(("a", port))
    assert budget.is_full
    assert not budget._servers


@pytest.mark.parametrize("per_server", [None, 3.0])
def test_full_or_not(per_server: float | None) -> None:
    budget = RetryBudget(5, per_server=per_server)
    assert budget.is_full
    budget.take(A)
    assert not budget.is_full
    budget.retry_not_made(A)
    assert budget.is_full


def in_eight_threads(function: Callable[[], None]) -> None:
    """Call `function` in eight threads, which take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=function) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("per_server", [None, 100_000])
def test_eight_threads_count_exactly(per_server: float | None) -> None:
    rounds = 4000
    budget = RetryBudget(8 * rounds + 10, per_server=per_server)
    for _ in range(10):  # so that no deposit is cut off
        budget.take(("s0", 1))
    taken: list[bool] = []

    def take_and_return() -> None:
        for index in range(rounds):
            address = f"s{index % 3}", 1
            taken.append(budget.take(address))
            if index % 4 == 0:
                budget.retry_not_made(address)
            if index % 5 == 0:
                budget.first_attempt_succeeded(address)

    in_eight_threads(take_and_return)
    assert taken == [True] * 8 * rounds
    assert budget.tokens == pytest.approx(8 * (rounds // 4 + rounds // 5 / 10), abs=1e-9)


def test_eight_threads_cannot_take_more_than_there_is() -> None:
    budget = RetryBudget(1000)
    taken: list[bool] = []
    in_eight_threads(lambda: taken.extend(budget.take() for _ in range(500)))
    assert sum(taken) == 1000
    assert budget.tokens == 0


def test_the_tokens_of_a_server_that_left_are_forgotten() -> None:
    budget = RetryBudget(10, per_server=2)
    address = ("a", 1)
    budget.take(address)
    budget.retry_not_made()
    assert not budget.is_full
    budget.forget(address)
    assert budget.tokens_for(address) == 2
    assert budget.is_full
    budget.forget(address)
    assert budget.take(address)
    assert not budget.is_full
