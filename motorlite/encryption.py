"""Pure: explicit encryption, and the management of data keys; docs/encryption.md describes them."""

from __future__ import annotations

from motorlite._encryption.explicit import AsyncClientEncryption
from motorlite._encryption.names import Algorithm, QueryType, RewrapManyDataKeyResult

__all__ = ["Algorithm", "AsyncClientEncryption", "QueryType", "RewrapManyDataKeyResult"]
