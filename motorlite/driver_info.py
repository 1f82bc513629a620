"""Pure: the client metadata of a library that wraps the driver (handshake specification)."""

from __future__ import annotations

from typing import Any, NamedTuple

from motorlite._base.arguments import WrongType, is_like
from motorlite._base.values import is_encodable
from motorlite.errors import InvalidOptionValue

__all__ = ["DriverInfo"]

_DELIMITER = "|"


class _Fields(NamedTuple):
    name: str
    version: str | None = None
    platform: str | None = None


class DriverInfo(_Fields):
    """Name, version and platform of a library on top of motorlite, for the server's log.

    Attributes:
        name: The library's name, for example ``"my-odm"``.
        version: The library's version.
        platform: The library's platform.

    Raises:
        TypeError: A field is not a string.
        InvalidOptionValue: A field contains ``|``, which separates the entries, or cannot be encoded as UTF-8.
    """

    __slots__ = ()

    def __new__(cls, name: str, version: str | None = None, platform: str | None = None) -> DriverInfo:
        for field, value in (("name", name), ("version", version), ("platform", platform)):
            if value is None and field != "name":
                continue
            if not isinstance(value, str):
                raise TypeError(f"DriverInfo {field} must be a string, not {value!r}")
            if not is_encodable(value):
                raise InvalidOptionValue(f"DriverInfo {field} cannot be encoded as UTF-8, got {value!r}")
            if _DELIMITER in value:
                raise InvalidOptionValue(f"DriverInfo {field} must not contain {_DELIMITER!r}, got {value!r}")
        return super().__new__(cls, name, version, platform)


def as_driver_info(value: Any) -> DriverInfo:
    """Return `value`, which may be PyMongo's, as a DriverInfo.

    Raises:
        TypeError: `value` is not a DriverInfo.
        InvalidOptionValue: A field is invalid.
    """
    if isinstance(value, DriverInfo):
        return value
    if not is_like(value, DriverInfo):
        raise WrongType("a DriverInfo")
    return DriverInfo(value.name, value.version, value.platform)
