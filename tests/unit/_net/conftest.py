"""No test with sockets leaves one open."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    yield
    for _ in range(3):
        await checkpoint()
    gc.collect()  # tells of sockets that nobody closed
