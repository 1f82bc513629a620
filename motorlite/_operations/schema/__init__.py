"""Pure: the commands for databases, collections and indexes."""

from __future__ import annotations
