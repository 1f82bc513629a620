"""Pure: the state of sessions."""

from __future__ import annotations
