"""Pure: GSSAPI (RFC 4752): tokens of Kerberos set up a security context, in which the client then names its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite._connection.auth.conversation import (
    EXTERNAL,
    NeedSecurityContext,
    SaslReply,
    Service,
    encode,
    run,
    violation,
)
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._connection.auth.conversation import Conversation
    from motorlite._options.credentials import Credentials


GSSAPI: Final = "GSSAPI"
# Kerberos needs one token from each side. The limit is for servers that never end.
_MAX_TOKENS: Final = 10
# The bit for "no security layer" among those that the server offers. Privacy and integrity are left to TLS.
_NO_LAYER: Final = 1


class SecurityContext(Protocol):
    """The client's side of a security context; none of its methods blocks."""

    @property
    def is_complete(self) -> bool:
        """Whether each side knows the other; then there are no further tokens."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take the server's token and return the next one of the client; empty if there is none."""
        ...

    def unwrap(self, message: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...


def service(credentials: Credentials, address: Address) -> Service:
    """Return the service that the ticket has to be for.

    Raises:
        ConfigurationError: the address has no host name, and there is no SERVICE_HOST.
    """
    properties = credentials.mechanism_properties
    host = properties.get("SERVICE_HOST")
    if host is None:
        host = address[0]
        if address[1] is None:
            raise ConfigurationError(
                f"GSSAPI: the Unix socket {host!r} has no host name that a ticket could be for; "
                "set the mechanism property SERVICE_HOST"
            )
    return Service(
        properties.get("SERVICE_NAME", "mongodb"),
        host,
        properties.get("SERVICE_REALM"),
        properties.get("CANONICALIZE_HOST_NAME", "none"),
    )


def converse(username: str, password: str | None, service: Service) -> Conversation:
    """Authenticate `username`, with the ticket that `password` brings or, without one, from the ticket cache."""
    name = encode(username, "the username")
    context: SecurityContext
    secret = None if password is None else encode(password, "the password")
    context, token = yield NeedSecurityContext(service, username, secret)
    command: dict[str, Any] = {"saslStart": 1, "mechanism": GSSAPI, "payload": token, "autoAuthorize": 1}
    for _ in range(_MAX_TOKENS):
        reply = SaslReply(GSSAPI, (yield from run(EXTERNAL, command)))
        if reply.is_done:
            raise violation(GSSAPI, "the server ended the conversation before the user was named")
        if context.is_complete:
            break
        command = _continue(reply, context.step(reply.payload))
    else:
        raise violation(GSSAPI, f"the server asked for more than {_MAX_TOKENS} tokens")
    command = _continue(reply, context.wrap(_choice(context.unwrap(reply.payload)) + name))
    if not SaslReply(GSSAPI, (yield from run(EXTERNAL, command))).is_done:
        raise violation(GSSAPI, "the server did not end the conversation")


def _choice(offer: bytes) -> bytes:
    """Return the client's choice among the security layers of the offer: none, so messages have no maximum size."""
    if len(offer) != 4:
        raise violation(GSSAPI, f"the server's offer of security layers has {len(offer)} bytes, not 4")
    if not offer[0] & _NO_LAYER:
        raise violation(GSSAPI, "the server requires a security layer; use TLS instead")
    return bytes((_NO_LAYER, 0, 0, 0))


def _continue(reply: SaslReply, payload: bytes) -> dict[str, Any]:
    return {"saslContinue": 1, "conversationId": reply.conversation_id, "payload": payload}
