"""Pure: read concerns."""

from __future__ import annotations

from typing import Any, Final

from motorlite._base.arguments import Concern, WrongType, is_like

__all__ = ["DEFAULT_READ_CONCERN", "ReadConcern"]


class ReadConcern(Concern):
    """The consistency of the data that a read returns (read and write concern specification).

    Args:
        level: ``"local"``, ``"available"``, ``"majority"``, ``"linearizable"``, ``"snapshot"``, or a level
            of a later server. None means the server's default.

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
        """Whether servers without support for read concerns behave as this one requires."""
        return self.level is None or self.level == "local"


DEFAULT_READ_CONCERN: Final = ReadConcern()


def as_read_concern(value: Any) -> ReadConcern:
    """Return `value`, which may be PyMongo's, as a ReadConcern. Raises TypeError."""
    if isinstance(value, ReadConcern):
        return value
    if not is_like(value, ReadConcern):
        raise WrongType("a ReadConcern", f"write ReadConcern({value!r})" if isinstance(value, str) else "")
    return ReadConcern(value.level)
