from __future__ import annotations

import pytest

from motorlite._base.wire_versions import release
from motorlite._operations.common import check_needs
from motorlite.errors import ConfigurationError
from tests.support.servers import V4_4, V5_0, server


@pytest.mark.parametrize(
    ("wire_version", "expected"),
    [(-1, "older than 2.4"), (7, "4.0"), (8, "4.2"), (9, "4.4"), (12, "4.4"), (13, "5.0"), (17, "6.0"), (99, "8.0")],
)
def test_release(wire_version: int, expected: str) -> None:
    assert release(wire_version) == expected


def test_needs() -> None:
    check_needs((("a", 9), ("b", 13)), V5_0)
    with pytest.raises(ConfigurationError) as caught:
        check_needs((("a", 9), ("b", 13)), V4_4)
    assert str(caught.value) == (
        "b needs MongoDB 5.0 (wire version 13), but db1.test:27017 is MongoDB 4.4 (wire version 9)"
    )
    check_needs((), server(0))
