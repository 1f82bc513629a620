"""Pure: the session commands."""

from __future__ import annotations
