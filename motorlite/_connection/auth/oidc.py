"""Pure: MONGODB-OIDC: the token cache of a client, and the conversations of the machine and human flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson.binary import Binary
from bson.errors import BSONError

from motorlite._base.arguments import is_like
from motorlite._base.hosts import is_dns_name, is_ip_address
from motorlite._base.values import is_encodable
from motorlite._connection.auth.conversation import EXTERNAL, NeedToken, SaslReply, run, violation
from motorlite.auth_oidc import OIDCCallbackResult, OIDCIdPInfo
from motorlite.errors import ConfigurationError, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping

    from motorlite._base.values import Address, Document
    from motorlite._connection.auth.conversation import Conversation, Request

MONGODB_OIDC: Final = "MONGODB-OIDC"
CALLBACK_VERSION: Final = 1
MACHINE_TIMEOUT: Final = 60.0
HUMAN_TIMEOUT: Final = 300.0
# Minimum seconds between the starts of two calls.
CALL_INTERVAL: Final = 0.1
AUTHENTICATION_FAILED: Final = 18

DEFAULT_ALLOWED_HOSTS: Final = (
    "*.mongodb.net",
    "*.mongodb-qa.net",
    "*.mongodb-dev.net",
    "*.mongodbgov.net",
    "localhost",
    "127.0.0.1",
    "::1",
    "*.mongo.com",
)


class TokenCache:
    """The newest tokens of one client ("Client Cache")."""

    __slots__ = ("access_token", "idp_info", "last_call", "refresh_token")

    def __init__(self) -> None:
        self.access_token: str | None = None
        # Used by the human flow only.
        self.refresh_token: str | None = None
        self.idp_info: OIDCIdPInfo | None = None
        # Loop time of the last call of the callback.
        self.last_call: float | None = None

    def __repr__(self) -> str:
        return "<TokenCache>"

    def store(self, result: OIDCCallbackResult, idp_info: OIDCIdPInfo | None) -> None:
        """Store the result of the callback that was called with `idp_info`."""
        self.idp_info = idp_info
        self.access_token = result.access_token
        self.refresh_token = result.refresh_token

    def invalidate(self, access_token: str | None) -> None:
        """Forget `access_token`, unless another token has replaced it."""
        if access_token is not None and self.access_token == access_token:
            self.access_token = None


class Held:
    """The token that a connection was authenticated with ("Connection Cache")."""

    __slots__ = ("access_token",)

    def __init__(self) -> None:
        self.access_token: str | None = None

    def __repr__(self) -> str:
        return "<Held>"


def check_host(address: Address, allowed: Collection[str]) -> None:
    """Refuse to send a human user's token to a server that `allowed` (``ALLOWED_HOSTS``) does not include.

    The host that is checked must be the host that is connected to. So a host is refused, regardless of its source, if
    getaddrinfo or an IDNA codec may resolve it as a different host than its text says.
    """
    host, port = address
    if port is not None:
        name, is_ip = host.lower(), is_ip_address(host)
        if not is_ip and not is_dns_name(host):
            raise ConfigurationError(
                f"{MONGODB_OIDC}: {host!r} is not a valid DNS host name, so no token is requested; "
                "write an internationalised name in its ASCII form (xn--...)"
            )
        for pattern in map(str.lower, allowed):
            # "*.example.com" matches every name below example.com.
            if name == pattern or (pattern.startswith("*.") and name.endswith(pattern[1:]) and not is_ip):
                return
    elif host in allowed:  # the path of a Unix domain socket
        return
    raise ConfigurationError(f"{MONGODB_OIDC}: {host} is not one of ALLOWED_HOSTS, so no token is requested")


def check_result(result: Any) -> OIDCCallbackResult:
    """Validate and return the result of a callback, which may be PyMongo's class; errors do not show the result."""
    if not is_like(result, OIDCCallbackResult):
        raise violation(MONGODB_OIDC, f"the callback must return an OIDCCallbackResult, not {type(result).__name__}")
    # The values come from the application, so the annotations cannot be trusted.
    token: object = result.access_token
    refresh_token: object = result.refresh_token
    expires_in: object = result.expires_in_seconds
    if not isinstance(token, str) or not token:
        raise violation(MONGODB_OIDC, "the callback returned no access_token, which must be a string")
    if not isinstance(refresh_token, str | None):
        raise violation(MONGODB_OIDC, "the callback returned a refresh_token that is not a string")
    if not is_encodable(token) or not is_encodable(refresh_token or ""):
        raise violation(MONGODB_OIDC, "the callback returned a token that cannot be encoded as UTF-8")
    if expires_in is not None and not (isinstance(expires_in, int | float) and expires_in >= 0):
        raise violation(MONGODB_OIDC, "the callback returned expires_in_seconds that is not a number of at least 0")
    # The repr of PyMongo's class shows the tokens.
    return result if isinstance(result, OIDCCallbackResult) else OIDCCallbackResult(token, expires_in, refresh_token)


def start_command(payload: Mapping[str, Any]) -> Document:
    return {"saslStart": 1, "mechanism": MONGODB_OIDC, "payload": Binary(bson.encode(payload))}


def speculative_document(cache: TokenCache, held: Held) -> Document | None:
    """Return the one-step conversation with the cached token; None if no token is cached."""
    held.access_token = cache.access_token
    if held.access_token is None:
        return None
    return {**start_command({"jwt": held.access_token}), "db": EXTERNAL}


def converse(
    cache: TokenCache,
    held: Held,
    username: str | None,
    *,
    is_human: bool,
    speculative_reply: Mapping[str, Any] | None = None,
) -> Conversation:
    """Authenticate, unless the server already did so during the handshake."""
    if speculative_reply is not None and speculative_reply.get("done") is True:
        return
    # The tokens that the server has from this connection. Its errors may repeat any of them.
    sent = [] if held.access_token is None else [held.access_token]
    held.access_token = None
    if is_human:
        yield from _human(cache, held, username, sent)
    else:
        yield from _machine(cache, held, sent)


def _machine(cache: TokenCache, held: Held, sent: list[str]) -> Conversation:
    token, is_cached = yield NeedToken()
    if is_cached:
        if (yield from _is_accepted(cache, held, token, sent)):
            return
        token, _ = yield NeedToken()
    yield from _one_step(held, token, sent)


def _human(cache: TokenCache, held: Held, username: str | None, sent: list[str]) -> Conversation:
    while True:
        token, refresh_token = cache.access_token, cache.refresh_token
        if token is not None:
            if (yield from _is_accepted(cache, held, token, sent)):
                return
        elif refresh_token is not None:
            token, _ = yield NeedToken(cache.idp_info, refresh_token)
            newest = cache.refresh_token
            if (yield from _is_accepted(cache, held, token, sent)):
                return
            if cache.refresh_token == newest:
                cache.refresh_token = None
        else:
            return (yield from _two_steps(held, username, sent))


def _two_steps(held: Held, username: str | None, sent: list[str]) -> Conversation:
    """Ask the server for the identity provider, then send a token of that provider."""
    start = start_command({"n": username} if username else {})
    first = SaslReply(MONGODB_OIDC, (yield from run(EXTERNAL, start, sent)))
    if first.is_done:
        raise violation(MONGODB_OIDC, "the server ended the conversation before it got a token")
    idp_info = _idp_info(first.payload)
    token, _ = yield NeedToken(idp_info)
    held.access_token = token
    payload = Binary(bson.encode({"jwt": token}))
    command = {"saslContinue": 1, "conversationId": first.conversation_id, "payload": payload}
    _check_end((yield from run(EXTERNAL, command, (*sent, token))))


def _one_step(held: Held, token: str, sent: list[str]) -> Conversation:
    held.access_token = token
    sent.append(token)
    _check_end((yield from run(EXTERNAL, start_command({"jwt": token}), sent)))


def _is_accepted(cache: TokenCache, held: Held, token: str, sent: list[str]) -> Generator[Request, Any, bool]:
    """Whether the server accepts the token; a rejected token is forgotten, and any other error is raised."""
    try:
        yield from _one_step(held, token, sent)
    except OperationFailure as error:
        if error.code != AUTHENTICATION_FAILED:
            raise
        cache.invalidate(token)
        held.access_token = None
        return False
    return True


def _check_end(reply: Mapping[str, Any]) -> None:
    if not SaslReply(MONGODB_OIDC, reply).is_done:
        raise violation(MONGODB_OIDC, "the server did not end the conversation")


def _idp_info(payload: bytes) -> OIDCIdPInfo:
    try:
        document: dict[str, Any] = bson.decode(payload)
    except BSONError:
        document = {}
    issuer, client_id, scopes = (document.get(name) for name in ("issuer", "clientId", "requestScopes"))
    if not isinstance(issuer, str):
        raise violation(MONGODB_OIDC, "the server does not name the identity provider")
    if not isinstance(client_id, str | None):
        raise violation(MONGODB_OIDC, "the server names a clientId that is not a string")
    if scopes is not None and not (isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes)):
        raise violation(MONGODB_OIDC, "the server names requestScopes that are not a list of strings")
    return OIDCIdPInfo(issuer, client_id, scopes)
