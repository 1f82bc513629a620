"""What holds at the end of every prose test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._sessions.session import ServerSession, SessionPool

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def checked_out_sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ServerSession]]:
    """The server sessions that are in use; at the end of a test there is none (sessions, prose test 10)."""
    checked_out: list[ServerSession] = []
    acquire, release = SessionPool.acquire, SessionPool.release

    def acquire_and_note(pool: SessionPool, now: float, timeout_minutes: int | None) -> ServerSession:
        session = acquire(pool, now, timeout_minutes)
        checked_out.append(session)
        return session

    def release_and_note(pool: SessionPool, session: ServerSession, now: float, timeout_minutes: int | None) -> None:
        checked_out.remove(session)
        release(pool, session, now, timeout_minutes)

    monkeypatch.setattr(SessionPool, "acquire", acquire_and_note)
    monkeypatch.setattr(SessionPool, "release", release_and_note)
    yield checked_out
    assert not checked_out
