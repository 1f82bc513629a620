"""Pure: names for the server's numeric and string constants."""

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
    """The behaviour of a query at its end, as `cursor_type` of `find`.

    Attributes:
        NON_TAILABLE: The cursor ends.
        TAILABLE: The cursor stays open and can continue after a capped collection has grown.
        TAILABLE_AWAIT: Like TAILABLE, and the server waits briefly for new documents.
        EXHAUST: The cursor ends, and the server sends its batches without waiting for requests, on a connection that
            nothing else uses meanwhile.
    """

    __module__ = "motorlite"

    NON_TAILABLE: Final = 0
    TAILABLE: Final = 2
    TAILABLE_AWAIT: Final = 34
    EXHAUST: Final = 64


class ReturnDocument:
    """The version of a document that `find_one_and_update` and `find_one_and_replace` return.

    Attributes:
        BEFORE: The document before the write.
        AFTER: The document after the write.
    """

    __module__ = "motorlite"

    BEFORE: Final = False
    AFTER: Final = True
