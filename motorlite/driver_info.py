"""Pure: what a library that wraps the driver adds to the client metadata (handshake specification)."""

from __future__ import annotations

from typing import Any, NamedTuple

from motorlite._pymongo_objects import is_like
from motorlite.errors import ConfigurationError
from motorlite.values import is_encodable

__all__ = ["DriverInfo"]

_DELIMITER = "|"


class _Fields(NamedTuple):
    name: str
    version: str | None = None
    platform: str | None = None


class DriverInfo(_Fields):
    """Name, version and platform of a library on top of motorlite, for the server's log.

    Args:
        name: For example ``"my-odm"``.
        version: Its version.
        platform: What it runs on.

    Raises:
        TypeError: A field is not a string.
        ConfigurationError: A field contains ``|``, which separates the entries, or cannot be encoded as UTF-8.
    """

    __slots__ = ()

    def __new__(cls, name: str, version: str | None = None, platform: str | None = None) -> DriverInfo:
        for field, value in (("name", name), ("version", version), ("platform", platform)):
            if value is None and field != "name":
                continue
            if not isinstance(value, str):
                raise TypeError(f"DriverInfo {field} must be a string, not {value!r}")
            if not is_encodable(value):
                raise ConfigurationError(f"DriverInfo {field} cannot be encoded as UTF-8, got {value!r}")
            if _DELIMITER in value:
                raise ConfigurationError(f"DriverInfo {field} must not contain {_DELIMITER!r}, got {value!r}")
        return super().__new__(cls, name, version, platform)


def as_driver_info(value: Any) -> DriverInfo:
    """A DriverInfo, which may be PyMongo's.

    Raises:
        TypeError: It is none.
        ConfigurationError: A field cannot be used.
    """
    if isinstance(value, DriverInfo):
        return value
    if not is_like(value, DriverInfo):
        raise TypeError("allowed is a DriverInfo")
    return DriverInfo(value.name, value.version, value.platform)
