"""Pure: the errors of GridFS, under the names of PyMongo's module `gridfs.errors`.

::

    PyMongoError
     └── GridFSError
          ├── CorruptGridFile                 a stored file is not whole
          ├── FileExists                      there is a file with this id already
          └── NoFile                          there is no such file or revision
"""

from __future__ import annotations

from motorlite._gridfs.errors import CorruptGridFile, FileExists, GridFSError, NoFile

__all__ = ["CorruptGridFile", "FileExists", "GridFSError", "NoFile"]
