"""Pure: the commands of open cursors."""

from __future__ import annotations
