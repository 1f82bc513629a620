"""What blocks of calls may set, and that a refused value sets nothing."""

from __future__ import annotations

from typing import Any

import pytest

import motorlite
from motorlite._api.call_options import effective
from motorlite._operations.contract import CallOptions
from motorlite.errors import ConfigurationError
from motorlite.overload import WaitQueue

INHERITED = CallOptions()


def priorities() -> tuple[int, int | None]:
    options = effective(INHERITED)
    return options.priority, options.assigned_priority


@pytest.mark.parametrize("priority", [0, 50, 100])
def test_the_limits_are_allowed(priority: int) -> None:
    with motorlite.call_options(priority=priority):
        assert priorities() == (priority, priority)
    assert priorities() == (50, None)


@pytest.mark.parametrize(
    ("priority", "kind"),
    [
        (-1, ValueError),
        (101, ValueError),
        (10**30, ValueError),
        (50.0, TypeError),
        (True, TypeError),
        ("50", TypeError),
    ],
)
def test_wrong_values(priority: Any, kind: type[Exception]) -> None:
    with (
        motorlite.call_options(priority=7),
        pytest.raises(kind, match=r"^priority must be an integer from 0 to 100, not "),
        motorlite.call_options(priority=priority),
    ):
        raise AssertionError
    assert priorities() == (50, None)


def test_the_innermost_block_counts_and_the_outermost_assigns() -> None:
    with motorlite.call_options(priority=7):
        with motorlite.call_options(priority=70):
            assert priorities() == (70, 7)
        assert priorities() == (7, 7)


# --- wait queues ---


def test_a_wait_queue_replaces_that_of_the_client() -> None:
    own, inner = WaitQueue("queue"), WaitQueue("reject")
    inherited = CallOptions(wait_queue=WaitQueue("queue", max_depth=7))
    assert effective(inherited) is inherited
    with motorlite.call_options(wait_queue=own):
        assert effective(inherited).wait_queue is own
        with motorlite.call_options(priority=3):
            assert effective(inherited).wait_queue is own
        with motorlite.call_options(wait_queue=inner):
            assert effective(inherited).wait_queue is inner


def test_without_the_option_of_the_client_it_raises() -> None:
    with (
        motorlite.call_options(wait_queue=WaitQueue("reject")),
        pytest.raises(ConfigurationError, match="the client was made without the option wait_queue"),
    ):
        effective(INHERITED)


@pytest.mark.parametrize(
    ("queue", "kind", "text"),
    [
        ("hold", ValueError, "wait_queue is wrong: strategy must be one of"),
        ("queue,ordering:priority", ValueError, "cannot set ordering='priority'"),
        (5, TypeError, "wait_queue must be a WaitQueue"),
        (WaitQueue("queue", ordering="priority"), ValueError, "cannot set ordering='priority'"),
        (WaitQueue("queue", ordering="adaptive"), ValueError, "cannot set ordering='adaptive'"),
    ],
)
def test_wrong_wait_queues(queue: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text), motorlite.call_options(wait_queue=queue):
        raise AssertionError
