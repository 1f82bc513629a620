"""PyMongo's own clock, which its `timeout` blocks use, set to the time of the running event loop."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest
from pymongo import _csot


@pytest.fixture
def pymongo_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `pymongo.timeout` run in virtual time."""
    monkeypatch.setattr(_csot, "time", SimpleNamespace(monotonic=anyio.current_time))
