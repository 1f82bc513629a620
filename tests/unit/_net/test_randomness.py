from __future__ import annotations

import uuid

from motorlite._net import host


def test_jitter() -> None:
    values = [host.jitter() for _ in range(200)]
    assert all(0 <= value < 1 for value in values)
    assert min(values) < 0.2
    assert max(values) > 0.8


def test_below() -> None:
    assert {host.below(3) for _ in range(200)} == {0, 1, 2}
    assert {host.below(1) for _ in range(10)} == {0}


def test_nonce() -> None:
    assert len(host.nonce()) == 32
    assert host.nonce() != host.nonce()


def test_session_id() -> None:
    first, second = host.session_id(), host.session_id()
    assert first != second
    assert first.subtype == 4
    assert uuid.UUID(bytes=bytes(first)).version == 4
