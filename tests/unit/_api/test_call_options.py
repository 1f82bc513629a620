"""What blocks of calls may set, and that a refused value sets nothing."""

from __future__ import annotations

from typing import Any

import pytest

import motorlite
from motorlite._api.call_options import effective
from motorlite._execution.call import CallOptions

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
