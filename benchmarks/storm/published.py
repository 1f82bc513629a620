"""Pure: curves that others published, to stand beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A figure from the literature with two plots over one quantity.

    Attributes:
        title: Who published it, and when.
        source: Its address.
        note: Where the numbers come from, and what is different there.
        success: The share of requests that succeed, for each policy.
        attempts: Attempts per request, for each policy.
        ours: The arm that is most like each policy, for colours.
    """

    title: str
    source: str
    note: str
    success: dict[str, Points]
    attempts: dict[str, Points]
    ours: dict[str, str]


PUBLISHED: Final[dict[str, Published]] = {}
"""By the family of the sweep that repeats it."""
