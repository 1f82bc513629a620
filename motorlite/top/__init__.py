"""Pure: ``python -m motorlite.top`` shows what the driver of a running program does (extra ``top``).

The program has `motorlite.exporters.live` switched on. docs/top.md shows the screen.
"""

from __future__ import annotations

__all__ = []
