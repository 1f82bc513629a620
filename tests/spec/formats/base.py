"""What a format is, and how its tests compare."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        name: In suites.toml and in reports.
        check: Runs one test. A function whose outcome no event loop can change is called once; an asynchronous one is
            run on each backend, in virtual time.
        recognizes: Whether the content of a file, as plain JSON, looks like it.
        has_list: A file has its tests in a list; otherwise the file is the test.
        is_extended: Values are MongoDB Extended JSON.
        is_real_time: It has real sockets: virtual time would jump while they work.
    """

    name: str
    check: Callable[[Any], object]
    recognizes: Callable[[Mapping[str, Any]], bool]
    has_list: bool = False
    is_extended: bool = False
    is_real_time: bool = False

    @property
    def needs_loop(self) -> bool:
        """Whether it runs on an event loop."""
        return iscoroutinefunction(self.check)


def have(content: Mapping[str, Any], *fields: str) -> bool:
    """Whether there is a list of tests, and one of them has one of these fields."""
    tests = content.get("tests")
    return isinstance(tests, list) and any(
        isinstance(test, dict) and field in test for test in tests for field in fields
    )


def equal(expected: Any, found: Any, what: str) -> None:
    """Compare; a truth value is no number.

    Raises:
        Failed: they are not equal.
    """
    if expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        raise Failed(f"{what}: expected {expected!r}, found {found!r}")


def refused(
    kinds: type[Exception] | tuple[type[Exception], ...], function: Callable[..., object], *args: Any, **kwargs: Any
) -> Exception:
    """The error that a call raises.

    Raises:
        Failed: it raises none of these kinds.
    """
    try:
        result = function(*args, **kwargs)
    except kinds as error:
        return error
    raise Failed(f"expected an error, found {result!r}")
