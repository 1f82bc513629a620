"""The configuration of the wait queue: its defaults, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from motorlite.overload import WaitQueue


def test_the_defaults_are_those_of_the_decision_record() -> None:
    """The record demands some where the strategy is `queue`, or the ordering `priority`; here each has its default."""
    with pytest.warns(DeprecationWarning, match=r"without a strategy .* write WaitQueue\('reject'\)") as caught:
        unset = WaitQueue()
    assert caught[0].filename == __file__
    assert type(unset.strategy) is str
    assert unset == WaitQueue("reject")
    assert unset.strategy == "reject"
    for options in (unset, WaitQueue("queue"), WaitQueue("queue", ordering="priority")):
        assert (options.max_depth, options.timeout, options.memory_limit) == (100, 5.0, 100 * 2**20)
        assert options.overflow_strategy == "drop_newest"
        assert (options.default_priority, options.max_priority) == (50, 100)
        assert not options.allow_priority_override
    assert WaitQueue("queue").ordering == "fifo"


def test_durations_and_sizes_may_have_units() -> None:
    options = WaitQueue("queue", 500, "500ms", "adaptive", "10MB", adaptive_target="10ms", adaptive_interval="0.2s")
    assert (options.timeout, options.memory_limit) == (0.5, 10_485_760)
    assert (options.adaptive_target, options.adaptive_interval) == (0.01, 0.2)
    assert options == WaitQueue("queue", 500, 0.5, "adaptive", 10_485_760, adaptive_target=0.01, adaptive_interval=0.2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_depth": 1},
        {"max_depth": 10_000},
        {"timeout": "1ms"},
        {"timeout": 60},
        {"memory_limit": 1},
        {"memory_limit": "1GB"},
        {"memory_limit": None},
        {"overflow_strategy": "reject"},
        {"ordering": "priority", "default_priority": 0, "max_priority": 0},
        {"ordering": "priority", "allow_priority_override": True},
    ],
)
def test_the_limits_are_allowed(arguments: dict[str, Any]) -> None:
    made = WaitQueue("queue", **arguments)
    assert made == replace(made)


NUMBERS = {
    "max_depth": "an integer from 1 to 10000",
    "default_priority": "an integer from 0 to 100",
    "max_priority": "an integer from 0 to 100",
    "timeout": "a duration above 0 and at most 60 s",
    "adaptive_target": "a duration above 0 and at most 1 s",
    "adaptive_interval": "a duration above 0 and at most 10 s",
    "memory_limit": "a size above 0 and at most 1073741824 bytes",
}
DURATIONS = ("timeout", "adaptive_target", "adaptive_interval")
WORDS = {
    "strategy": "one of 'reject', 'queue', 'degrade'",
    "ordering": "one of 'fifo', 'priority', 'adaptive'",
    "overflow_strategy": "one of 'drop_newest', 'drop_oldest', 'reject'",
}


def refused(kind: type[Exception], name: str, value: Any) -> str:
    with pytest.raises(kind) as caught:
        WaitQueue(**{"strategy": "queue", name: value})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in NUMBERS for value in (-1, 10**30)),
        *((name, 0) for name in NUMBERS if "priority" not in name),
        *((name, value) for name in DURATIONS for value in (nan, inf, "5 hours", "61s")),
    ],
)
def test_numbers_out_of_range(name: str, value: Any) -> None:
    assert refused(ValueError, name, value).startswith(f"{name} must be {NUMBERS[name]}")
    for wrong in (True, [1]):
        assert refused(TypeError, name, wrong).startswith(f"{name} must be {NUMBERS[name]}")


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    assert refused(ValueError, name, "lifo") == f"{name} must be {WORDS[name]}, not 'lifo'"
    assert refused(TypeError, name, None) == f"{name} must be {WORDS[name]}, not None"


def test_the_default_priority_is_not_above_the_highest() -> None:
    with pytest.raises(ValueError, match="default_priority must be at most max_priority=40, not 50"):
        WaitQueue("queue", ordering="priority", max_priority=40)


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("max_depth", 500), ("timeout", 1.0), ("ordering", "priority"), ("memory_limit", None)],
)
def test_what_only_a_queue_reads_needs_a_queue(strategy: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}={value!r} has no effect without strategy='queue'"):
        WaitQueue(strategy, **{name: value})


@pytest.mark.parametrize(
    ("ordering", "name", "value", "needed"),
    [
        ("fifo", "max_priority", 80, "priority"),
        ("adaptive", "allow_priority_override", True, "priority"),
        ("priority", "adaptive_target", 0.5, "adaptive"),
        ("fifo", "adaptive_interval", 0.5, "adaptive"),
    ],
)
def test_what_only_one_ordering_reads_needs_it(ordering: Any, name: str, value: Any, needed: str) -> None:
    with pytest.raises(ValueError, match=f"{name}={value!r} has no effect without ordering='{needed}'"):
        WaitQueue("queue", ordering=ordering, **{name: value})
