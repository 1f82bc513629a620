"""Pure: a client's configuration, as `AsyncMongoClient.options` returns it."""

from __future__ import annotations

from motorlite._options.credentials import Credentials
from motorlite._options.keywords import ClientKeywords
from motorlite._options.options import ClientOptions
from motorlite._options.parts import SRV, PoolOptions, ProxyOptions, TLSOptions
from motorlite._options.tracing import TracingOptions

__all__ = [
    "SRV",
    "ClientKeywords",
    "ClientOptions",
    "Credentials",
    "PoolOptions",
    "ProxyOptions",
    "TLSOptions",
    "TracingOptions",
]
