"""What a wrapping library says about itself is checked before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite.driver_info import DriverInfo
from motorlite.errors import InvalidOptionValue


def test_driver_info() -> None:
    info = DriverInfo("odm", platform="here")
    assert (info.name, info.version, info.platform) == ("odm", None, "here")
    assert info == DriverInfo("odm", None, "here")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": None}, TypeError, "name must be a string, not None"),
        ({"name": "odm", "version": 1}, TypeError, "version must be a string, not 1"),
        ({"name": "odm", "platform": "a|b"}, InvalidOptionValue, "platform must not contain"),
        ({"name": "odm\ud800"}, InvalidOptionValue, "name cannot be encoded as UTF-8"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DriverInfo(**arguments)
