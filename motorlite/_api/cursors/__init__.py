"""Pure: the public cursors."""

from __future__ import annotations
