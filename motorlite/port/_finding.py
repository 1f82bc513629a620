"""Pure: what the command finds in a file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """What becomes of a finding."""

    # ``--write`` changes it.
    WRITE = "write"
    # A person has to change it.
    HAND = "by hand"
    # It stays as it is: the synchronous API, which motorlite does not replace.
    NOTE = "stays"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One import or use that differs."""

    line: int
    column: int
    # What stands there.
    found: str
    # What to write instead, or the advice.
    instead: str
    mark: Mark

    def text(self, path: str) -> str:
        """Return a line of the report."""
        return f"{path}:{self.line}: {self.mark}: {self.found} -> {self.instead}"
