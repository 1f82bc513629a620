"""The public values that configure breakers and limits: defaults, wrong fields, immutability."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from math import inf, nan
from typing import Any

import pytest

from motorlite.overload import BreakerState, CircuitBreaker, ConcurrencyLimit, RateLimit, WaitQueue


def test_defaults() -> None:
    assert CircuitBreaker() == CircuitBreaker(
        failure_rate=0.5, min_operations=20, window=10.0, open_for=5.0, probes=1, gates_first_attempts=True
    )
    assert RateLimit(rate=5) == RateLimit(rate=5, burst=None, strategy="reject", timeout=5.0)
    assert ConcurrencyLimit() == ConcurrencyLimit(initial=20, minimum=4, tolerance=2.0, probe_interval=10.0)
    assert [str(state) for state in BreakerState] == ["closed", "open", "half-open"]


@pytest.mark.parametrize(("rate", "burst", "capacity"), [(5, None, 5), (5.9, None, 5), (0.1, None, 1), (5, 20, 20)])
def test_the_burst_is_one_second_by_default(rate: float, burst: int | None, capacity: int) -> None:
    assert RateLimit(rate=rate, burst=burst).capacity == capacity


WRONG: list[tuple[type[Any], dict[str, Any], type[Exception], str]] = [
    (CircuitBreaker, {"failure_rate": 0}, ValueError, "failure_rate must be a number above 0, at most 1"),
    (CircuitBreaker, {"failure_rate": 1.1}, ValueError, "failure_rate"),
    (CircuitBreaker, {"failure_rate": nan}, ValueError, "failure_rate"),
    (CircuitBreaker, {"failure_rate": True}, TypeError, "failure_rate"),
    (CircuitBreaker, {"min_operations": 0}, ValueError, "min_operations must be an integer from 1"),
    (CircuitBreaker, {"min_operations": 1.0}, TypeError, "min_operations"),
    (CircuitBreaker, {"window": 0.0}, ValueError, "window must be a number of seconds above 0"),
    (CircuitBreaker, {"window": "10s"}, TypeError, "window"),
    (CircuitBreaker, {"open_for": inf}, ValueError, "open_for"),
    (CircuitBreaker, {"open_for": 10**400}, ValueError, "open_for"),
    (CircuitBreaker, {"open_for": None}, TypeError, "open_for"),
    (CircuitBreaker, {"open_for": 3600.1}, ValueError, "open_for"),
    (CircuitBreaker, {"probes": 0}, ValueError, "probes"),
    (CircuitBreaker, {"probes": 10**9}, ValueError, "probes"),
    (CircuitBreaker, {"probes": 10**400}, ValueError, "probes"),
    (CircuitBreaker, {"probes": True}, TypeError, "probes"),
    (CircuitBreaker, {"gates_first_attempts": 1}, TypeError, "gates_first_attempts must be True or False"),
    (RateLimit, {"rate": 0}, ValueError, "rate must be a number per second above 0"),
    (RateLimit, {"rate": nan}, ValueError, "rate"),
    (RateLimit, {"rate": 1e7}, ValueError, "rate"),
    (RateLimit, {"rate": "5"}, TypeError, "rate"),
    (RateLimit, {"rate": 1, "burst": 0}, ValueError, "burst"),
    (RateLimit, {"rate": 1, "burst": 1.5}, TypeError, "burst"),
    (RateLimit, {"rate": 1, "timeout": 2.0}, ValueError, "timeout=2.0 has no effect without strategy='queue'"),
    (RateLimit, {"rate": 1, "strategy": "hold"}, ValueError, "strategy must be 'reject' or 'queue', not 'hold'"),
    (RateLimit, {"rate": 1, "strategy": []}, TypeError, "strategy"),
    (RateLimit, {"rate": 1, "timeout": 0}, ValueError, "timeout"),
    (RateLimit, {"rate": 1, "timeout": 61}, ValueError, "timeout must be a number of seconds above 0, at most 60"),
    (ConcurrencyLimit, {"initial": 0}, ValueError, "initial"),
    (ConcurrencyLimit, {"initial": 3}, ValueError, r"minimum must be at most initial \(3\), not 4"),
    (ConcurrencyLimit, {"minimum": 0}, ValueError, "minimum"),
    (ConcurrencyLimit, {"minimum": None}, TypeError, "minimum"),
    (ConcurrencyLimit, {"tolerance": 1}, ValueError, "tolerance must be a number above 1, at most 100"),
    (ConcurrencyLimit, {"tolerance": nan}, ValueError, "tolerance"),
    (ConcurrencyLimit, {"probe_interval": -1}, ValueError, "probe_interval"),
]


@pytest.mark.parametrize(("kind", "given", "error", "text"), WRONG)
def test_wrong_fields(kind: type[Any], given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        kind(**given)


@pytest.mark.parametrize(
    "value",
    [
        CircuitBreaker(),
        # The ends of ranges belong to them.
        CircuitBreaker(failure_rate=1, min_operations=1, open_for=1e-9, probes=1),
        RateLimit(rate=1),
        RateLimit(rate=1, burst=1, strategy="queue", timeout=60),
        ConcurrencyLimit(),
        WaitQueue("reject"),
    ],
)
def test_they_do_not_change(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, 1)
    assert hash(value) == hash(value)


def test_the_former_name_of_a_strategy() -> None:
    with pytest.warns(DeprecationWarning, match="strategy='wait' is deprecated, use strategy='queue'") as caught:
        limit = RateLimit(rate=5, strategy="wait")
    assert caught[0].filename == __file__
    assert limit == RateLimit(rate=5, strategy="queue")
