"""Pure: a single connection: establishment, handshake and messages."""

from __future__ import annotations
