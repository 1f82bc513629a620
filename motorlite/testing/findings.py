"""Pure: what contradicts a promise, and how it is shown to a person."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from motorlite.testing.journal import Begun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from motorlite.testing.journal import Entry

__all__ = ["Finding", "report"]

MOST_ENTRIES: Final = 20
MOST_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that contradicts a promise.

    Attributes:
        kind: What is wrong, in a word or two: ``lost``, ``applied twice``, ``G-single`` ...
        message: What is wrong, in a sentence.
        entries: The entries of the journal that show it.
    """

    kind: str
    message: str
    entries: tuple[Entry, ...] = ()


def report(findings: Iterable[Finding]) -> str:
    """The findings as plain text: one paragraph each, with the operations that show it in the order of their times.

    Returns:
        Lines; "nothing is wrong" if there is no finding.
    """
    return "\n\n".join("\n".join(_paragraph(each)) for each in findings) or "nothing is wrong"


def _paragraph(finding: Finding) -> Iterator[str]:
    yield f"{finding.kind}: {finding.message}"
    entries = sorted(finding.entries, key=lambda entry: (entry.time, entry.id))
    yield from (f"  {_line(entry)}" for entry in entries[:MOST_ENTRIES])
    if len(entries) > MOST_ENTRIES:
        yield f"  and {len(entries) - MOST_ENTRIES} more entries"


def _line(entry: Entry) -> str:
    what = f"process {entry.process} begins {entry.kind}" if isinstance(entry, Begun) else f"ended as {entry.outcome}"
    details = json.dumps(entry.details) if entry.details else ""
    if len(details) > MOST_CHARACTERS:
        details = details[: MOST_CHARACTERS - 3] + "..."
    return f"{entry.time:12.6f}  #{entry.id} {what} {details}".rstrip()
