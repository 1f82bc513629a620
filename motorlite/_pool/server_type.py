"""Pure: what a server is, by its reply to hello (server discovery and monitoring specification, "type")."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerType(StrEnum):
    """What a server is (server discovery and monitoring specification, "ServerType")."""

    Unknown = "Unknown"
    Standalone = "Standalone"
    Mongos = "Mongos"
    RSPrimary = "RSPrimary"
    RSSecondary = "RSSecondary"
    RSArbiter = "RSArbiter"
    RSOther = "RSOther"
    RSGhost = "RSGhost"
    LoadBalancer = "LoadBalancer"


def server_type(reply: Mapping[str, Any]) -> ServerType:
    """Specification, table of section "type"; the order of the questions matters.

    Discovery and the handshake of every connection use this one table, so that a server cannot be writable for one
    and an arbiter, which authenticates no user, for the other.
    """
    if reply.get("isreplicaset"):
        return ServerType.RSGhost
    if reply.get("setName"):
        # Legacy hello has the older name of the field.
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
