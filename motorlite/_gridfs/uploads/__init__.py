"""Pure: storing files."""

from __future__ import annotations
