"""Pure: the commands that read documents."""

from __future__ import annotations
