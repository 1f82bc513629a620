"""Pure: wire versions, and the MongoDB releases that introduced them (wire version feature list)."""

from __future__ import annotations

from typing import Final

V3_4: Final = 5
V4_2: Final = 8
V4_4: Final = 9
V5_0: Final = 13
V6_0: Final = 17
V7_0: Final = 21
V7_1: Final = 22
V8_0: Final = 25

OLDEST: Final = V4_2
"""The oldest wire version that the driver speaks."""

NEWEST: Final = 29
"""The newest wire version that the driver was written for.

A server announces the range that it speaks, and every server so far begins at 0: this only guards against a server that
has dropped today's protocol.
"""

# Since 5.1 the number grows by one with every release.
_RELEASES: Final = {
    0: "2.4",
    1: "2.6",
    2: "2.6",
    3: "3.0",
    4: "3.2",
    5: "3.4",
    6: "3.6",
    7: "4.0",
    8: "4.2",
    9: "4.4",
    13: "5.0",
    14: "5.1",
    15: "5.2",
    16: "5.3",
    17: "6.0",
    18: "6.1",
    19: "6.2",
    20: "6.3",
    21: "7.0",
    22: "7.1",
    23: "7.2",
    24: "7.3",
    25: "8.0",
}


def release(wire_version: int) -> str:
    """The MongoDB release that introduced `wire_version`, or the newest one before it."""
    known = [version for version in _RELEASES if version <= wire_version]
    return _RELEASES[max(known)] if known else "older than 2.4"
