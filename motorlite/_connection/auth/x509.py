"""Pure: MONGODB-X509, which authenticates by the client certificate of the TLS connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._connection.auth.conversation import EXTERNAL, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Document
    from motorlite._connection.auth.conversation import Conversation

MONGODB_X509: Final = "MONGODB-X509"


def start_command(username: str | None) -> Document:
    """Return the only message; without a username the server uses the subject of the certificate."""
    command: Document = {"authenticate": 1, "mechanism": MONGODB_X509}
    if username:
        command["user"] = username
    return command


def converse(username: str | None, speculative_reply: Mapping[str, Any] | None = None) -> Conversation:
    """Authenticate, unless the server already did so during the handshake."""
    if speculative_reply is None:
        yield from run(EXTERNAL, start_command(username))
