"""The budget of retries counts exactly and never leaves its bounds."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite.retry import RetryBudget


def test_starts_full() -> None:
    bucket = RetryBudget()
    assert bucket.tokens == bucket.capacity == 1000


def test_a_thousand_retries_and_no_more() -> None:
    bucket = RetryBudget()
    assert all(bucket.take() for _ in range(1000))
    assert bucket.tokens == 0
    assert not bucket.take()
    assert bucket.tokens == 0


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


@pytest.mark.parametrize(
    ("deposit", "left"), [("first_attempt_succeeded", 9), ("retry_succeeded", 0), ("retry_failed_otherwise", 0)]
)
def test_a_retry_costs_a_whole_token(deposit: str, left: int) -> None:
    bucket = RetryBudget(1)
    assert bucket.take()
    getattr(bucket, deposit)()
    for _ in range(left):
        assert not bucket.take()
        bucket.first_attempt_succeeded()
    assert bucket.take()


def test_ten_tenths_are_one() -> None:
    # With floats, ten times 0.1 are less than 1.
    bucket = RetryBudget(1)
    assert bucket.take()
    for tenths in range(10):
        assert bucket.tokens == tenths / 10
        assert not bucket.take()
        bucket.first_attempt_succeeded()
    assert bucket.take()


def test_a_capacity_of_its_own() -> None:
    bucket = RetryBudget(2.5)
    assert (bucket.capacity, bucket.tokens) == (2.5, 2.5)
    assert bucket.take()
    assert bucket.take()
    assert not bucket.take()
    assert bucket.tokens == 0.5


def test_a_bucket_without_room() -> None:
    bucket = RetryBudget(0)
    bucket.retry_succeeded()
    assert not bucket.take()


AMOUNTS = {
    "first_attempt_succeeded": Fraction(1, 10),
    "retry_succeeded": Fraction(11, 10),
    "retry_failed_otherwise": Fraction(1),
}


@given(st.integers(0, 5), st.lists(st.sampled_from([*AMOUNTS, "take"]), max_size=200))
def test_counts_like_exact_fractions(capacity: int, steps: list[str]) -> None:
    bucket, expected = RetryBudget(capacity), Fraction(capacity)
    for step in steps:
        if step == "take":
            assert bucket.take() is (expected >= 1)
            expected -= expected >= 1
        else:
            getattr(bucket, step)()
            expected = min(Fraction(capacity), expected + AMOUNTS[step])
        assert bucket.tokens == float(expected)
