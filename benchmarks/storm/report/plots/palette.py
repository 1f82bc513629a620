"""Pure: colours, dashes and markers that readers with any colour vision can tell apart.

The colours are those of Okabe and Ito. No two arms differ in colour alone: dashes and markers differ too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLUE: Final = "#0072b2"
SKY: Final = "#56b4e9"
GREEN: Final = "#009e73"
ORANGE: Final = "#e69f00"
VERMILION: Final = "#d55e00"
PINK: Final = "#cc79a7"
GREY: Final = "#7f858f"


@dataclass(frozen=True, slots=True)
class Mark:
    """How an arm looks in every plot."""

    colour: str
    dash: str = "-"
    marker: str = "o"
    width: float = 1.7


ARMS: Final = {
    "default": Mark(BLUE, width=2.6),
    "no-retry": Mark(GREY, "--", "d"),
    "immediate": Mark(VERMILION, "-", "v"),
    "fixed": Mark(ORANGE, "-", "^"),
    "revision": Mark(PINK, "-", "D"),
    "per-server": Mark(SKY, "--", "s"),
    "shared": Mark(GREEN, "--", "P"),
    "small-budget": Mark(GREEN, "-", "*"),
    "three": Mark(VERMILION, "-", "v"),
    "bucket": Mark(BLUE, "-", "o"),
    "published-bucket": Mark(GREEN, "-", "*"),
    "retry-breaker": Mark(ORANGE, "-", "h"),
    "breaker": Mark(BLUE, ":", "h"),
    "queue": Mark(SKY, "-.", "p"),
    "adaptive": Mark(GREEN, "-.", "8"),
    "pymongo": Mark(VERMILION, "--", "<"),
    "motor": Mark(PINK, "--", ">"),
    "mongojet": Mark(ORANGE, "--", "X"),
}
OTHERS: Final = (Mark(BLUE, ":", "1"), Mark(VERMILION, ":", "2"), Mark(GREEN, ":", "3"), Mark(PINK, ":", "4"))


def mark(arm: str) -> Mark:
    """That of an arm; the same name always looks the same, an unknown one too."""
    return ARMS.get(arm) or OTHERS[sum(arm.encode()) % len(OTHERS)]
