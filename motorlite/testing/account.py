"""Pure: judges what a deployment holds after a workload by what the workload's journal says that it promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from motorlite.testing.findings import Finding
from motorlite.testing.journal import Key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["FinalState", "Finding", "Key", "StoredChunk", "StoredFile"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A document of ``fs.files``.

    Attributes:
        id: Its `_id`.
        length: Bytes, as the document says.
        chunk_size: Bytes in each chunk but the last, as the document says.
        digest: The SHA-256 of its chunks' data in the order of their numbers, hexadecimal.
    """

    id: Key
    length: int
    chunk_size: int
    digest: str


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A document of ``fs.chunks``.

    Attributes:
        file: The `_id` of its file.
        number: Its `n`.
        length: Bytes of its data.
    """

    file: Key
    number: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """What the deployment holds when the workload has ended and everything works again.

    Read it from the primary with majority read concern. The field `documents` has the collections of the operations
    ``transfer`` (``transfers``), ``insert`` and ``bulk``.

    Attributes:
        documents: The documents of each collection, `_id` included.
        files: All documents of ``fs.files``.
        chunks: All documents of ``fs.chunks``.
        balances: The balance of each account.
        counters: The value of each counter.
        registers: The value of each register that exists.
        lists: The values in each list that exists.
    """

    documents: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()
    chunks: Sequence[StoredChunk] = ()
    balances: Mapping[Key, int] = field(default_factory=dict)
    counters: Mapping[Key, int] = field(default_factory=dict)
    registers: Mapping[Key, Any] = field(default_factory=dict)
    lists: Mapping[Key, Sequence[int]] = field(default_factory=dict)
