"""Pure: the Stable API that a client declares (versioned API specification)."""

from __future__ import annotations

from typing import Any, Final

from motorlite._base.arguments import WrongType, is_like

__all__ = ["ServerApi", "ServerApiVersion"]


class ServerApiVersion:
    """The versions that `ServerApi` accepts."""

    V1: Final = "1"


class ServerApi:
    """A version of the server's Stable API, declared with every command. Needs MongoDB 5.0.

    Args:
        version: A value of `ServerApiVersion`.
        strict: Whether the server rejects commands and options outside the version. None: the server's default.
        deprecation_errors: Whether the server rejects deprecated commands and options. None: the server's default.

    Raises:
        ValueError: The version is unknown.
        TypeError: `strict` or `deprecation_errors` is not a bool.
    """

    __slots__ = ("deprecation_errors", "strict", "version")

    def __init__(self, version: str, strict: bool | None = None, deprecation_errors: bool | None = None) -> None:
        if version != ServerApiVersion.V1:
            raise ValueError(f"version must be {ServerApiVersion.V1!r}, not {version!r}")
        for name, value in (("strict", strict), ("deprecation_errors", deprecation_errors)):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{name} must be True, False or None, not {value!r}")
        self.version: Final = version
        self.strict: Final = strict
        self.deprecation_errors: Final = deprecation_errors

    def _fields(self) -> tuple[str, bool | None, bool | None]:
        return self.version, self.strict, self.deprecation_errors

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ServerApi) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        version, strict, deprecation_errors = self._fields()
        return f"ServerApi({version!r}, strict={strict}, deprecation_errors={deprecation_errors})"


def as_server_api(value: Any) -> ServerApi:
    """Return `value`, which may be PyMongo's, as a ServerApi. Raises TypeError."""
    if isinstance(value, ServerApi):
        return value
    if not is_like(value, ServerApi):
        raise WrongType("a ServerApi")
    return ServerApi(value.version, value.strict, value.deprecation_errors)
