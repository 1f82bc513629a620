"""How long a late reply is worth waiting for, and what is looked for in it."""

from __future__ import annotations

from typing import Any

import pytest
from bson.int64 import Int64

from motorlite._execution.building import worth_waiting_until
from motorlite._operations.cursors import opened_by
from tests.support.fake_core import ADDRESS


@pytest.mark.parametrize(
    ("limit", "sent_at", "now", "until"),
    [(None, 10.0, 12.0, 13.0), (3000.0, 10.0, 10.5, 14.0), (500.0, 10.0, 20.0, 21.0)],
)
def test_the_window(limit: float | None, sent_at: float, now: float, until: float) -> None:
    assert worth_waiting_until(limit, sent_at, now) == until


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"ok": 1}, None),
        ({"ok": 0, "code": 50}, None),
        ({"cursor": {"id": Int64(7), "ns": "shop.goods.old"}}, ("shop", "goods.old", 7)),
        ({"cursor": {"id": 0, "ns": "shop.goods"}}, None),
        ({"cursor": {"id": 7}}, None),
        ({"cursor": {"id": 7, "ns": "shop"}}, None),
        ({"cursor": {"id": 7, "ns": ".goods"}}, None),
        ({"cursor": {"id": "7", "ns": "shop.goods"}}, None),
        ({"cursor": {"id": True, "ns": "shop.goods"}}, None),
        ({"cursor": {"id": 7.5, "ns": "shop.goods"}}, None),
        ({"cursor": {"id": 1e300, "ns": "shop.goods"}}, None),
        ({"cursor": {"id": 7, "ns": "shop.goods\ud800"}}, None),
        ({"cursor": [7]}, None),
    ],
)
def test_the_cursor(reply: dict[str, Any], expected: tuple[str, str, int] | None) -> None:
    found = opened_by(reply, ADDRESS)
    assert (None if found is None else (found.database, found.collection, found.cursor_id)) == expected
    assert found is None or (found.address, found.session, found.pin) == (ADDRESS, None, None)
