"""Pure: the options of a client, from connection strings and keyword arguments."""

from __future__ import annotations
