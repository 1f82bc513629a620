"""Pure: the type of a server, from its reply to hello (server discovery and monitoring specification, "type")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from collections.abc import Mapping


def server_type(reply: Mapping[str, Any]) -> ServerType:
    """Return the server type, by the table of section "type" of the specification; the order of the checks matters.

    Discovery and the handshake of every connection share this table. Otherwise a server could be writable for one and
    an arbiter, which authenticates no user, for the other.
    """
    if reply.get("isreplicaset"):
        return ServerType.RSGhost
    if reply.get("setName"):
        # Legacy hello uses the older name of the field.
        if reply.get("hidden"):
            return ServerType.RSOther
        if reply.get("isWritablePrimary", reply.get("ismaster")):
            return ServerType.RSPrimary
        if reply.get("secondary"):
            return ServerType.RSSecondary
        if reply.get("arbiterOnly"):
            return ServerType.RSArbiter
        return ServerType.RSOther
    return ServerType.Mongos if reply.get("msg") == "isdbgrid" else ServerType.Standalone
