"""What a mongos says of itself, made of what the primary behind it says."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Final = frozenset({"hello", "isMaster", "ismaster"})
# With these in it, a hello begins an authentication, which only a member can answer.
OF_AUTHENTICATION: Final = frozenset({"saslSupportedMechs", "speculativeAuthenticate"})
# What a mongos does not say, and compression, which the facade does not speak.
_LEFT_OUT: Final = frozenset(
    {
        "arbiters",
        "compression",
        "electionId",
        "hosts",
        "isWritablePrimary",
        "ismaster",
        "lastWrite",
        "me",
        "passives",
        "primary",
        "secondary",
        "setName",
        "setVersion",
        "tags",
        "topologyVersion",
    }
)


def of_mongos(reply: Mapping[str, Any], command: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to hello of a mongos.

    Args:
        reply: That of the primary.
        command: What the client sent; an old isMaster has its own name for one field.
        own: What this mongos adds or says differently.
    """
    found = {name: value for name, value in reply.items() if name not in _LEFT_OUT}
    if not command.get("helloOk"):
        found.pop("helloOk", None)
    return {
        "isWritablePrimary" if "hello" in command else "ismaster": True,
        "msg": "isdbgrid",
        **found,
        "localTime": datetime.datetime.now(datetime.UTC),
        **own,
    }


def seconds_to_wait(command: Mapping[str, Any], topology_version: Mapping[str, Any]) -> float:
    """How long a client that awaits news waits for the reply; not at all when what it knows is not up to date."""
    known = command.get("topologyVersion")
    if known is None or dict(known) != topology_version:
        return 0.0
    return float(command.get("maxAwaitTimeMS", 0)) / 1000
