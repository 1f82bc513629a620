"""How many members a replica set needs for a test: three where one of them has to be a secondary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a replica set has if a test asks for nothing else.
ALONE: Final = 1
# What the public suites are written for.
SEVERAL: Final = 3

# Another member has to become the primary.
_ELECTIONS: Final = frozenset({"replSetStepDown", "replSetFreeze", "waitForPrimaryChange"})
_DISCOVERY: Final = frozenset(
    {
        "serverDescriptionChangedEvent",
        "serverHeartbeatFailedEvent",
        "serverHeartbeatStartedEvent",
        "serverHeartbeatSucceededEvent",
        "topologyClosedEvent",
        "topologyDescriptionChangedEvent",
        "topologyOpeningEvent",
    }
)


def needed(content: Any, *, is_for_replica_sets_only: bool) -> int:
    """The number of members for what a test and its entities contain.

    Secondaries are read from, expected in an event, counted by a write concern, or elected. What is for replica sets
    only and looks at how one is discovered, counts its members.
    """
    words = _ELECTIONS | _DISCOVERY if is_for_replica_sets_only else _ELECTIONS
    found = any(name in words or _names_others(name, value, words) for name, value in fields(content))
    return SEVERAL if found else ALONE


def _names_others(name: str, value: Any, words: frozenset[str]) -> bool:
    match name:
        case "readPreference":
            mode = value.get("mode") if isinstance(value, dict) else value
            return str(mode).lower() == "secondary"
        case "w":
            return isinstance(value, int) and ALONE < value <= SEVERAL
        case "type":
            return bool(value == "RSSecondary")
        case _:
            return isinstance(value, str) and value in words


def fields(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """A value and everything in it, each with the name of its field; an element of a list has that of the list."""
    yield name, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from fields(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from fields(one, name)
