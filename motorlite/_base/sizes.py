"""Pure: estimates how large a document is once it is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.raw_bson import RawBSONDocument

# No message is larger, so it makes no difference by how much.
_LARGEST: Final = 48_000_000
# A length and the zero byte at the end.
_CONTAINER: Final = 5
# The type and the zero byte of a name.
_ELEMENT: Final = 2
# Numbers, times and ids.
_SCALAR: Final = 8


def estimated_size(value: Any, limit: int = _LARGEST) -> int:
    """Return about as many bytes as `value` has in BSON; beyond `limit`, some number above it.

    Text counts by its characters, and values of unknown types as numbers. Names of array elements do not count.
    """
    size, left = 0, [value]
    # A document that contains itself ends with the limit; `bson` refuses it later.
    while left and size < limit:
        value = left.pop()
        if isinstance(value, str | bytes):
            size += len(value) + _CONTAINER
        elif isinstance(value, RawBSONDocument):
            size += len(value.raw)
        elif isinstance(value, Mapping):
            size += _CONTAINER
            for name, item in value.items():
                size += _ELEMENT + (len(name) if isinstance(name, str) else 0)
                left.append(item)
                if size >= limit:
                    break
        elif isinstance(value, list | tuple):
            size += _CONTAINER + _ELEMENT * len(value)
            left.extend(value)
        else:
            size += _SCALAR
    return size
