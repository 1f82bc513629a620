"""Tests with real sockets run on every event loop: uvloop reads, writes and closes in its own way."""

from __future__ import annotations

from typing import Any, Final

import pytest

LOOPS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}
EVERY_LOOP: Final = pytest.mark.parametrize("anyio_backend", LOOPS.values(), ids=list(LOOPS))
