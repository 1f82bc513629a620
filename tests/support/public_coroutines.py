"""Every public coroutine, and a call of each."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from motorlite import gridfs
from motorlite.encryption import Algorithm, QueryType
from motorlite.encryption_options import RangeOpts
from tests.support.data_keys import RANDOM, client_encryption, encrypted_fields, encrypted_secret, key_id
from tests.support.public_calls import SECTIONS
from tests.support.public_names import public_classes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clients import Client

PIPELINE: Final[list[Any]] = [{"$addFields": {"x": 1}}]


class Subject:
    """A client, and what was made with it."""

    def __init__(self, client: Client, session: Any, grid_out: Any) -> None:
        self.client = client
        self.db = client.db
        self.coll = client.db.coll
        # In a transaction.
        self.session = session
        self.bucket = gridfs.AsyncGridFSBucket(client.db)
        self.fs = gridfs.AsyncGridFS(client.db)
        self.grid_out = grid_out

    @property
    def grid_in(self) -> gridfs.AsyncGridIn:
        return self.bucket.open_upload_stream("f", chunk_size_bytes=4)

    @property
    def unopened(self) -> gridfs.AsyncGridOut:
        return gridfs.AsyncGridOut(self.coll, 1)

    async def with_transaction(self) -> None:
        async def callback(session: Any) -> None:
            await self.coll.find_one({}, session=session)

        async with self.client.start_session() as session:
            await session.with_transaction(callback, timeoutMS=100)

    async def transaction_block(self) -> None:
        async with self.client.start_session() as session, session.start_transaction():
            await self.coll.find_one({}, session=session)


class Sink:
    def write(self, data: bytes) -> int:
        return len(data)


def public_coroutines() -> set[str]:
    """The names of all coroutine functions of public classes, and of properties that return coroutines."""
    found = set()
    for kind in set(public_classes().values()):
        for name in dir(kind):
            if name.startswith("_") and name not in ("__aenter__", "__aexit__", "__anext__"):
                continue
            member = inspect.getattr_static(kind, name)
            function = member.fget if isinstance(member, property) else member
            if inspect.iscoroutinefunction(function):
                found.add(f"{kind.__name__}.{name}")
    return found


def _documented() -> dict[str, Any]:
    """The calls that the page about retries lists; the first one of each method."""
    found: dict[str, Any] = {}
    for call in (call for calls in SECTIONS.values() for call in calls):
        found.setdefault(call.method, lambda subject, call=call: call.perform(subject.client))
    classes = ("AsyncCollection", "AsyncDatabase", "AsyncMongoClient")
    return {
        name: found[name] for name in sorted(public_coroutines() & found.keys()) if name.partition(".")[0] in classes
    }


async def awaited(value: Any) -> Any:
    return await value


CLIENT: Final[dict[str, Any]] = {
    "__aenter__": lambda s: s.client.__aenter__(),
    "aconnect": lambda s: s.client.aconnect(),
    "address": lambda s: awaited(s.client.address),
    "arbiters": lambda s: awaited(s.client.arbiters),
    "is_mongos": lambda s: awaited(s.client.is_mongos),
    "is_primary": lambda s: awaited(s.client.is_primary),
    "primary": lambda s: awaited(s.client.primary),
    "secondaries": lambda s: awaited(s.client.secondaries),
}
SESSION: Final[dict[str, Any]] = {
    "abort_transaction": lambda s: s.session.abort_transaction(timeoutMS=10),
    "commit_transaction": lambda s: s.session.commit_transaction(timeoutMS=10),
    "with_transaction": lambda s: s.with_transaction(),
}
CURSORS: Final[dict[str, Callable[[Subject], Any]]] = {
    "AsyncCursor": lambda s: s.coll.find(),
    "AsyncRawBatchCursor": lambda s: s.coll.find_raw_batches(),
    "AsyncCommandCursor": lambda s: s.coll.aggregate([]),
    "AsyncRawBatchCommandCursor": lambda s: s.coll.aggregate_raw_batches([]),
    "AsyncChangeStream": lambda s: s.coll.watch(PIPELINE),
    "AsyncGridOutCursor": lambda s: s.bucket.find({}),
}
# What cursors have in common, and what some of them have besides.
OF_CURSORS: Final[dict[str, Callable[[Any], Any]]] = {
    "__anext__": lambda c: c.__anext__(),
    "next": lambda c: c.next(),
    "to_list": lambda c: c.to_list(),
    "try_next": lambda c: c.try_next(),
    "distinct": lambda c: c.distinct("a"),
    "explain": lambda c: c.explain(),
}
BUCKET: Final[dict[str, Any]] = {
    "delete": lambda s: s.bucket.delete(1),
    "delete_by_name": lambda s: s.bucket.delete_by_name("f"),
    "download_to_stream": lambda s: s.bucket.download_to_stream(1, Sink()),
    "download_to_stream_by_name": lambda s: s.bucket.download_to_stream_by_name("f", Sink()),
    "drop": lambda s: s.bucket.drop(),
    "open_download_stream": lambda s: s.bucket.open_download_stream(1),
    "open_download_stream_by_name": lambda s: s.bucket.open_download_stream_by_name("f"),
    "rename": lambda s: s.bucket.rename(1, "g"),
    "rename_by_name": lambda s: s.bucket.rename_by_name("f", "g"),
    "upload_from_stream": lambda s: s.bucket.upload_from_stream("f", b"12345678"),
    "upload_from_stream_with_id": lambda s: s.bucket.upload_from_stream_with_id(1, "f", b"12345678"),
}
GRID_FS: Final[dict[str, Any]] = {
    "delete": lambda s: s.fs.delete(1),
    "exists": lambda s: s.fs.exists(1),
    "find_one": lambda s: s.fs.find_one(1),
    "get": lambda s: s.fs.get(1),
    "get_last_version": lambda s: s.fs.get_last_version("f"),
    "get_version": lambda s: s.fs.get_version("f"),
    "list": lambda s: s.fs.list(),
    "put": lambda s: s.fs.put(b"12345678"),
}


async def _set_and_close(stream: gridfs.AsyncGridIn) -> None:
    await stream.set("color", "red")
    await stream.close()


GRID_IN: Final[dict[str, Any]] = {
    "write": lambda s: s.grid_in.write(bytes(4004)),
    "writelines": lambda s: s.grid_in.writelines([bytes(4004)]),
    "close": lambda s: s.grid_in.close(),
    "set": lambda s: _set_and_close(s.grid_in),
}
GRID_OUT: Final[dict[str, Any]] = {
    "open": lambda s: s.unopened.open(),
    "__anext__": lambda s: s.grid_out.__anext__(),
    "read": lambda s: s.grid_out.read(),
    "readchunk": lambda s: s.grid_out.readchunk(),
    "readline": lambda s: s.grid_out.readline(),
    "readlines": lambda s: s.grid_out.readlines(),
    "to_list": lambda s: s.grid_out.to_list(),
}


async def _encrypted_expression(encryption: Any) -> None:
    await encryption.encrypt_expression(
        {"$and": [{"a": {"$gte": 6}}, {"a": {"$lte": 9}}]},
        Algorithm.RANGE,
        key_id(),
        query_type=QueryType.RANGE,
        contention_factor=1,
        range_opts=RangeOpts(sparsity=1, trim_factor=1, min=0, max=200),
    )


# They use a key vault on the same deployment, and a local master key.
ENCRYPTION: Final[dict[str, Callable[[Any, Subject], Any]]] = {
    "add_key_alt_name": lambda e, _: e.add_key_alt_name(key_id(), "b"),
    "create_data_key": lambda e, _: e.create_data_key("local"),
    "create_encrypted_collection": lambda e, s: e.create_encrypted_collection(s.db, "c", encrypted_fields(), "local"),
    "decrypt": lambda e, _: e.decrypt(encrypted_secret()),
    "delete_key": lambda e, _: e.delete_key(key_id()),
    "encrypt": lambda e, _: e.encrypt(1, RANDOM, key_id()),
    "encrypt_expression": lambda e, _: _encrypted_expression(e),
    "get_key": lambda e, _: e.get_key(key_id()),
    "get_key_by_alt_name": lambda e, _: e.get_key_by_alt_name("name"),
    "remove_key_alt_name": lambda e, _: e.remove_key_alt_name(key_id(), "name"),
    "rewrap_many_data_key": lambda e, _: e.rewrap_many_data_key({}),
}


def _with_encryption(call: Callable[[Any, Subject], Any]) -> Callable[[Subject], Any]:
    async def run(subject: Subject) -> None:
        async with client_encryption(subject.client) as encryption:
            await call(encryption, subject)

    return run


CALLS: Final[dict[str, Any]] = {
    **{f"AsyncClientEncryption.{name}": _with_encryption(call) for name, call in ENCRYPTION.items()},
    "AsyncDatabase.create_collection": lambda s: s.db.create_collection("a"),
    **{f"AsyncMongoClient.{name}": call for name, call in CLIENT.items()},
    **{f"AsyncClientSession.{name}": call for name, call in SESSION.items()},
    **{f"AsyncGridFSBucket.{name}": call for name, call in BUCKET.items()},
    **{f"AsyncGridFS.{name}": call for name, call in GRID_FS.items()},
    **{f"AsyncGridIn.{name}": call for name, call in GRID_IN.items()},
    **{f"AsyncGridOut.{name}": call for name, call in GRID_OUT.items()},
    "AsyncChangeStream.__aenter__": lambda s: s.coll.watch(PIPELINE).__aenter__(),
    "TransactionContext.__aexit__": lambda s: s.transaction_block(),
}
# Sends nothing, or frees what the server holds.
SILENT_OF_CURSORS: Final = {"__aenter__", "__aexit__", "close", "aclose", "rewind", "add_option"}


def _calls_of_cursor(kind: str, make: Callable[[Subject], Any]) -> dict[str, Any]:
    def call(method: Callable[[Any], Any]) -> Any:
        return lambda subject: method(make(subject))

    there = {name.partition(".")[2] for name in public_coroutines() if name.startswith(f"{kind}.")}
    return {f"{kind}.{name}": call(OF_CURSORS[name]) for name in sorted(there - SILENT_OF_CURSORS)}


CALLS.update({name: call for name, call in _documented().items() if name not in CALLS})
for _kind, _make in CURSORS.items():
    CALLS.update({name: call for name, call in _calls_of_cursor(_kind, _make).items() if name not in CALLS})
