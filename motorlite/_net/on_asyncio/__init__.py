"""Pure: the runtime on asyncio."""

from __future__ import annotations
