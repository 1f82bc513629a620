"""Shell: what the parts of a bucket have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._gridfs.store import Store

if TYPE_CHECKING:
    from motorlite._api.handles import AsyncCollection


class BucketBase:
    """The collections of a bucket, and the size of its new chunks."""

    __slots__ = ("__weakref__", "_chunk_size", "_root", "_store")

    def __init__(self, root: AsyncCollection[Any], chunk_size: int) -> None:
        self._root = root
        self._chunk_size = chunk_size
        self._store: Store = Store(root)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._root.full_name!r}>"
