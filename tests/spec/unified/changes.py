"""Changes a test before it is run: what suites.toml says differently, and its times on a slow machine."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified.outcomes import BadTest

if TYPE_CHECKING:
    from collections.abc import Mapping

# Times in milliseconds, in options, arguments, fail points and the commands that are expected. How long a selection
# waits for a server is none that a test measures.
_TIMES: Final = frozenset(
    {
        "blockTimeMS",
        "connectTimeoutMS",
        "defaultTimeoutMS",
        "heartbeatFrequencyMS",
        "maxAwaitTimeMS",
        "maxCommitTimeMS",
        "maxTimeMS",
        "ms",
        "socketTimeoutMS",
        "timeoutMS",
        "waitQueueTimeoutMS",
        "wTimeoutMS",
        "wtimeout",
        "wtimeoutMS",
    }
)


def replaced(test: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a test with other values in it.

    Args:
        test: As the file has it.
        values: By the place of each: ``operations.0.arguments.timeoutMS``.

    Raises:
        BadTest: there is no such place.
    """
    found: dict[str, Any] = copy.deepcopy(dict(test))
    for path, value in values.items():
        *parents, last = path.split(".")
        place: Any = found
        try:
            for name in parents:
                place = place[int(name) if isinstance(place, list) else name]
            place[int(last) if isinstance(place, list) else last] = value
        except (LookupError, TypeError, ValueError) as error:
            raise BadTest(f"the test has no {path}, which suites.toml replaces") from error
    return found


# JavaScript that the server executes.
_SLEEP: Final = re.compile(r"(?<=sleep\()\d+(?=\))")


def slowed(value: Any, factor: int) -> Any:
    """A copy of a test, or of a part of it, in which every time is so many times as long."""
    if isinstance(value, list):
        return [slowed(element, factor) for element in value]
    if isinstance(value, str) and factor != 1:
        return _SLEEP.sub(lambda found: str(int(found[0]) * factor), value)
    if not isinstance(value, dict):
        return value
    return {key: _longer(one, factor) if key in _TIMES else slowed(one, factor) for key, one in value.items()}


def _longer(value: Any, factor: int) -> Any:
    """A time, or an expectation of one: ``{"$$lte": 100}``."""
    if isinstance(value, dict):
        return {key: _longer(one, factor) for key, one in value.items()}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return type(value)(value * factor) if is_number else value
