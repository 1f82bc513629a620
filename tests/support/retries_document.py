"""Generates docs/retries.md from the operations' declarations: ``python -m tests.support.retries_document``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from bson.dbref import DBRef

from motorlite import IndexModel, InsertOne, OverloadRetry, SearchIndexModel, UpdateMany, UpdateOne
from motorlite._operations.contract import Kind, TimeLimit
from motorlite._retry.backoff import CONTROLLED_BACKOFF
from motorlite.errors import AutoReconnect
from motorlite.write_concern import WriteConcern
from tests.support.fake_core import batch, fake_client, next_batch
from tests.support.specification_codes import READ_CODES, WRITE_CODES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from motorlite import AsyncMongoClient
    from tests.support.fake_core import Sent

FILE = Path(__file__).resolve().parents[2] / "docs" / "retries.md"

_CURSOR = batch([{"_id": 1}], 7)
_UNACKNOWLEDGED = WriteConcern(0)


class Call(NamedTuple):
    """A public API call: its text, and a function that performs it on a client with scripted replies."""

    text: str
    perform: Callable[[AsyncMongoClient], Awaitable[Any]]
    replies: tuple[Any, ...] = ()
    # The method that it exercises, such as "AsyncCollection.find".
    method: str = ""


def _collection(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("collection.")
    return Call(text, lambda client: perform(client.app.things), replies, f"AsyncCollection.{name}")


def _database(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("database.")
    return Call(text, lambda client: perform(client.app), replies, f"AsyncDatabase.{name}")


def _client(text: str, perform: Callable[[AsyncMongoClient], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("client.")
    return Call(text, perform, replies, f"AsyncMongoClient.{name}")


def _unopened(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on an unopened cursor from find()."""
    name = text.partition("(")[0].removeprefix("cursor.")
    return Call(text, lambda client: perform(client.app.things.find()), replies, f"AsyncCursor.{name}")


def _cursor(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a cursor from find() after its first batch was read."""
    name = text.partition("(")[0].removeprefix("cursor.")

    async def on_cursor(client: AsyncMongoClient) -> None:
        cursor = client.app.things.find()
        await cursor.next()
        await perform(cursor)

    return Call(text, on_cursor, (_CURSOR, *replies), f"AsyncCursor.{name}")


def _command_cursor(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a cursor from aggregate() after its first batch was read."""
    name = text.partition("(")[0].removeprefix("command_cursor.")

    async def on_cursor(client: AsyncMongoClient) -> None:
        cursor = await client.app.things.aggregate([])
        await cursor.next()
        await perform(cursor)

    return Call(text, on_cursor, (_CURSOR, *replies), f"AsyncCommandCursor.{name}")


def _stream(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a change stream after its first batch was read."""
    name = text.partition("(")[0].removeprefix("stream.")

    async def on_stream(client: AsyncMongoClient) -> None:
        stream = await client.app.things.watch()
        await stream.next()
        await perform(stream)

    return Call(text, on_stream, (_CURSOR, *replies), f"AsyncChangeStream.{name}")


def _session(text: str, perform: Callable[[Any], Awaitable[Any]]) -> Call:
    """A call on a session with a transaction in progress."""
    name = text.partition("(")[0].removeprefix("session.")

    async def in_transaction(client: AsyncMongoClient) -> None:
        async with client.start_session() as session:
            if name != "with_transaction":
                session.start_transaction()
                await client.app.things.insert_one({}, session=session)
            await perform(session)

    return Call(text, in_transaction, (), f"AsyncClientSession.{name}")


_CHANGE = {"$set": {"a": 1}}
_EMPTY = batch([])
_LOST = AutoReconnect("lost")
_CREATED = {"ok": 1, "indexesCreated": [{"id": "1", "name": "default"}]}

READS: tuple[Call, ...] = (
    _collection("collection.find(...)", lambda c: c.find().to_list(), _EMPTY),
    _collection("collection.find_raw_batches(...)", lambda c: c.find_raw_batches().to_list(), _EMPTY),
    _collection("collection.find_one(...)", lambda c: c.find_one(), _EMPTY),
    _collection("collection.aggregate([...])", lambda c: c.aggregate([]), _EMPTY),
    _collection("collection.aggregate_raw_batches([...])", lambda c: c.aggregate_raw_batches([]), _EMPTY),
    _collection("collection.watch(...)", lambda c: c.watch(), _EMPTY),
    _collection("collection.distinct(...)", lambda c: c.distinct("a"), {"ok": 1, "values": []}),
    _collection("collection.count_documents(...)", lambda c: c.count_documents({}), _EMPTY),
    _collection("collection.estimated_document_count()", lambda c: c.estimated_document_count(), {"ok": 1, "n": 0}),
    _collection("collection.list_indexes()", lambda c: c.list_indexes().to_list(), _EMPTY),
    _collection("collection.list_search_indexes()", lambda c: c.list_search_indexes(), _EMPTY),
    _collection("collection.index_information()", lambda c: c.index_information(), _EMPTY),
    _collection("collection.options()", lambda c: c.options(), _EMPTY),
    _database("database.aggregate([...])", lambda d: d.aggregate([{"$currentOp": {}}]), _EMPTY),
    _database("database.watch(...)", lambda d: d.watch(), _EMPTY),
    _database("database.list_collections()", lambda d: d.list_collections(), _EMPTY),
    _database("database.list_collection_names()", lambda d: d.list_collection_names(), _EMPTY),
    _database("database.dereference(...)", lambda d: d.dereference(DBRef("things", 1)), _EMPTY),
    _client("client.watch(...)", lambda c: c.watch(), _EMPTY),
    _client("client.list_databases()", lambda c: c.list_databases(), {"ok": 1, "databases": []}),
    _client("client.list_database_names()", lambda c: c.list_database_names(), {"ok": 1, "databases": []}),
    _unopened("cursor.distinct(...)", lambda c: c.distinct("a"), {"ok": 1, "values": []}),
)
CURSORS: tuple[Call, ...] = (
    _cursor("cursor.next()", lambda c: c.next(), next_batch([{}])),
    _cursor("cursor.to_list()", lambda c: c.to_list(), next_batch([])),
    _cursor("cursor.batches()", lambda c: anext(c.batches()), next_batch([{}])),
    _cursor("cursor.close()", lambda c: c.close()),
    _cursor("cursor.rewind()", lambda c: c.rewind()),
    _command_cursor("command_cursor.next()", lambda c: c.next(), next_batch([{}])),
    _command_cursor("command_cursor.try_next()", lambda c: c.try_next(), next_batch([{}])),
    _command_cursor("command_cursor.to_list()", lambda c: c.to_list(), next_batch([])),
    _command_cursor("command_cursor.batches()", lambda c: anext(c.batches()), next_batch([{}])),
    _command_cursor("command_cursor.close()", lambda c: c.close()),
    _stream("stream.next()", lambda s: s.next(), next_batch([{"_id": {}}])),
    _stream("stream.next() after a failure", lambda s: s.next(), _LOST, batch([{"_id": {}}])),
    _stream("stream.try_next()", lambda s: s.try_next(), next_batch([])),
    _stream("stream.try_next() after a failure", lambda s: s.try_next(), _LOST, _EMPTY),
    _stream("stream.to_list()", lambda s: s.to_list(), next_batch([])),
    _stream("stream.to_list() after a failure", lambda s: s.to_list(), _LOST, _EMPTY),
    _stream("stream.close()", lambda s: s.close()),
)
WRITES: tuple[Call, ...] = (
    _collection("collection.insert_one(...)", lambda c: c.insert_one({})),
    _collection("collection.insert_many([...])", lambda c: c.insert_many([{}]), {"ok": 1, "n": 1}),
    _collection("collection.update_one(...)", lambda c: c.update_one({}, _CHANGE), {"ok": 1, "n": 1}),
    _collection("collection.replace_one(...)", lambda c: c.replace_one({}, {}), {"ok": 1, "n": 1}),
    _collection("collection.delete_one(...)", lambda c: c.delete_one({}), {"ok": 1, "n": 1}),
    _collection("collection.update_many(...)", lambda c: c.update_many({}, _CHANGE), {"ok": 1, "n": 1}),
    _collection("collection.delete_many(...)", lambda c: c.delete_many({}), {"ok": 1, "n": 1}),
    _collection("collection.find_one_and_update(...)", lambda c: c.find_one_and_update({}, _CHANGE)),
    _collection("collection.find_one_and_replace(...)", lambda c: c.find_one_and_replace({}, {})),
    _collection("collection.find_one_and_delete(...)", lambda c: c.find_one_and_delete({})),
    _collection(
        "collection.bulk_write([InsertOne(...), UpdateOne(...)])",
        lambda c: c.bulk_write([InsertOne({}), UpdateOne({}, _CHANGE)]),
        {"ok": 1, "n": 1},
        {"ok": 1, "n": 1, "nModified": 1},
    ),
    _collection(
        "collection.bulk_write([UpdateMany(...)])",
        lambda c: c.bulk_write([UpdateMany({}, _CHANGE)]),
        {"ok": 1, "n": 1, "nModified": 1},
    ),
    _client(
        "client.bulk_write([InsertOne(...), UpdateOne(...)])",
        lambda c: c.bulk_write([InsertOne({}, "app.things"), UpdateOne({}, _CHANGE, namespace="app.others")]),
        {"ok": 1, "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}},
    ),
    _client(
        "client.bulk_write([UpdateMany(...)])",
        lambda c: c.bulk_write([UpdateMany({}, _CHANGE, namespace="app.things")]),
        {"ok": 1, "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}},
    ),
    _collection(
        "collection.insert_one(...) with w=0",
        lambda c: c.with_options(write_concern=_UNACKNOWLEDGED).insert_one({}),
    ),
    _collection("collection.aggregate([..., {$out: ...}])", lambda c: c.aggregate([{"$out": "x"}]), _EMPTY),
)
ADMINISTRATION: tuple[Call, ...] = (
    _collection("collection.create_index(...)", lambda c: c.create_index("a")),
    _collection("collection.create_indexes([...])", lambda c: c.create_indexes([IndexModel("a")])),
    _collection("collection.drop_index(...)", lambda c: c.drop_index("a")),
    _collection("collection.drop_indexes()", lambda c: c.drop_indexes()),
    _collection("collection.create_search_index(...)", lambda c: c.create_search_index({"definition": {}}), _CREATED),
    _collection(
        "collection.create_search_indexes([...])",
        lambda c: c.create_search_indexes([SearchIndexModel({})]),
        _CREATED,
    ),
    _collection("collection.update_search_index(...)", lambda c: c.update_search_index("a", {})),
    _collection("collection.drop_search_index(...)", lambda c: c.drop_search_index("a")),
    _collection("collection.drop()", lambda c: c.drop()),
    _collection("collection.rename(...)", lambda c: c.rename("x")),
    _database("database.create_collection(...)", lambda d: d.create_collection("x", check_exists=False)),
    _database("database.drop_collection(...)", lambda d: d.drop_collection("x")),
    _client("client.drop_database(...)", lambda c: c.drop_database("x")),
)
TRANSACTIONS: tuple[Call, ...] = (
    _session("session.commit_transaction()", lambda s: s.commit_transaction()),
    _session("session.abort_transaction()", lambda s: s.abort_transaction()),
    _session("session.end_session()", lambda s: s.end_session()),
    _session(
        "session.with_transaction(...)",
        lambda s: s.with_transaction(lambda s: s.client.app.things.insert_one({}, session=s)),
    ),
)
COMMANDS: tuple[Call, ...] = (
    _database("database.command(...)", lambda d: d.command("ping")),
    _database("database.cursor_command(...)", lambda d: d.cursor_command("find", "things"), _EMPTY),
    _database(
        "database.validate_collection(...)",
        lambda d: d.validate_collection("x"),
        {"ok": 1, "valid": True},
    ),
    _client("client.server_info()", lambda c: c.server_info()),
    _unopened("cursor.explain()", lambda c: c.explain()),
)
SECTIONS = {
    "Reads": READS,
    "Cursors": CURSORS,
    "Writes": WRITES,
    "Administration": ADMINISTRATION,
    "Transactions": TRANSACTIONS,
    "Commands": COMMANDS,
}
# Methods whose commands do not fit into the tables.
ELSEWHERE = {
    "AsyncMongoClient.close": "sends endSessions once, on a best-effort basis: its retries do not matter",
    "AsyncMongoClient.aclose": "the same as close",
    "AsyncCursor.aclose": "the same as close",
    "AsyncCommandCursor.aclose": "the same as close",
    "AsyncChangeStream.aclose": "the same as close",
}

_LADDER = ", ".join(f"{1000 * seconds:g}" for seconds in CONTROLLED_BACKOFF[:-1])


def _codes() -> str:
    lines = ["| code | name | reads | writes |", "| ---: | --- | --- | --- |"]
    for code, name in sorted(READ_CODES.items()):
        lines.append(f"| {code} | {name} | yes | {'yes' if code in WRITE_CODES else 'no'} |")
    return "\n".join(lines)


_POLICY = OverloadRetry()
_REVISION = OverloadRetry.revision_2026_07()
_OPTION = {Kind.READ: "retryReads", Kind.WRITE: "retryWrites", Kind.COMMAND: "retryReads and retryWrites"}
_HEAD = ("call", "command", "after overload errors, if on", "after network errors and failovers", "deadline sent")

_TEXT = f"""\
# What is retried, and when

One retry loop makes every retry. This page is generated from the operations' declarations
(`python -m tests.support.retries_document`), and a test checks that it is current. [What happens under
overload](overload.md) explains the rules with pictures.

- **Overload errors** carry the labels `SystemOverloadedError` and `RetryableError`. Every command is retried after
  them, at most {_POLICY.max_retries} times, while the deadline and the client's retry budget (a bucket of
  {_POLICY.token_capacity:g} tokens) last. Each of these retries takes a token and waits for a random part of 100 ms,
  200 ms, 400 ms ... (at most 10 s). Turning off the option in the third column of the tables below turns them off.
  `maxAdaptiveRetries`, `retry_budget` and `enableOverloadRetargeting` change the rest;
  `OverloadRetry.revision_2026_07()` means {_REVISION.max_retries} retries and no budget.
- **`RetryableError` alone** also permits a retry of every command, without a backoff and for one token.
- After **network errors and failovers** (a lost connection, a primary that stepped down; all [codes](#the-codes)),
  reads are retried once, immediately and without a token. So are writes that a replica set recognises by their
  transaction number. With `timeoutMS`, [further retries](#further-ordinary-retries) follow while time and tokens last.
- In the descriptions of methods, **as a retryable read** and **as a retryable write** mean retries after overload
  errors, and after network errors and failovers; **overload errors only** means no others.
- **The limit of {_POLICY.max_retries}** covers all retries of an operation, even with `timeoutMS`, once the operation
  has met an overload error or a label has permitted one of its retries.
- **Deadline sent**: whether the server receives what remains of `timeoutMS`, as `maxTimeMS`. If it does not, only the
  client enforces the limit.
- **An application's retry strategy** may add retries, or decide in place of these rules
  ([Retry strategies and budgets](retry-strategies.md)).
- **Reauthentication** (code 391): the driver authenticates the connection again and repeats the command, whatever the
  command and the options. If the server answers 391 on that connection again, the operation fails, as the
  authentication specification requires.
- No other error is retried.

## Which rule decides

The *ordinary rule* is the one for network errors and failovers. The fourth column of the tables below shows where it
applies.

| the error has the labels | retried by | backoff | token |
| --- | --- | --- | --- |
| `SystemOverloadedError` and `RetryableError` | its labels | yes | yes |
| `SystemOverloadedError` alone | nothing, whatever its code | | |
| `RetryableError` alone | its label, else the ordinary rule | no | by the label |
| neither | the ordinary rule | only for further retries | only for further retries |

The driver checks, in this order, whether a rule permits the retry, its option is on, attempts are left, the backoff
ends before the deadline, the client stays open, and a token is available. The first check that fails becomes the
error's `retry_refusal`. A label never makes an error less retryable than its code does: when the label has no attempt
or no token left, the ordinary rule decides, within its own limit.

An overload error has no such fallback: its retry needs a backoff, a token and one of `maxAdaptiveRetries` attempts,
even where the ordinary rule applies. **A connection that is refused, or closed before the server replies to hello, is
an overload error.** So `maxAdaptiveRetries=0` turns off that retry too, for reads and writes alike: the client cannot
tell a server that is down from an overloaded one.

**A backoff ends early** when another server becomes suitable, if the operation got no connection or its error is not
an overload error: the first server may be dead, and a failover should not cost seconds. After an overload error from a
server, the backoff runs in full.

**A cancelled backoff** returns its token, because the retry was never sent; so does one that ends with
`asyncio.timeout`, which the driver cannot see. A retry that is cancelled later has used its token. Both count as
retries in `client.stats()`.

## Further ordinary retries

The specification of `timeoutMS` asks for retries until the time limit. Without a pause, a server that answers "host
unreachable" within a millisecond would get a thousand attempts a second from every operation. So only the first
ordinary retry of an operation is immediate and free. Every further one

- waits for a random part of {_LADDER} ms, and then of a second each time. A new primary, or another
  server that becomes suitable, ends the wait. If the wait would outlast the deadline, the operation fails at once with
  the error of its last attempt, and `error.timeout` is true;
- takes a token from the retry budget, which all operations of the client share. Without a token, the operation fails
  with the error of its last attempt, and `error.retry_refusal` is `"tokens"`. An operation therefore sends at most two
  commands more than there are tokens.

The same holds without `timeoutMS` where an operation may have more than one ordinary retry: after an overload error,
and when `with_transaction` repeats a commit whose result is unknown. With `retryBudget=false`, only the waits limit
these retries.

A further retry that succeeds returns 1.1 tokens, and one that fails with an error that is not retried returns 1. One
that fails and may be followed by another returns none: otherwise a server that keeps failing would refill the budget.

## The codes

The ordinary rule retries network errors (a lost or refused connection, a cleared pool, a socket timeout), also while a
connection is being established, and these codes of the server:

{_codes()}

Writes are retried if the error has the label `RetryableWriteError`. Servers set it since 4.4; for older ones, the
driver adds it to these codes. Both columns are those of the retryable reads and retryable writes specifications. A
[strategy](retry-strategies.md#codes-of-your-own) may name more codes.

## Exceptions to the ordinary rule

The ordinary rule does not apply to:

- `getMore`, because a batch could be lost, and `killCursors`, because the server closes an abandoned cursor by itself.
  A change stream resumes instead ([Change streams](change-streams.md));
- `database.command(...)` and `database.cursor_command(...)`, even for reads, because the driver does not inspect the
  command. **`mapReduce`** has no method of its own, so it is sent this way and never retried after a network error or a
  failover;
- `explain`, `validate_collection` and `server_info`: the retryable reads specification does not list their commands;
- `update_many`, `delete_many` and bulk writes with `UpdateMany` or `DeleteMany`, which may affect several documents;
- administration, and aggregations with `$out` or `$merge`;
- writes with `w=0`: they have no reply;
- operations in a transaction: the server may or may not have executed them, so the whole transaction has to be
  repeated ([Transactions](transactions.md)). Its commit and its abort are retried, even with `retryWrites=False`.

All of these are retried after overload errors; a write with `w=0` only if no connection could be established, so that
nothing was sent.

A client that is closing retries nothing, so it sends `endSessions` once; the server ends the sessions that it missed.
"""


async def sent_by(call: Call) -> list[Sent]:
    """Operations that a call passes to the executor; for cursor methods, without the one that opened the cursor."""
    client, core = fake_client()
    core.reply(*call.replies)
    await call.perform(client)
    await core.run_spawned()
    if call in TRANSACTIONS:
        return [sent for sent in core.executor.sent if sent.operation.ends is not None]
    return core.executor.sent[1:] if call.replies[:1] == (_CURSOR,) else core.executor.sent


def row(call: Call, sent: Sent) -> tuple[str, ...]:
    """One line of a table."""
    operation = sent.operation
    ordinary = "never"
    if operation.is_retryable and operation.is_acknowledged and operation.kind is not Kind.COMMAND:
        ordinary = f"once ({_OPTION[operation.kind]})"
    overload = _OPTION[operation.kind] + ("" if operation.is_acknowledged else ", before it is sent")
    if operation.ends is not None:
        ordinary, overload = "once (no option)", "no option"
    has_limit = "yes" if operation.time_limit in (TimeLimit.SEND, TimeLimit.DEADLINE) else "no"
    return (f"`{call.text}`", f"`{sent.name}`", overload, ordinary, has_limit)


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [_HEAD, tuple("---" for _ in _HEAD), *dict.fromkeys(rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


async def document() -> str:
    """The whole page."""
    lines = [_TEXT]
    for title, calls in SECTIONS.items():
        rows = [row(call, sent) for call in calls for sent in await sent_by(call)]
        lines += [f"## {title}", "", *_table(rows), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(anyio.run(document), encoding="utf-8")
