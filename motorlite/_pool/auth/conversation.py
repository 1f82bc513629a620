"""Pure: what an authentication conversation asks of the shell, and the SASL replies that it reads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite._pool.auth.redaction import redacted
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError, error_from_reply

if TYPE_CHECKING:
    from motorlite.auth_oidc import OIDCIdPInfo
    from motorlite.values import Document

# The "database" of users that another system knows.
EXTERNAL: Final = "$external"
_SASL_FIELDS: Final = ("conversationId", "done", "payload")


class RunCommand:
    """Send `document` to `database` and answer with the reply, whether it says ok or not.

    The document is never compressed and never published in full: it holds what the password was made into.
    """

    __slots__ = ("database", "document")

    def __init__(self, database: str, document: Document) -> None:
        self.database = database
        self.document = document

    def __repr__(self) -> str:
        return f"<RunCommand {next(iter(self.document))} on {self.database!r}>"


class Compute:
    """Call `function`, which takes a while, away from the event loop, and answer with what it returns.

    What it returns is good for every request with the same `key`, and `keep` remembers it, even if this conversation
    has ended meanwhile.
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
    """Answer with an access token and whether the client had it already; with neither, ask the callback for one."""

    __slots__ = ("idp_info", "refresh_token")

    def __init__(self, idp_info: OIDCIdPInfo | None = None, refresh_token: str | None = None) -> None:
        self.idp_info = idp_info
        self.refresh_token = refresh_token

    def __repr__(self) -> str:
        return "<NeedToken>"


class NeedAwsCredentials:
    """Answer with `aws.AwsCredentials`."""

    __slots__ = ()


class NeedDate:
    """Answer with the time in UTC as ``YYYYMMDDTHHMMSSZ``."""

    __slots__ = ()


Request: TypeAlias = RunCommand | Compute | NeedToken | NeedAwsCredentials | NeedDate
Conversation: TypeAlias = Generator[Request, Any, None]
"""Ends when the connection is authenticated; otherwise raises what the attempt failed with."""


class SaslReply:
    """One server message of a SASL conversation."""

    __slots__ = ("conversation_id", "is_done", "payload")

    def __init__(self, mechanism: str, reply: Mapping[str, Any]) -> None:
        conversation_id, is_done, payload = (reply.get(name) for name in _SASL_FIELDS)
        if not isinstance(is_done, bool) or not isinstance(payload, bytes) or conversation_id is None:
            # Neither values nor other names, which may repeat a secret.
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
    """Send a command and return its reply; a refusal is raised, without the `secrets` that the server may repeat."""
    reply: Mapping[str, Any] = yield RunCommand(database, document)
    if reply.get("ok") != 1:
        raise error_from_reply(redacted(reply, document, secrets))
    return reply


def violation(mechanism: str, problem: str) -> OperationFailure:
    """The server failed to authenticate itself, or tried to weaken the conversation."""
    return OperationFailure(f"{mechanism} authentication failed: {problem}")


def encode(text: str, what: str) -> bytes:
    """`text` as UTF-8; the error does not carry it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what} cannot be encoded as UTF-8") from None
