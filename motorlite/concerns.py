"""Pure: read concerns and write concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._pymongo_objects import is_like
from motorlite.arguments import check_boolean
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_READ_CONCERN", "DEFAULT_WRITE_CONCERN", "ReadConcern", "WriteConcern"]


class _Concern:
    """An immutable concern; its document is made once, because every command looks at it.

    Attributes:
        document: What is sent to the server, empty for the server's default. Shared: do not change it.
        is_server_default: Whether `document` is empty, so that nothing is sent.
    """

    __slots__ = ("document", "is_server_default")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: Final = document
        self.is_server_default: Final = not document

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self) and isinstance(other, _Concern):
            return self.document == other.document
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.document.items()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.document.items())
        return f"{type(self).__name__}({fields})"


class ReadConcern(_Concern):
    """Which data a read may see (read and write concern specification).

    Args:
        level: ``"local"``, ``"available"``, ``"majority"``, ``"linearizable"``, ``"snapshot"``, or a level
            that a later server knows. None leaves it to the server.

    Raises:
        TypeError: `level` is not a string.
    """

    __slots__ = ("level",)

    def __init__(self, level: str | None = None) -> None:
        if level is not None and not isinstance(level, str):
            raise TypeError(f"level must be a string or None, not {level!r}")
        self.level: Final = level
        super().__init__({"level": level} if level else {})

    def __reduce__(self) -> tuple[type[ReadConcern], tuple[str | None]]:
        return ReadConcern, (self.level,)

    @property
    def ok_for_legacy(self) -> bool:
        """Whether servers without read concerns behave as this one asks."""
        return self.level is None or self.level == "local"


class WriteConcern(_Concern):
    """How far a write must have come before it is acknowledged (read and write concern specification).

    Args:
        w: How many members must have the write, ``"majority"``, or the name of a tag set of the server's
            configuration. 0 asks for no acknowledgement at all: errors of such a write are never seen.
        wtimeout: Milliseconds to wait for `w`. Prefer `timeoutMS` or `motorlite.timeout`.
        j: Wait until the write is in the journal.
        fsync: Like `j` on a server with a journal. Not together with `j`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `w` or `wtimeout` is negative.
        ConfigurationError: ``w=0`` with ``j=True``, or `j` with `fsync`.
    """

    __slots__ = ("acknowledged",)

    def __init__(
        self,
        w: int | str | None = None,
        wtimeout: int | None = None,
        j: bool | None = None,
        fsync: bool | None = None,
    ) -> None:
        document: dict[str, Any] = {}
        if w is not None:
            document["w"] = w if isinstance(w, str) else _non_negative("w", w, "a non-negative integer or a string")
        if wtimeout is not None:
            document["wtimeout"] = _non_negative("wtimeout", wtimeout, "a non-negative integer (milliseconds)")
        for name, value in (("j", j), ("fsync", fsync)):
            if value is not None:
                check_boolean(name, value)
                document[name] = value
        if j and fsync:
            raise ConfigurationError("j=True and fsync=True cannot be combined")
        if w == 0 and j:
            raise ConfigurationError("w=0 asks for no acknowledgement, so it cannot be combined with j=True")
        self.acknowledged: Final = w != 0
        super().__init__(document)

    def __reduce__(self) -> tuple[Any, tuple[Mapping[str, Any]]]:
        return _write_concern, (self.document,)


def _write_concern(document: Mapping[str, Any]) -> WriteConcern:
    return WriteConcern(**document)


def as_read_concern(value: Any) -> ReadConcern:
    """A read concern, which may be PyMongo's. Raises TypeError."""
    if isinstance(value, ReadConcern):
        return value
    if not is_like(value, ReadConcern):
        raise TypeError("allowed is a ReadConcern")
    return ReadConcern(value.level)


def as_write_concern(value: Any) -> WriteConcern:
    """A write concern, which may be PyMongo's. Raises TypeError."""
    if isinstance(value, WriteConcern):
        return value
    if not is_like(value, WriteConcern):
        raise TypeError("allowed is a WriteConcern")
    return _write_concern(value.document)


def _non_negative(name: str, value: object, allowed: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return value


DEFAULT_READ_CONCERN: Final = ReadConcern()
DEFAULT_WRITE_CONCERN: Final = WriteConcern()
