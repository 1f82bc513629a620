"""Pure: the runtime on trio."""

from __future__ import annotations
