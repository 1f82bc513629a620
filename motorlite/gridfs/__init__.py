"""Pure: GridFS: files of any size in two collections of a database; docs/gridfs.md describes it.

The names are those of PyMongo's package `gridfs`. Errors are in `motorlite.gridfs.errors`.
"""

from __future__ import annotations

from motorlite._gridfs.bucket import AsyncGridFSBucket
from motorlite._gridfs.cursor import AsyncGridOutCursor
from motorlite._gridfs.errors import CorruptGridFile, FileExists, GridFSError, NoFile
from motorlite._gridfs.files import DEFAULT_CHUNK_SIZE
from motorlite._gridfs.grid_fs import AsyncGridFS
from motorlite._gridfs.grid_in import AsyncGridIn
from motorlite._gridfs.grid_out import AsyncGridOut

__all__ = [
    "DEFAULT_CHUNK_SIZE",
    "AsyncGridFS",
    "AsyncGridFSBucket",
    "AsyncGridIn",
    "AsyncGridOut",
    "AsyncGridOutCursor",
    "CorruptGridFile",
    "FileExists",
    "GridFSError",
    "NoFile",
]
