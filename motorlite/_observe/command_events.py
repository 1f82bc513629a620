"""Pure: builds the command events of one attempt and redacts sensitive commands.

Command logging and monitoring specification, "Security": authentication commands, user management and a hello that
authenticates are published with an empty command, reply and error document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from motorlite.errors import PyMongoError
from motorlite.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SENSITIVE: Final = frozenset(
    {
        "authenticate",
        "saslstart",
        "saslcontinue",
        "getnonce",
        "createuser",
        "updateuser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    }
)
# Showing a document must not fail if sending it succeeds.
_LENIENT: Final = CodecOptions[dict[str, Any]](
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)
_HELLO: Final = frozenset({"hello", "ismaster"})
# The fields of an error document that need no redaction.
_HARMLESS: Final = ("code", "codeName", "errorLabels")


class CommandEvents:
    """The events of one attempt. `rest`: the arguments of `CommandEvent` from the id of the request on."""

    __slots__ = ("_args", "_is_sensitive")

    def __init__(self, name: str, document: Mapping[str, Any], *rest: Any) -> None:
        lowered = name.lower()
        self._is_sensitive = lowered in _SENSITIVE or (lowered in _HELLO and "speculativeAuthenticate" in document)
        self._args = (name, document["$db"], *rest)

    def started(
        self, document: Mapping[str, Any], sequences: Sequence[tuple[str, Sequence[bytes]]]
    ) -> CommandStartedEvent:
        """Make the event before the command is written; document sequences are shown as arrays."""
        if self._is_sensitive:
            return CommandStartedEvent({}, *self._args)
        command = dict(document)
        for name, documents in sequences:
            command[name] = [_decoded(item) for item in documents]
        return CommandStartedEvent(command, *self._args)

    def succeeded(self, duration: float, reply: Mapping[str, Any]) -> CommandSucceededEvent:
        """Make the event of a reply with ``ok: 1``; for unacknowledged writes the reply is synthetic."""
        return CommandSucceededEvent(duration, {} if self._is_sensitive else reply, *self._args)

    def failed(self, duration: float, error: BaseException) -> CommandFailedEvent:
        """Make the event of a reply with an error, or of a missing reply."""
        details: Any = getattr(error, "details", None)
        shown: BaseException | None = error
        if not details or not isinstance(error, PyMongoError):
            # The error did not come from a server, so it needs no redaction.
            # PyMongo calls the class `errtype`.
            details = {"errmsg": str(error), "errtype": type(error).__name__, "type": type(error).__name__}
        elif self._is_sensitive:
            details = {key: details[key] for key in _HARMLESS if key in details}
            shown = None
        return CommandFailedEvent(duration, details, shown, *self._args)


def _decoded(document: bytes) -> dict[str, Any]:
    return bson.decode(document, _LENIENT)
