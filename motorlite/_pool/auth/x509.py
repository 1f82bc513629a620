"""Pure: MONGODB-X509, where the client certificate of the TLS connection is the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._pool.auth.conversation import EXTERNAL, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._pool.auth.conversation import Conversation
    from motorlite.values import Document

MONGODB_X509: Final = "MONGODB-X509"


def start_command(username: str | None) -> Document:
    """The only message; without a username the server takes the subject of the certificate."""
    command: Document = {"authenticate": 1, "mechanism": MONGODB_X509}
    if username:
        command["user"] = username
    return command


def converse(username: str | None, speculative_reply: Mapping[str, Any] | None = None) -> Conversation:
    """Authenticate, unless the server already did so during the handshake."""
    if speculative_reply is None:
        yield from run(EXTERNAL, start_command(username))
