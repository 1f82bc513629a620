"""Pure: operations in transactions."""

from __future__ import annotations
