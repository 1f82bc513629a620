"""Pure: chooses the mechanism and turns credentials into a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import format_address
from motorlite._connection.auth import aws, gssapi, oidc, scram
from motorlite._connection.auth.conversation import EXTERNAL, SaslReply, encode, redacted, run, violation
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address, Document
    from motorlite._connection.auth.conversation import Conversation
    from motorlite._connection.auth.scram import KeyCache
    from motorlite._connection.handshake import Handshake
    from motorlite._options.credentials import Credentials


# The length that MONGODB-AWS prescribes. The SCRAM example of RFC 7677 uses less than half as many.
NONCE_BYTES: Final = aws.NONCE_BYTES
_SCRAM: Final = (scram.SCRAM_SHA_256, scram.SCRAM_SHA_1)
PLAIN: Final = "PLAIN"
MONGODB_X509: Final = "MONGODB-X509"
SUPPORTED: Final = (*_SCRAM, MONGODB_X509, PLAIN, gssapi.GSSAPI, aws.MONGODB_AWS, oidc.MONGODB_OIDC)


class Authentication:
    """The authentication of one connection: its part of the handshake, and the conversations afterwards."""

    __slots__ = ("_address", "_credentials", "_held", "_keys", "_mechanism", "_nonce", "_spoken", "_tokens")

    def __init__(
        self, credentials: Credentials, address: Address, nonce: bytes, keys: KeyCache, tokens: oidc.TokenCache
    ) -> None:
        self._credentials = credentials
        self._address = address
        # None until negotiated.
        self._mechanism = credentials.mechanism
        # Valid for a single conversation.
        self._nonce = nonce
        self._keys = keys
        self._tokens = tokens
        self._held = oidc.Held()
        # The conversation's first message, if the handshake carries it.
        self._spoken: Document | None = None

    def __repr__(self) -> str:
        return f"<Authentication {self._mechanism or 'by negotiation'}>"

    @property
    def description(self) -> str:
        """Who authenticates, and where and how, without secrets."""
        credentials = self._credentials
        user = "" if credentials.username is None else f"user {credentials.username!r}, "
        return f"{user}mechanism {self._mechanism or 'by negotiation'}, authSource {credentials.source!r}"

    def sasl_supported_mechs(self) -> str | None:
        """Return the user whose mechanisms the handshake asks for (`saslSupportedMechs`); None if one is configured."""
        if self._mechanism is not None:
            return None
        # The unmodified username: the server looks for conflicts in the raw form.
        return f"{self._credentials.source}.{self._credentials.username}"

    def speculative_document(self) -> Document | None:
        """Return the conversation's first message for the handshake; None if the mechanism has none."""
        self._spoken = self._first_message()
        return self._spoken

    def _first_message(self) -> Document | None:
        mechanism = self._mechanism
        if mechanism == MONGODB_X509:
            return x509_command(self._credentials.username)
        if mechanism == oidc.MONGODB_OIDC:
            return oidc.speculative_document(self._tokens, self._held)
        if mechanism is not None and mechanism not in _SCRAM:
            return None
        command = scram.start_command(mechanism or scram.SCRAM_SHA_256, self._user())
        command["db"] = self._credentials.source
        return command

    def redacted(self, reply: Mapping[str, Any]) -> Document:
        """Return the rejection of a handshake without any secrets that the server may have repeated in it."""
        return redacted(reply, self._spoken or {}, (self._held.access_token, self._credentials.password))

    def conversation(self, handshake: Handshake) -> Conversation:
        """Return the rest of the conversation after the handshake. Call it only once: a nonce is valid for one.

        Raises:
            ConfigurationError: The server is an arbiter. It knows no users and must not receive their operations.
        """
        if handshake.is_arbiter:
            raise ConfigurationError(
                f"{format_address(handshake.facts.address)} is an arbiter and cannot authenticate anyone; "
                "to send commands to it, connect without credentials"
            )
        # A reply to a message that was never sent proves nothing.
        reply = handshake.speculative_reply if self._spoken is not None else None
        if self._mechanism is None:
            # A reply to the speculative message means that the server accepts its mechanism.
            is_agreed = reply is not None or scram.SCRAM_SHA_256 in (handshake.sasl_supported_mechs or ())
            self._mechanism = scram.SCRAM_SHA_256 if is_agreed else scram.SCRAM_SHA_1
        return self._converse(reply)

    def again(self, nonce: bytes) -> Conversation:
        """Return the complete conversation for a reauthentication that the server requires."""
        self._nonce = nonce
        self._tokens.invalidate(self._held.access_token)
        return self._converse(None)

    def _converse(self, reply: Mapping[str, Any] | None) -> Conversation:
        credentials, mechanism = self._credentials, self._mechanism
        if mechanism == PLAIN:
            return converse_plain(credentials.username or "", credentials.password or "", credentials.source)
        if mechanism == MONGODB_X509:
            return converse_x509(credentials.username, reply)
        if mechanism == gssapi.GSSAPI:
            service = gssapi.service(credentials, self._address)
            return gssapi.converse(credentials.username or "", credentials.password, service)
        if mechanism == aws.MONGODB_AWS:
            return aws.converse(self._nonce)
        if mechanism == oidc.MONGODB_OIDC:
            is_human = "OIDC_HUMAN_CALLBACK" in credentials.mechanism_properties
            return oidc.converse(
                self._tokens, self._held, credentials.username, is_human=is_human, speculative_reply=reply
            )
        assert mechanism is not None
        return scram.converse(mechanism, self._user(), self._keys, reply)

    def _user(self) -> scram.ScramUser:
        credentials = self._credentials
        return scram.ScramUser(credentials.username or "", credentials.password or "", credentials.source, self._nonce)


# PLAIN (RFC 4616), which MongoDB uses for LDAP. The password is sent in plain text, so only use it with TLS.


def converse_plain(username: str, password: str, source: str) -> Conversation:
    """Authenticate in one message."""
    if "\0" in username or "\0" in password:
        raise ConfigurationError("PLAIN: username and password must not contain NUL (RFC 4616)")
    payload = b"\0%s\0%s" % (encode(username, "the username"), encode(password, "the password"))
    command = {"saslStart": 1, "mechanism": PLAIN, "payload": payload, "autoAuthorize": 1}
    reply = yield from run(source, command, (password,))
    if not SaslReply(PLAIN, reply).is_done:
        raise violation(PLAIN, "the server did not end the conversation")


# MONGODB-X509, which authenticates by the client certificate of the TLS connection.


def x509_command(username: str | None) -> Document:
    """Return the only message; without a username the server uses the subject of the certificate."""
    command: Document = {"authenticate": 1, "mechanism": MONGODB_X509}
    if username:
        command["user"] = username
    return command


def converse_x509(username: str | None, speculative_reply: Mapping[str, Any] | None = None) -> Conversation:
    """Authenticate, unless the server already did so during the handshake."""
    if speculative_reply is None:
        yield from run(EXTERNAL, x509_command(username))


def check_mechanism(credentials: Credentials) -> None:
    """Reject mechanisms that are valid in connection strings but not supported.

    Raises:
        ConfigurationError: the mechanism is not supported.
    """
    mechanism = credentials.mechanism
    if mechanism is not None and mechanism not in SUPPORTED:
        raise ConfigurationError(
            f"authentication mechanism {mechanism!r} is not supported by this version of motorlite; "
            f"supported are {', '.join(SUPPORTED)}"
        )


def start(
    credentials: Credentials, address: Address, nonce: bytes, keys: KeyCache, tokens: oidc.TokenCache
) -> Authentication:
    """Prepare to authenticate one connection to `address`.

    `nonce` is 32 fresh random bytes; `keys` and `tokens` belong to the client.

    Raises:
        ValueError: The nonce has the wrong length.
        ConfigurationError: The mechanism is not supported, the credentials do not fit it, or the token must not be
            sent to this address, or no ticket can be for it.
    """
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    check_mechanism(credentials)
    mechanism, properties = credentials.mechanism, credentials.mechanism_properties
    if "OIDC_HUMAN_CALLBACK" in properties:
        oidc.check_host(address, properties.get("ALLOWED_HOSTS", oidc.DEFAULT_ALLOWED_HOSTS))
    if (mechanism in (None, PLAIN) or mechanism in _SCRAM) and (
        not credentials.username or credentials.password is None
    ):
        raise ConfigurationError(f"{mechanism or 'SCRAM'} needs a username and a password")
    if mechanism == gssapi.GSSAPI:
        # Found out before anything is sent.
        gssapi.service(credentials, address)
    return Authentication(credentials, address, nonce, keys, tokens)
