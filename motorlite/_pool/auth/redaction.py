"""Pure: keeps what a client has authenticated with out of its errors, in which a server may repeat it.

Errors end in logs. So a text of the server's that has a secret in it, or a good part of one, is not shown at all.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite.values import Document

NOT_SHOWN: Final = "(the server's text is not shown: it repeats what the client has authenticated with)"
# So many characters in a row count as the whole secret: servers cut long values.
_WINDOW: Final = 16
# Longer texts are not searched, and not shown; nor is what comes after so many characters, or lies deeper than this.
# No refusal needs as much, and a server may send a megabyte, nested as deeply as Python allows.
_MAX_TEXT: Final = 10_000
_MAX_TEXTS: Final = 50_000
_MAX_DEPTH: Final = 20
# Too small to hold a secret. Other types, as regular expressions and references, hold texts of their own.
_HARMLESS: Final = (int, float, ObjectId, Timestamp, type(None))


def redacted(reply: Mapping[str, Any], command: Mapping[str, Any], secrets: Iterable[str | None]) -> Document:
    """`reply` to `command`, without the texts that repeat one of the `secrets` or the command's payload."""
    wanted = {secret for secret in secrets if secret}
    payload = command.get("payload")
    if isinstance(payload, bytes):
        # As servers write binary values.
        wanted |= {b64encode(payload).decode(), payload.hex(), payload.hex().upper()}
    wanted.discard("")
    windows = {secret[start : start + _WINDOW] for secret in wanted for start in range(_starts(secret))}
    short = tuple(secret for secret in wanted if len(secret) <= _WINDOW)
    return _Search(windows, short).document(reply, _MAX_DEPTH)


def _starts(text: str) -> int:
    """How many windows a text has."""
    return max(len(text) - _WINDOW + 1, 0)


class _Search:
    __slots__ = ("_left", "_short", "_windows")

    def __init__(self, windows: set[str], short: tuple[str, ...]) -> None:
        self._windows = windows
        self._short = short
        # Characters that may still be searched.
        self._left = _MAX_TEXTS

    def document(self, value: Mapping[Any, Any], depth: int) -> Document:
        return {self._value(name, depth): self._value(item, depth) for name, item in value.items()}

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return NOT_SHOWN if self._has_secret(value) else str.__str__(value)
        if isinstance(value, bytes):
            # Also a Binary: nothing of a refusal's is read from one.
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
