"""Pure: the version, readable without importing any dependency."""

from __future__ import annotations

__version__ = "0.1.0.dev0"

version = __version__
"""The same, under PyMongo's older name."""

version_tuple: tuple[int | str, ...] = tuple(int(part) if part.isdecimal() else part for part in version.split("."))
"""The version's parts, the numeric ones as integers."""


def get_version_string() -> str:
    """Return the version."""
    return __version__


get_version_string.__module__ = "motorlite"
