"""Pure: cursors that stay open on a server."""

from __future__ import annotations
