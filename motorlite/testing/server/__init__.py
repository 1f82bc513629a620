"""Pure: a local MongoDB server for tests."""

from __future__ import annotations
