"""Pure: the requests of an authentication conversation to the shell, and the SASL replies that it reads."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from motorlite._wire.replies import error_from_reply
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError

if TYPE_CHECKING:
    from motorlite._base.values import Document
    from motorlite.auth_oidc import OIDCIdPInfo


# Keeps a client's authentication secrets out of error replies, in which a server may repeat them.
#
# Errors end up in logs. So a text from the server that contains a secret, or a large part of one, is not shown at
# all.

NOT_SHOWN: Final = "(the server's text is not shown because it repeats a secret that the client authenticated with)"
# This many consecutive characters of a secret count as the whole secret, because servers truncate long values.
_WINDOW: Final = 16
# Longer texts are neither searched nor shown. The same applies to everything beyond this total number of characters or
# this nesting depth. No rejection needs that much, but a server may send a megabyte, nested as deeply as Python allows.
_MAX_TEXT: Final = 10_000
_MAX_TEXTS: Final = 50_000
_MAX_DEPTH: Final = 20
# Types too small to hold a secret. Others, such as regular expressions and references, contain texts.
_HARMLESS: Final = (int, float, ObjectId, Timestamp, type(None))


def redacted(reply: Mapping[str, Any], command: Mapping[str, Any], secrets: Iterable[str | None]) -> Document:
    """Return `reply` to `command` without texts that repeat one of the `secrets` or the command's payload."""
    wanted = {secret for secret in secrets if secret}
    payload = command.get("payload")
    if isinstance(payload, bytes):
        # The formats in which servers write binary values.
        wanted |= {b64encode(payload).decode(), payload.hex(), payload.hex().upper()}
    wanted.discard("")
    windows = {secret[start : start + _WINDOW] for secret in wanted for start in range(_starts(secret))}
    short = tuple(secret for secret in wanted if len(secret) <= _WINDOW)
    return _Search(windows, short).document(reply, _MAX_DEPTH)


def _starts(text: str) -> int:
    """Return the number of windows in a text."""
    return max(len(text) - _WINDOW + 1, 0)


class _Search:
    __slots__ = ("_left", "_short", "_windows")

    def __init__(self, windows: set[str], short: tuple[str, ...]) -> None:
        self._windows = windows
        self._short = short
        # Number of characters that may still be searched.
        self._left = _MAX_TEXTS

    def document(self, value: Mapping[Any, Any], depth: int) -> Document:
        return {self._value(name, depth): self._value(item, depth) for name, item in value.items()}

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return NOT_SHOWN if self._has_secret(value) else str.__str__(value)
        if isinstance(value, bytes):
            # This includes Binary. No binary value of a rejection is ever read.
            return b""
        if isinstance(value, Mapping | list) and depth:
            if isinstance(value, list):
                return [self._value(item, depth - 1) for item in value]
            return self.document(value, depth - 1)
        return value if isinstance(value, _HARMLESS) else NOT_SHOWN

    def _has_secret(self, text: str) -> bool:
        self._left -= len(text)
        return (
            len(text) > _MAX_TEXT
            or self._left < 0
            or any(secret in text for secret in self._short)
            or any(text[start : start + _WINDOW] in self._windows for start in range(_starts(text)))
        )


# The "database" of users that an external system manages.
EXTERNAL: Final = "$external"
_SASL_FIELDS: Final = ("conversationId", "done", "payload")


@dataclass(slots=True, eq=False)
class RunCommand:
    """Send `document` to `database` and return the reply, even if it is an error.

    The document is never compressed and never published in full, because it contains data derived from the password.
    """

    database: str
    document: Document

    def __repr__(self) -> str:
        return f"<RunCommand {next(iter(self.document))} on {self.database!r}>"


@dataclass(slots=True, eq=False)
class Compute:
    """Call the slow `function` outside of the event loop and return its result.

    The result is valid for every request with the same `key`, and `keep` stores it, even if this conversation has ended
    in the meantime.
    """

    key: Hashable
    function: Callable[[], Any]
    keep: Callable[[Any], None]

    def __repr__(self) -> str:
        # The function is bound to the password.
        return "<Compute>"


@dataclass(slots=True, eq=False)
class NeedToken:
    """Return an access token and whether it was cached; if none is cached, request one from the callback."""

    idp_info: OIDCIdPInfo | None = None
    refresh_token: str | None = None

    def __repr__(self) -> str:
        return "<NeedToken>"


class NeedAwsCredentials:
    """Return `aws.AwsCredentials`."""


class NeedDate:
    """Return the time in UTC as ``YYYYMMDDTHHMMSSZ``."""


class Service(NamedTuple):
    """A service of a Kerberos realm."""

    name: str
    host: str
    # None: libkrb5 finds it by the host.
    realm: str | None
    # CANONICALIZE_HOST_NAME: none, forward or forwardAndReverse.
    canonicalize: str


@dataclass(slots=True, eq=False)
class NeedSecurityContext:
    """Return a `gssapi.SecurityContext` with the service, and its first token."""

    service: Service
    username: str
    password: bytes | None

    def __repr__(self) -> str:
        return f"<NeedSecurityContext {self.service.name}/{self.service.host}>"


Request: TypeAlias = RunCommand | Compute | NeedToken | NeedAwsCredentials | NeedDate | NeedSecurityContext
Conversation: TypeAlias = Generator[Request, Any, None]
"""Ends when the connection is authenticated; otherwise raises the error of the attempt."""


class SaslReply:
    """One server message of a SASL conversation."""

    __slots__ = ("conversation_id", "is_done", "payload")

    def __init__(self, mechanism: str, reply: Mapping[str, Any]) -> None:
        conversation_id, is_done, payload = (reply.get(name) for name in _SASL_FIELDS)
        if not isinstance(is_done, bool) or not isinstance(payload, bytes) or conversation_id is None:
            # Shows neither values nor other names, which may repeat a secret.
            found = ", ".join(f"{name} ({type(reply.get(name)).__name__})" for name in _SASL_FIELDS if name in reply)
            raise ProtocolError(
                f"{mechanism}: the server's reply must have conversationId, done (a boolean) and payload "
                f"(binary), but has {found or 'none of them'}"
            )
        self.conversation_id: Any = conversation_id
        self.is_done = is_done
        self.payload = payload


def run(
    database: str, document: Document, secrets: Iterable[str | None] = ()
) -> Generator[Request, Any, Mapping[str, Any]]:
    """Send a command and return its reply; raise an error reply without `secrets` that the server may have repeated."""
    reply: Mapping[str, Any] = yield RunCommand(database, document)
    if reply.get("ok") != 1:
        raise error_from_reply(redacted(reply, document, secrets))
    return reply


def violation(mechanism: str, problem: str) -> OperationFailure:
    """Return the error for a failed or weakened conversation of `mechanism`."""
    return OperationFailure(f"{mechanism} authentication failed: {problem}")


def encode(text: str, what: str) -> bytes:
    """Encode `text` as UTF-8; the error does not contain the text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what} cannot be encoded as UTF-8") from None
