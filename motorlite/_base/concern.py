"""Pure: the base class of read concerns and write concerns."""

from __future__ import annotations

from typing import Any, Final


class Concern:
    """An immutable concern. Its document is built once, because every command reads it.

    Attributes:
        document: The document sent to the server; empty for the server's default. Shared: do not change it.
        is_server_default: Whether `document` is empty and so not sent.
    """

    __slots__ = ("document", "is_server_default")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: Final = document
        self.is_server_default: Final = not document

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self) and isinstance(other, Concern):
            return self.document == other.document
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.document.items()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.document.items())
        return f"{type(self).__name__}({fields})"
