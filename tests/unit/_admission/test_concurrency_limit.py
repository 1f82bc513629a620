"""The adaptive concurrency limit as a pure machine: durations in, limits out."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite.overload import ConcurrencyLimit

FOREVER = 3600.0


class Load:
    """Operations that end one after the other."""

    def __init__(self, **fields: Any) -> None:
        self.limit = AdaptiveLimit(ConcurrencyLimit(**{"probe_interval": FOREVER, **fields}))
        self.now = 0.0

    def group(self, seconds: float, at_once: int | None = None) -> int:
        """As many operations as a group has; the limit afterwards."""
        self.now += seconds
        for _ in range(max(50, min(200, 2 * self.limit.value))):
            self.now += 0.001
            self.limit.succeeded(seconds, self.limit.value if at_once is None else at_once, self.now)
        return self.limit.value


def test_it_grows_while_it_is_used_up() -> None:
    load = Load()
    values = [load.group(0.01) for _ in range(50)]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (21, 141)


def test_it_does_not_grow_while_operations_need_less() -> None:
    load = Load()
    assert [load.group(0.01, at_once=19) for _ in range(20)] == [20] * 20


def test_it_shrinks_when_operations_take_longer() -> None:
    load = Load()
    load.group(0.01)
    values = [load.group(0.08) for _ in range(60)]
    assert values == sorted(values, reverse=True)
    # A quarter of the limit and its square root balance.
    assert values[-1] == 4


def test_a_little_longer_is_tolerated() -> None:
    load = Load()
    load.group(0.01)
    assert load.group(0.0199) > 21


def test_it_shrinks_even_if_it_is_not_used_up() -> None:
    load = Load()
    load.group(0.01)
    assert load.group(0.2, at_once=1) < 20


def test_never_below_the_minimum() -> None:
    load = Load(initial=12, minimum=10)
    load.group(0.01)
    assert [load.group(9.0) for _ in range(5)][-1] == 10
    for _ in range(10):
        load.limit.failed(0.01, load.now)
        load.now += 1
    assert load.limit.value == 10


def test_an_error_takes_a_tenth_once_per_duration() -> None:
    load = Load(initial=100)
    load.limit.failed(0.5, 1.0)
    assert load.limit.value == 90
    load.limit.failed(0.5, 1.4)
    assert load.limit.value == 90
    load.limit.failed(0.5, 1.5)
    assert load.limit.value == 81


def test_slow_operations_among_many_fast_ones_do_not_matter() -> None:
    load = Load()
    for number in range(2000):
        load.now += 0.001
        load.limit.succeeded(1.0 if number % 3 == 0 else 0.001, load.limit.value, load.now)
    assert load.limit.value > 20


def test_operations_that_began_before_the_limit_changed_do_not_count() -> None:
    load = Load()
    assert load.group(0.01) == 21
    for _ in range(500):
        load.limit.succeeded(5.0, 21, load.now)
    assert load.limit.value == 21


def test_a_probe_measures_the_duration_without_a_queue() -> None:
    load = Load(initial=40, probe_interval=1.0)
    load.group(0.02)  # the server's queue was already there
    assert load.limit.base == 0.02
    load.now = 1.0
    assert load.group(0.02) == 21
    # At half of the limit operations take half as long. Then the limit is back, and the base is between.
    assert load.group(0.01) == 43
    assert load.limit.base == pytest.approx(0.015)


def test_no_probe_while_operations_need_less() -> None:
    load = Load(probe_interval=1.0)
    load.group(0.01)
    load.now = 5.0
    assert load.group(0.01, at_once=3) == 21


def test_an_error_during_a_probe_does_not_end_it() -> None:
    load = Load(initial=40, probe_interval=1.0)
    load.group(0.02)
    load.now = 1.0
    assert load.group(0.02) == 21
    load.limit.failed(0.01, load.now)
    assert load.limit.value == 21
    assert load.group(0.02) == 39


def test_operations_that_wait_for_data_come_on_top() -> None:
    load = Load(initial=10, minimum=1)
    for operation in ("a", "b", "b"):
        load.limit.awaits_data(operation)
    assert (load.limit.value, load.limit.own) == (12, 10)
    # They do not make the limit look used up.
    load.group(0.01, at_once=11)
    assert (load.limit.value, load.limit.own) == (12, 10)
    for _ in range(2):
        load.group(0.01, at_once=12)
    assert load.limit.own > 10
    load.limit.failed(0.01, load.now)
    assert load.limit.value == load.limit.own + 2
    for operation in ("a", "b", "b", "c"):
        load.limit.awaits_no_longer(operation)
    assert load.limit.value == load.limit.own


def test_operations_that_take_no_time() -> None:
    load = Load(probe_interval=1e-9)
    values = [load.group(0.0) for _ in range(20)]
    assert max(values) > 20
    assert min(values) >= 4
