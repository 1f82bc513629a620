"""Pure: the errors of GridFS; `motorlite.gridfs.errors` re-exports them.

::

    PyMongoError
     └── GridFSError
          ├── CorruptGridFile
          ├── FileExists
          └── NoFile
"""

from __future__ import annotations

from motorlite.errors import PyMongoError


class GridFSError(PyMongoError):
    """Base class of the errors of GridFS itself. Operations on its collections raise the usual errors."""

    __module__ = "motorlite.gridfs.errors"


class CorruptGridFile(GridFSError):
    """A stored file is not whole: chunks are missing, surplus or of a wrong size, or its length is not a number."""

    __module__ = "motorlite.gridfs.errors"


class FileExists(GridFSError):
    """There is a file with this id already."""

    __module__ = "motorlite.gridfs.errors"


class NoFile(GridFSError):
    """There is no such file, or no such revision of it."""

    __module__ = "motorlite.gridfs.errors"
