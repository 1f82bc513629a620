"""Pure: the bulkWrite command of MongoDB 8.0, which writes to several collections."""

from __future__ import annotations
