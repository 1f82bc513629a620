"""Pure: write concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import Concern, WrongType, check_boolean, is_like
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_WRITE_CONCERN", "WriteConcern"]


class WriteConcern(Concern):
    """The acknowledgement that a write requires (read and write concern specification).

    Args:
        w: The number of members that must have the write, ``"majority"``, or the name of a tag set of the server's
            configuration. 0 requests no acknowledgement: errors of such a write are never seen.
        wtimeout: Milliseconds to wait for `w`. Prefer `timeoutMS` or `motorlite.timeout`.
        j: Whether to wait until the write is in the journal.
        fsync: Like `j` on a server with a journal. Cannot be combined with `j`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `w` or `wtimeout` is negative.
        ConfigurationError: ``w=0`` with ``j=True``, or `j` with `fsync`.
    """

    __slots__ = ("acknowledged",)

    def __init__(
        self, w: int | str | None = None, wtimeout: int | None = None, j: bool | None = None, fsync: bool | None = None
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


def _non_negative(name: str, value: object, allowed: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return value


DEFAULT_WRITE_CONCERN: Final = WriteConcern()


def _as_call(value: object) -> str:
    """Say which write concern `value` was probably meant to be."""
    if isinstance(value, dict):
        return f"write WriteConcern({', '.join(f'{name}={part!r}' for name, part in value.items())})"
    return f"write WriteConcern({value!r})" if isinstance(value, int | str) else ""


def as_write_concern(value: Any) -> WriteConcern:
    """Return `value`, which may be PyMongo's, as a WriteConcern. Raises TypeError."""
    if isinstance(value, WriteConcern):
        return value
    if not is_like(value, WriteConcern):
        raise WrongType("a WriteConcern", _as_call(value))
    return _write_concern(value.document)
