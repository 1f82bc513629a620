"""Pure: the composition root and the state of one client."""

from __future__ import annotations
