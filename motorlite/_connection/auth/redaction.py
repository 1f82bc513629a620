"""Pure: keeps a client's authentication secrets out of error replies, in which a server may repeat them.

Errors end up in logs. So a text from the server that contains a secret, or a large part of one, is not shown at all.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite._base.values import Document

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
