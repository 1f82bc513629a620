"""Pure: what a stored file is, apart from its data: the fields of its document, and what files of Python have."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NoReturn

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping


class StoredFile:
    """The fields of a stored file, and the methods that make it a file for reading only."""

    __slots__ = ("_file",)

    # The document of the file; None until it is read.
    _file: Mapping[str, Any] | None

    def __repr__(self) -> str:
        file = self._file
        if file is None:
            return f"<{type(self).__name__}, not read yet>"
        return f"<{type(self).__name__} {file.get('filename', file['_id'])!r}, {self.length} bytes>"

    @property
    def _document(self) -> Mapping[str, Any]:
        if self._file is None:
            raise InvalidOperation("the file's document has not been read yet: call open() first")
        return self._file

    @property
    def _id(self) -> Any:
        """The id of the file."""
        return self._document["_id"]

    @property
    def filename(self) -> str | None:
        """The name of the file."""
        return self._document.get("filename")

    @property
    def name(self) -> str | None:
        """The name of the file."""
        return self.filename

    @property
    def length(self) -> int:
        """Bytes of the file."""
        length: int = self._document.get("length", 0)
        return length

    @property
    def chunk_size(self) -> int:
        """Bytes of each chunk but the last."""
        size: int = self._document["chunkSize"]
        return size

    @property
    def upload_date(self) -> datetime.datetime:
        """When the file was stored."""
        date: datetime.datetime = self._document["uploadDate"]
        return date

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """What the application stored with the file."""
        return self._document.get("metadata")

    @property
    def content_type(self) -> str | None:
        """The MIME type of the file. Deprecated by the specification: put it into the metadata."""
        return self._document.get("contentType")

    @property
    def aliases(self) -> list[str] | None:
        """Other names of the file. Deprecated by the specification: put them into the metadata."""
        return self._document.get("aliases")

    @property
    def md5(self) -> str | None:
        """The MD5 checksum, if an older driver stored one. Deprecated by the specification."""
        return self._document.get("md5")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name in self._document:
            return self._document[name]
        raise AttributeError(f"the file has no field {name!r}")

    # --- a file for reading only ---

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def isatty(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing."""

    def write(self, value: Any) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            value: Has no effect.
        """
        raise io.UnsupportedOperation("write")

    def writelines(self, lines: Any) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            lines: Has no effect.
        """
        raise io.UnsupportedOperation("writelines")

    def truncate(self, size: int | None = None) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            size: Has no effect.
        """
        raise io.UnsupportedOperation("truncate")

    def fileno(self) -> NoReturn:
        """Raise `io.UnsupportedOperation`."""
        raise io.UnsupportedOperation("fileno")
