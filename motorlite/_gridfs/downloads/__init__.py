"""Pure: reading files."""

from __future__ import annotations
