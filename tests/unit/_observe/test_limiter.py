"""How often messages of one kind are logged, and how many are left out."""

from __future__ import annotations

from math import inf

from motorlite._observe.reachability import Limiter


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def limiter(interval: float = 10.0) -> tuple[Limiter, Clock]:
    made, clock = Limiter(interval), Clock()
    made.now = clock
    return made, clock


def test_the_first_of_each_kind_is_admitted() -> None:
    made, _ = limiter()
    assert [made.admit("a"), made.admit("b")] == [0, 0]


def test_the_next_one_counts_those_left_out() -> None:
    made, clock = limiter()
    assert [made.admit("a") for _ in range(4)] == [0, None, None, None]
    clock.time = 9.99
    assert made.admit("a") is None
    clock.time = 10.0
    assert made.admit("a") == 4
    clock.time = 20.0
    assert made.admit("a") == 0


def test_kinds_are_counted_apart() -> None:
    made, clock = limiter()
    assert [made.admit("a"), made.admit("a"), made.admit("b")] == [0, None, 0]
    clock.time = 10.0
    assert [made.admit("a"), made.admit("b")] == [1, 0]


def test_kinds_of_the_past_are_forgotten() -> None:
    made, clock = limiter()
    for number in range(100_000):
        clock.time = float(number)
        assert made.admit(number) == 0
    assert len(made._kinds) <= 101


def test_without_a_clock_one_of_a_kind_is_admitted() -> None:
    made = Limiter()
    assert [made.admit("a"), made.admit("a"), made.admit("b")] == [0, None, 0]


def test_a_clock_that_stands_at_infinity_admits_everything() -> None:
    made, clock = limiter()
    clock.time = inf
    assert made.admit("a") == 0


def test_a_kind_with_a_new_cause_is_admitted_at_once() -> None:
    made, clock = limiter()
    assert [made.admit("a"), made.admit("a"), made.admit("b")] == [0, None, 0]
    made.reopen("a")
    made.reopen("c")
    assert [made.admit("a"), made.admit("a"), made.admit("b"), made.admit("c")] == [1, None, None, 0]
    clock.time = 10.0
    assert made.admit("a") == 1
