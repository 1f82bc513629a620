"""Pure: a client's default maxTimeMS, and the comment by which abandoned operations are found; `building` adds both."""

from __future__ import annotations

from math import ceil, inf
from typing import Any, Final

LONGEST_MS: Final = 2**31 - 1
"""The largest maxTimeMS that servers accept."""


def default_milliseconds(seconds: float | None) -> int | None:
    """Convert a default to whole milliseconds, rounded up: a short limit must not become 0, which is no limit."""
    if seconds is None:
        return None
    if seconds in (0, inf):
        return 0
    # A product of floats may be a little above a whole number.
    return max(1, ceil(round(min(seconds * 1000, LONGEST_MS), 6)))


def document_milliseconds(value: Any) -> int:
    """Return the limit in a document of the deployment. The mongo shell writes its numbers as doubles.

    Raises:
        ValueError: It is not a whole number of milliseconds from 0 to `LONGEST_MS`.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_MS:
        milliseconds = int(value)
        if milliseconds == value:
            return milliseconds
    raise ValueError(f"not a whole number of milliseconds from 0 to {LONGEST_MS}")


class CommandDefaults:
    """The default maxTimeMS of one client, from up to three sources, and the comments of its operations.

    The nearer source wins: what the application set through the client, then the document of the deployment, then the
    client option. 0 is no limit; a source that is None says nothing.
    """

    __slots__ = ("_chosen", "_document", "_option", "are_used", "comment", "milliseconds")

    def __init__(self, option: int | None = None, comment: str = "") -> None:
        self._option = option
        self._document: int | None = None
        self._chosen: int | None = None
        # Begins the comments by which operations are recognized on their server; empty: they get none.
        self.comment: str = comment
        # The default in force; 0: none.
        self.milliseconds: int
        # Whether commands get anything at all. Read for every command.
        self.are_used: bool
        self._update()

    @property
    def chosen(self) -> int | None:
        """The application's choice, or None."""
        return self._chosen

    def choose(self, milliseconds: int | None) -> None:
        """Set the application's choice; None takes it back."""
        self._chosen = milliseconds
        self._update()

    def read(self, milliseconds: int | None) -> None:
        """Learn what the document of the deployment says; None: there is none."""
        self._document = milliseconds
        self._update()

    def _update(self) -> None:
        sources = (self._chosen, self._document, self._option)
        self.milliseconds = next((source for source in sources if source is not None), 0)
        self.are_used = bool(self.milliseconds or self.comment)
