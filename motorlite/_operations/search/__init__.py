"""Pure: the commands for search indexes."""

from __future__ import annotations
