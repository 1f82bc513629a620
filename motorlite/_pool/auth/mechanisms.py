"""Pure: from credentials to a conversation, and the choice of the mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from motorlite._pool.auth import plain, scram, x509
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._pool.auth.conversation import Conversation
    from motorlite._pool.auth.scram import KeyCache
    from motorlite._pool.handshake import Handshake
    from motorlite.options import Credentials
    from motorlite.values import Document

# RFC 5802 leaves the length open; RFC 7677's example has this many bytes. Less is a mistake of the caller.
MIN_NONCE_BYTES: Final = 15
SUPPORTED: Final = (scram.SCRAM_SHA_256, scram.SCRAM_SHA_1, x509.MONGODB_X509, plain.PLAIN)


class Authentication:
    """One connection's authentication: what its handshake carries, and the conversation after it."""

    __slots__ = ("_cache", "_mechanism", "_user")

    def __init__(self, mechanism: str | None, user: scram.ScramUser, cache: KeyCache) -> None:
        self._mechanism = mechanism
        self._user = user
        self._cache = cache

    def __repr__(self) -> str:
        return f"<Authentication {self._mechanism or 'by negotiation'}>"

    def sasl_supported_mechs(self) -> str | None:
        """Whose mechanisms the handshake asks for (`saslSupportedMechs`), or None when one was configured."""
        if self._mechanism is not None:
            return None
        # The username exactly as given: the server looks for conflicts in the raw form.
        return f"{self._user.source}.{self._user.username}"

    def speculative_document(self) -> Document | None:
        """The conversation's first message, for the handshake to carry; None when the mechanism has none."""
        if self._mechanism == plain.PLAIN:
            return None
        if self._mechanism == x509.MONGODB_X509:
            return x509.start_command(self._user.username)
        command = scram.start_command(self._mechanism or scram.SCRAM_SHA_256, self._user)
        command["db"] = self._user.source
        return command

    def conversation(self, handshake: Handshake) -> Conversation | None:
        """What is left to say after the handshake, or None on an arbiter, which knows no users.

        To be asked for once: a nonce serves one conversation.
        """
        if handshake.is_arbiter:
            return None
        user, reply = self._user, handshake.speculative_reply
        if self._mechanism == plain.PLAIN:
            return plain.converse(user.username, user.password, user.source)
        if self._mechanism == x509.MONGODB_X509:
            return x509.converse(user.username, reply)
        mechanism = self._mechanism
        if mechanism is None:
            # A server that answers the speculative message has agreed to its mechanism.
            is_agreed = reply is not None or scram.SCRAM_SHA_256 in (handshake.sasl_supported_mechs or ())
            mechanism = scram.SCRAM_SHA_256 if is_agreed else scram.SCRAM_SHA_1
        return scram.converse(mechanism, user, self._cache, reply)


def start(credentials: Credentials, nonce: bytes, key_cache: KeyCache) -> Authentication:
    """Prepare to authenticate one connection.

    `nonce` is at least 15 fresh random bytes; `key_cache` belongs to the client.

    Raises:
        ValueError: The nonce is too short to be one.
        ConfigurationError: The mechanism is unknown or unsupported, or the credentials do not fit it.
    """
    if len(nonce) < MIN_NONCE_BYTES:
        raise ValueError(f"a nonce needs at least {MIN_NONCE_BYTES} bytes, got {len(nonce)}")
    mechanism = credentials.mechanism
    if mechanism is not None and mechanism not in SUPPORTED:
        raise ConfigurationError(
            f"authentication mechanism {mechanism!r} is not supported by this version of motorlite; "
            f"supported are {', '.join(SUPPORTED)}"
        )
    name = mechanism or "SCRAM"
    if credentials.mechanism_properties:
        raise ConfigurationError(f"{name} takes no mechanism properties")
    if mechanism == x509.MONGODB_X509:
        if credentials.password is not None:
            raise ConfigurationError(f"{name} takes no password")
    elif not credentials.username or credentials.password is None:
        raise ConfigurationError(f"{name} needs a username and a password")
    user = scram.ScramUser(credentials.username or "", credentials.password or "", credentials.source, nonce)
    return Authentication(mechanism, user, key_cache)
