"""Pure: the requests of an authentication conversation to the shell, and the SASL replies that it reads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite._connection.auth.redaction import redacted
from motorlite._wire.error_replies import error_from_reply
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError

if TYPE_CHECKING:
    from motorlite._base.values import Document
    from motorlite.auth_oidc import OIDCIdPInfo

# The "database" of users that an external system manages.
EXTERNAL: Final = "$external"
_SASL_FIELDS: Final = ("conversationId", "done", "payload")


class RunCommand:
    """Send `document` to `database` and return the reply, even if it is an error.

    The document is never compressed and never published in full, because it contains data derived from the password.
    """

    __slots__ = ("database", "document")

    def __init__(self, database: str, document: Document) -> None:
        self.database = database
        self.document = document

    def __repr__(self) -> str:
        return f"<RunCommand {next(iter(self.document))} on {self.database!r}>"


class Compute:
    """Call the slow `function` outside of the event loop and return its result.

    The result is valid for every request with the same `key`, and `keep` stores it, even if this conversation has ended
    in the meantime.
    """

    __slots__ = ("function", "keep", "key")

    def __init__(self, key: Hashable, function: Callable[[], Any], keep: Callable[[Any], None]) -> None:
        self.key = key
        self.function = function
        self.keep = keep

    def __repr__(self) -> str:
        # The function is bound to the password.
        return "<Compute>"


class NeedToken:
    """Return an access token and whether it was cached; if none is cached, request one from the callback."""

    __slots__ = ("idp_info", "refresh_token")

    def __init__(self, idp_info: OIDCIdPInfo | None = None, refresh_token: str | None = None) -> None:
        self.idp_info = idp_info
        self.refresh_token = refresh_token

    def __repr__(self) -> str:
        return "<NeedToken>"


class NeedAwsCredentials:
    """Return `aws.AwsCredentials`."""

    __slots__ = ()


class NeedDate:
    """Return the time in UTC as ``YYYYMMDDTHHMMSSZ``."""

    __slots__ = ()


Request: TypeAlias = RunCommand | Compute | NeedToken | NeedAwsCredentials | NeedDate
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
