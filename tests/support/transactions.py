"""Transactions on scripted deployments: what their commands carried, and what was left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.core import replica_set

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient
    from motorlite.testing.scripted import ScriptedDeployment, ScriptedServer

_FIELDS = ("txnNumber", "startTransaction", "autocommit", "readConcern", "writeConcern", "recoveryToken")

__all__ = ["REJECTED", "carried", "in_use", "names", "numbered", "replica_set"]

# The reply of a server that has lost the transaction, or does not want it now.
REJECTED = {"ok": 0, "code": 251, "errmsg": "no such transaction", "errorLabels": ["TransientTransactionError"]}


def carried(server: ScriptedServer, name: str) -> list[dict[str, Any]]:
    """What the commands of this name carried for a transaction."""
    return [{key: found[key] for key in _FIELDS if key in found} for found in server.commands(name)]


def names(deployment: ScriptedDeployment) -> list[str]:
    """The names of all commands, in the order of their arrival."""
    servers = deployment.services or deployment.servers.values()
    received = sorted((one for server in servers for one in server.received), key=lambda one: one.at)
    return [one.name for one in received if one.name != "endSessions"]


def numbered(server: ScriptedServer) -> list[tuple[str, int]]:
    """The names of the commands in transactions, with their numbers."""
    return [(one.name, one.document["txnNumber"]) for one in server.received if "autocommit" in one.document]


def in_use(client: AsyncMongoClient[Any]) -> int:
    """The number of connections that are checked out."""
    return sum(server.in_use for server in client.stats().servers.values())
