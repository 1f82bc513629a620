"""Pure: the names of algorithms and kinds of queries, and the result of rewrapping data keys."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite.results import BulkWriteResult


class Algorithm(enum.StrEnum):
    """How a value is encrypted."""

    __module__ = "motorlite.encryption"

    AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic = "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic"
    """Equal values become equal ciphertexts, so that queries for equality find them."""
    AEAD_AES_256_CBC_HMAC_SHA_512_Random = "AEAD_AES_256_CBC_HMAC_SHA_512-Random"
    """Equal values become different ciphertexts, which no query finds."""
    INDEXED = "Indexed"
    """Queryable encryption with queries for equality."""
    UNINDEXED = "Unindexed"
    """Queryable encryption without queries."""
    RANGE = "Range"
    """Queryable encryption with queries for ranges."""
    STRING = "String"
    """Queryable encryption with queries for parts of text."""
    TEXTPREVIEW = "TextPreview"
    """The earlier name of `STRING`."""


class QueryType(enum.StrEnum):
    """What a query for an encrypted value asks for."""

    __module__ = "motorlite.encryption"

    EQUALITY = "equality"
    """The value itself."""
    RANGE = "range"
    """Values in a range."""
    PREFIX = "prefix"
    """Texts that begin like this (MongoDB 9.0)."""
    SUFFIX = "suffix"
    """Texts that end like this (MongoDB 9.0)."""
    SUBSTRING = "substring"
    """Texts that contain this (MongoDB 9.0)."""


class RewrapManyDataKeyResult:
    """The result of `AsyncClientEncryption.rewrap_many_data_key`."""

    __module__ = "motorlite.encryption"

    def __init__(self, bulk_write_result: BulkWriteResult | None = None) -> None:
        self._bulk_write_result = bulk_write_result

    @property
    def bulk_write_result(self) -> BulkWriteResult | None:
        """The result of replacing the keys in the key vault; None if no key matched."""
        return self._bulk_write_result

    def __repr__(self) -> str:
        return f"RewrapManyDataKeyResult({self._bulk_write_result!r})"
