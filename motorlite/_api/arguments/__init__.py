"""Pure: types and checks of arguments."""

from __future__ import annotations
