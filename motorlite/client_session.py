"""Pure: sessions, as returned by `AsyncMongoClient.start_session`."""

from __future__ import annotations

from motorlite._api.session import AsyncClientSession
from motorlite._api.transaction_blocks import BoundSession, TransactionContext
from motorlite._api.transaction_options import SessionOptions, TransactionOptions

__all__ = ["AsyncClientSession", "BoundSession", "SessionOptions", "TransactionContext", "TransactionOptions"]
