"""Pure: sessions, as returned by `AsyncMongoClient.start_session`."""

from __future__ import annotations

from motorlite._api.session import AsyncClientSession, SessionOptions

__all__ = ["AsyncClientSession", "SessionOptions"]
