"""Pure: names for what the server knows by number or by a short string."""

from __future__ import annotations

from typing import Final

ASCENDING: Final = 1
"""Direction of a sort or an index."""

DESCENDING: Final = -1
"""Direction of a sort or an index."""

TEXT: Final = "text"
"""A text index."""

HASHED: Final = "hashed"
"""A hashed index."""

GEO2D: Final = "2d"
"""A planar geospatial index."""

GEOSPHERE: Final = "2dsphere"
"""A spherical geospatial index."""


class CursorType:
    """What a query does at its end, as `cursor_type` of `find`.

    Attributes:
        NON_TAILABLE: It ends.
        TAILABLE: It stays open and can be continued when a capped collection has grown.
        TAILABLE_AWAIT: Like TAILABLE, and the server waits a little for new documents.
    """

    NON_TAILABLE: Final = 0
    TAILABLE: Final = 2
    TAILABLE_AWAIT: Final = 34


class ReturnDocument:
    """Which version of a document `find_one_and_update` and `find_one_and_replace` return.

    Attributes:
        BEFORE: As it was before the write.
        AFTER: As it is after the write.
    """

    BEFORE: Final = False
    AFTER: Final = True
