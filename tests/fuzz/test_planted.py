"""Bugs planted in the driver, each of which fuzzing its target finds."""

from __future__ import annotations

import hmac
from base64 import b64decode
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import libcst
import pytest

from motorlite._base import error_documents
from motorlite._connection.auth import aws, conversation, mechanisms, oidc, scram
from motorlite._gridfs import files
from motorlite._net import proxy
from motorlite._operations import bulk, change_stream, client_bulk
from motorlite._options import srv, table, uri
from motorlite._retry import classification, decision
from motorlite._topology import server_description, topology_description
from motorlite._wire import compression, frames, http, op_msg, replies, slices
from tests.fuzz import engines
from tests.fuzz import target as targets
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

# Inputs within which each bug is found.
MOST: Final = 20_000


class Bug(NamedTuple):
    """What is wrong: an attribute of the driver that has another value."""

    target: str
    place: Any
    name: str
    value: Any


def _whole_zlib(self: object, data: memoryview, size: int) -> bytes:
    import zlib

    return zlib.decompress(data)[:size]


def _first_of(reply: Any, name: str) -> Any:
    return reply.get(name)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _number(parent: Any, field: str, default: Any = None, *, least: int = 0) -> Any:
    return parent.get(field, default)


def _size_at(data: memoryview, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little", signed=True)


def _length(text: str, base: int) -> int:
    return int(text, base)


def _shown(reply: Any, command: Any, secrets: Any) -> Any:
    return dict(reply)


def _any_data(self: object, chunk: Any, number: int) -> Any:
    return chunk["data"]


def _done(mechanism: str, reply: Any) -> Any:
    return SimpleNamespace(is_done=True)


def _hint(error: Any) -> Any:
    return error.details.get("baseBackoffMS")


def _true(*_: Any) -> bool:
    return True


def _raw_texts(labels: Any) -> Any:
    return labels or ()


BUGS: Final = {
    "a frame is allocated as it is announced": Bug("frames", frames, "_GROWTH", 10**6),
    "a frame may have any length": Bug("frames", frames, "REPLY_HEADROOM", 2**31),
    "a section may have no length": Bug("message", op_msg, "_size_at", _size_at),
    "a reply with flags is usual": Bug("message", op_msg, "_REQUIRED_BITS", 0),
    "zlib expands without a limit": Bug("compressed-zlib", compression.Zlib, "decompress", _whole_zlib),
    "what follows the content is ignored": Bug("compressed-zstd", compression, "_check_whole", _nothing),
    "snappy may be shorter than it says": Bug("compressed-snappy", compression, "_snappy_size", len),
    "an IPv6 address has four bytes": Bug("socks", proxy, "_ADDRESS_SIZES", {1: 4, 4: 4}),
    "a length is what Python reads": Bug("http", http, "_length", _length),
    "a host may be anywhere": Bug("srv", srv, "domain", lambda _: "com"),
    "TXT records have all options": Bug("uri", uri, "_IN_TXT_RECORDS", tuple(table.BY_NAME)),
    "a host may have any name": Bug("uri", uri, "is_name", _true),
    "a replica set may have any size": Bug("hello", topology_description, "MAX_MEMBERS", 10**6),
    "a second primary is kept": Bug("hello", topology_description, "_depose", _nothing),
    "numbers of hello are not checked": Bug("hello", server_description, "hello_number", _number),
    "secrets are shown": Bug("sasl", conversation, "redacted", _shown),
    "the end of PLAIN is not checked": Bug("sasl", mechanisms, "SaslReply", _done),
    "the server proves nothing": Bug("scram", scram, "check_server_final", _nothing),
    "a salt is not checked": Bug("scram", scram, "_unbase64", b64decode),
    "a host may add a header": Bug("aws", aws, "is_dns_name", _true),
    "a nonce is not compared": Bug("aws", hmac, "compare_digest", _true),
    "a refused token is kept": Bug("oidc", oidc.TokenCache, "invalidate", _nothing),
    "an identity provider is not checked": Bug("oidc", oidc, "_idp_info", lambda payload: payload["x"]),
    "labels may be anything": Bug("errors", error_documents, "texts", _raw_texts),
    "a hint is not checked": Bug("errors", decision, "server_base_backoff", _hint),
    "an overload error is retried by itself": Bug("errors", classification, "RETRYABLE", "SystemOverloadedError"),
    "a namespace is not checked": Bug("cursors", replies, "is_namespace", _true),
    "a batch may have anything": Bug("cursors", replies, "documents", _first_of),
    "a slice loses a document": Bug("cursors", slices, "_decode_elements", lambda *_: []),
    "the index of an error is not checked": Bug("bulk", bulk, "check_batch", _nothing),
    "the index of a result is not checked": Bug("client-bulk", client_bulk, "number", _number),
    "results are lost": Bug("client-bulk", client_bulk.ClientBulkResult, "_take_result", _nothing),
    "a token is not a document": Bug("changes", change_stream, "document", _first_of),
    "the size of a chunk is not checked": Bug("gridfs", files.Layout, "data_of", _any_data),
    "a length may be anything": Bug("gridfs", files, "_whole_number", lambda value, _: value),
    "LibCST's errors are not caught": Bug("port", libcst, "ParserSyntaxError", KeyError),
}


@pytest.mark.parametrize("what", BUGS)
def test_a_planted_bug_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[what]
    monkeypatch.setattr(targets, "CPU_LIMIT", 1.0)
    monkeypatch.setattr(targets, "MEASURED", 16)
    monkeypatch.setattr(bug.place, bug.name, bug.value)
    outcome = engines.mutate(TARGETS[bug.target], MOST, seed=1)
    assert outcome.crash is not None, "not found"
    print(f"{what}: {outcome.inputs} inputs, {outcome.report[:80]}")
