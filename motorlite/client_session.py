"""Pure: sessions, as returned by `AsyncMongoClient.start_session`."""

from __future__ import annotations

from motorlite._api.session import AsyncClientSession, BoundSession
from motorlite._api.transaction_options import SessionOptions, TransactionOptions
from motorlite._api.transactions import TransactionContext

__all__ = ["AsyncClientSession", "BoundSession", "SessionOptions", "TransactionContext", "TransactionOptions"]
