"""Pure: the version, readable without importing any dependency."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
