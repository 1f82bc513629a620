"""Server sessions and their pool, and what a session learns from replies."""

from __future__ import annotations

from itertools import count
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from motorlite._sessions.session import ServerSession, Session, SessionPool, newest_cluster_time

MINUTE = 60.0


def make_pool() -> SessionPool:
    numbers = count(1)
    return SessionPool(lambda: Binary(next(numbers).to_bytes(16, "big"), 4))


def number(session: ServerSession) -> int:
    return int.from_bytes(session.lsid["id"], "big")


def used(pool: SessionPool, now: float) -> ServerSession:
    session = pool.acquire(now, 30)
    session.last_use = now
    return session


def test_a_new_session() -> None:
    session = make_pool().acquire(5, 30)
    assert session.lsid == {"id": Binary((1).to_bytes(16, "big"), 4)}
    assert (session.transaction_number, session.last_use, session.is_dirty) == (0, 5, False)


def test_last_in_first_out() -> None:
    pool = make_pool()
    one, two, three = (used(pool, 0) for _ in range(3))
    for session in (two, one, three):
        pool.release(session, 1, 30)
    assert len(pool) == 3
    assert [pool.acquire(2, 30) for _ in range(3)] == [three, one, two]
    assert number(pool.acquire(2, 30)) == 4


@pytest.mark.parametrize(
    ("idle", "minutes", "is_young"),
    [
        (28.99, 30, True),
        (29, 30, False),
        (29.5, 30, False),
        (1000, 30, False),
        (0, 1, False),
        (0.9, 2, True),
        (1, 2, False),
        (1000, None, True),
    ],
)
def test_a_session_is_neither_used_nor_kept_in_its_last_minute(
    idle: float, minutes: int | None, is_young: bool
) -> None:
    pool = make_pool()
    session = used(pool, 0)
    pool.release(session, idle * MINUTE, minutes)
    assert len(pool) == is_young
    pool.drain()
    pool.release(session, 0, None)
    assert (pool.acquire(idle * MINUTE, minutes) is session) is is_young
    # Whatever was too old is gone.
    assert len(pool) == 0


def test_older_ones_leave_when_one_is_given_back() -> None:
    pool = make_pool()
    old, middle, young = used(pool, 0), used(pool, 10 * MINUTE), used(pool, 29 * MINUTE)
    pool.release(old, 10 * MINUTE, 30)
    pool.release(middle, 10 * MINUTE, 30)
    pool.release(young, 29 * MINUTE, 30)
    assert len(pool) == 2
    assert [pool.acquire(29 * MINUTE, 30) for _ in range(2)] == [young, middle]


def test_a_dirty_session_is_not_kept() -> None:
    pool = make_pool()
    session = used(pool, 0)
    session.is_dirty = True
    pool.release(session, 0, 30)
    pool.release(session, 0, None)
    assert len(pool) == 0


@pytest.mark.parametrize("now", [0, 100 * MINUTE])
def test_a_session_without_a_command_is_kept_as_long_as_any_other(now: float) -> None:
    pool = make_pool()
    session = pool.acquire(now, 30)
    pool.release(session, now + 28 * MINUTE, 30)
    assert pool.acquire(now + 28.99 * MINUTE, 30) is session
    pool.release(session, now + 29 * MINUTE, 30)
    assert len(pool) == 0


def test_drain_takes_all_out() -> None:
    pool = make_pool()
    one, two, unseen = used(pool, 0), used(pool, 0), pool.acquire(0, 30)
    for session in (one, unseen, two):
        pool.release(session, 0, None)
    assert pool.drain() == [one.lsid, unseen.lsid, two.lsid]
    assert len(pool) == 0
    assert pool.drain() == []


# --- what a session learns ---


def time(seconds: int) -> dict[str, Any]:
    return {"clusterTime": Timestamp(seconds, 1), "signature": {"keyId": seconds}}


def test_the_newest_cluster_time() -> None:
    assert newest_cluster_time(None, None) is None
    for one, other, newest in ((1, None, 1), (None, 1, 1), (1, 2, 2), (2, 1, 2)):
        found = newest_cluster_time(None if one is None else time(one), None if other is None else time(other))
        assert found == time(newest)
    known = time(1)
    assert newest_cluster_time(known, time(1)) is known


def test_advance() -> None:
    session = Session(is_implicit=False)
    session.advance({"ok": 1})
    assert (session.operation_time, session.cluster_time) == (None, None)
    session.advance({"operationTime": Timestamp(4, 1), "$clusterTime": time(5)})
    assert (session.operation_time, session.cluster_time) == (Timestamp(4, 1), time(5))
    session.advance({"operationTime": Timestamp(3, 1), "$clusterTime": time(4)})
    assert (session.operation_time, session.cluster_time) == (Timestamp(4, 1), time(5))
    session.advance({"operationTime": Timestamp(4, 2)})
    assert (session.operation_time, session.cluster_time) == (Timestamp(4, 2), time(5))


def _nested(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(levels):
        document = {"a": document}
    return document


@pytest.mark.parametrize(
    ("signature", "is_accepted"),
    [
        pytest.param(_nested(200), False, id="deep"),
        pytest.param(_nested(5000), False, id="too deep"),
        pytest.param({"hash": b"x" * 10_000, "keyId": 1}, False, id="long"),
        pytest.param({"hash": b"x", "keyId": [1] * 500}, False, id="array"),
        pytest.param({"hash": ["x" * 100] * 20, "keyId": 1}, False, id="another array"),
        pytest.param({"x" * 2000: 1}, False, id="name"),
        pytest.param({"hash": object()}, False, id="of a decoder"),
        pytest.param({"hash": b"x" * 20, "keyId": 2**63}, False, id="too great"),
        pytest.param({"hash": b"x" * 20, "keyId": 1, "more": [1] * 500}, False, id="a third field"),
        # Small ones of another shape.
        pytest.param(None, True, id="None"),
        pytest.param(5, True, id="5"),
        pytest.param({}, True, id="empty"),
        pytest.param({"hash": 5, "keyId": 1}, True, id="a hash of another type"),
        pytest.param({"hash": b"x" * 20, "keyId": "one"}, True, id="a key of another type"),
        pytest.param({"hash": b"x" * 20, "keyId": None}, True, id="no key"),
    ],
)
def test_a_cluster_time_that_no_command_could_carry_is_not_gossiped(signature: Any, is_accepted: bool) -> None:
    known = {"clusterTime": Timestamp(1, 1)}
    odd = {"clusterTime": Timestamp(2, 1), "signature": signature}
    assert newest_cluster_time(known, odd) is (odd if is_accepted else known)
    assert newest_cluster_time(None, odd) is (odd if is_accepted else None)
    usual = {"clusterTime": Timestamp(2, 1), "signature": {"hash": b"x" * 20, "keyId": Int64(7)}}
    assert newest_cluster_time(known, usual) is usual
    assert newest_cluster_time(known, {**usual, "more": "x" * 2000}) is known


def test_a_cluster_time_may_have_1024_bytes() -> None:
    for length, is_accepted in ((1024, True), (1025, False)):
        news = {"clusterTime": Timestamp(2, 1), "more": ""}
        news["more"] = "x" * (length - len(bson.encode(news)))
        assert len(bson.encode(news)) == length
        assert newest_cluster_time(None, news) is (news if is_accepted else None)


@pytest.mark.parametrize("key", [Int64(7), Int64(2**63 - 1), Int64(1 - 2**63)])
def test_a_cluster_time_of_the_usual_shape_is_not_encoded(key: Int64, monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost every reply has one."""
    monkeypatch.delattr(bson, "encode")
    usual = {"clusterTime": Timestamp(2, 1), "signature": {"hash": b"x" * 20, "keyId": key}}
    assert newest_cluster_time(None, usual) is usual
    assert newest_cluster_time(None, {**usual, "more": 1}) is None, "another one would be encoded"
