"""Pure: the methods of a collection, one module per topic."""

from __future__ import annotations
