"""Bulk writes beside a list of writes: how they are split into commands, and what the replies add up to."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

import bson
import pytest
from bson.errors import InvalidDocument
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from motorlite import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, WriteConcern
from motorlite._api import client_bulk as client_api
from motorlite._api.collection import bulk as collection_api
from motorlite._api.collection import documents
from motorlite._base.values import ServerFacts
from motorlite._client.leftovers import give_back
from motorlite._operations import bulk, client_bulk, slices
from motorlite._operations.contract import Opened
from motorlite._operations.statements import statement_of
from motorlite._sessions.session import ServerSession
from motorlite._wire import op_msg
from motorlite.errors import BulkWriteError, ClientBulkWriteException, DocumentTooLarge, PyMongoError
from motorlite.results import InsertManyResult
from tests.support.fake_core import ADDRESS, FakeCore, FakeExecutor, fake_client
from tests.support.machine_bugs import cases, find
from tests.support.operations import network_error
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterator

    from motorlite._operations.contract import Call, Command, CursorReply, Operation
    from motorlite._operations.cursors import LostCursor
    from motorlite._sessions.session import Session
    from tests.support.planting import Bug

CURSOR: Final = 7
# What a server accepts beside a document, and what the driver adds to a command at most.
ALLOWANCE: Final = 16 * 1024
# What a session and a cluster time take.
ROOM: Final = 500
KINDS: Final = ("insert", "update", "delete")
MODELS: Final[dict[str, Any]] = {
    "insert": lambda number, text, _: InsertOne({"n": number, "s": text}),
    "insert with _id": lambda number, text, _: InsertOne({"n": number, "_id": number, "s": text}),
    "update": lambda number, text, is_upsert: UpdateOne({"n": number}, {"$set": {"s": text}}, upsert=is_upsert),
    "replace": lambda number, text, is_upsert: ReplaceOne({"n": number}, {"s": text}, upsert=is_upsert),
    "update many": lambda number, text, is_upsert: UpdateMany({"n": number}, {"$set": {"s": text}}, upsert=is_upsert),
    "delete": lambda number, text, _: DeleteOne({"n": number, "s": text}),
    "delete many": lambda number, text, _: DeleteMany({"n": number, "s": text}),
}
# Limits as small as this make splits frequent. The driver's own are made as small.
SMALL: Final = {
    (slices, "_WORK"): 4096,
    (slices, "_LARGEST"): 3072,
    **{(module, "ITEMS"): 3 for module in (bulk, client_bulk, collection_api, client_api, documents)},
    (bulk, "MAX_SIZE"): 20_000,
    (documents, "MAX_SIZE"): 20_000,
    (bulk, "MAX_STATEMENTS"): 5,
    (client_bulk, "_MAX_STATEMENTS"): 5,
    (client_bulk, "_MAX_SIZE"): 30_000,
}


class Write(NamedTuple):
    """One write of the caller."""

    # Among all writes of the sequence; the server finds it in the statement.
    number: int
    name: str
    # "works", "fails", "upserts", or "unencodable".
    fate: str
    collection: str
    model: Any

    @property
    def kind(self) -> str:
        return {"replace": "update"}.get(self.name, self.name.partition(" ")[0])

    @property
    def is_multi(self) -> bool:
        return self.name.endswith("many")

    @property
    def document(self) -> dict[str, Any]:
        """What an insert inserts."""
        found: dict[str, Any] = self.model.document
        return found


class Limits(NamedTuple):
    """Those of a server's hello."""

    writes: int
    message: int
    document: int

    @property
    def facts(self) -> ServerFacts:
        return ServerFacts(
            ADDRESS,
            max_wire_version=25,
            session_timeout_minutes=30,
            max_write_batch_size=self.writes,
            max_message_size=self.message,
            max_bson_object_size=self.document,
        )


class Sent(NamedTuple):
    """A command that the server received, with the writes in it, and its outcome."""

    writes: list[Write]
    limits: Limits
    # Bytes of the message, and of the statements.
    size: int
    payload: int
    # The writes that were executed, and those among them that failed.
    done: list[Write]
    failed: list[Write]
    is_acknowledged: bool
    # Whether the driver knows the outcome.
    is_known: bool


class Pause:
    """Where a call waits until it is cancelled."""

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Server(FakeExecutor):
    """Executes the commands of one bulk write."""

    def __init__(self, writes: list[Write], limits: list[Limits], faults: list[str], chunk: int) -> None:
        super().__init__()
        self._now = lambda: 0.0
        self.by_number = {write.number: write for write in writes}
        self.limits = limits
        # What happens to each command.
        self.faults = faults
        # Results in a batch of the cursor of a client's bulk write.
        self.chunk = chunk
        self.received: list[Sent] = []
        # The commands with a write concern error, counted from 1.
        self.concerns: list[int] = []
        # The results that a client's bulk write has read.
        self.delivered: list[tuple[Write, dict[str, Any]]] = []
        # What was wrong with a command. The driver takes any exception for the end of the bulk write.
        self.wrong: AssertionError | None = None
        # Why there must be no further command.
        self.end = ""
        self.results: list[dict[str, Any]] = []
        self.cursor_is_open = False
        self.sessions: set[Session] = set()
        self.operation_ids: set[int | None] = set()

    async def execute(self, operation: Operation[Any], call: Call, *, opens: bool = False) -> Any:
        with self.watched():
            reply = await self.perform(operation, call)
        return operation.unacknowledged() if reply is None else operation.parse(reply)

    async def open(self, operation: Operation[CursorReply], call: Call) -> Opened:
        with self.watched():
            reply = await self.perform(operation, call)
        assert reply is not None
        return Opened(operation.parse(reply), ADDRESS, None, None)

    @contextmanager
    def watched(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self.wrong = self.wrong or error
            raise

    def next_limits(self) -> Limits:
        """A failover may change them between two commands."""
        return self.limits[len(self.received) % len(self.limits)]

    async def perform(self, operation: Operation[Any], call: Call) -> dict[str, Any] | None:
        if operation.name == "killCursors":
            self.kill()
            return {"ok": 1}
        if operation.name == "getMore":
            return await self.get_more()
        assert not self.end, f"goes on after {self.end}"
        assert operation.is_continuation is bool(self.received)
        fault = self.faults.pop(0) if self.faults else "works"
        limits = self.next_limits()
        command = operation.command(limits.facts)
        if fault == "retried":
            # The first attempt did not get through, and the next server has other limits.
            again = operation.command(Limits(1, 30_000, 1_000).facts)
            assert again.sequences == command.sequences, "a retry sends something else"
        self.check_call(operation, call)
        sent = self.receive(operation, command, limits)
        assert operation.is_retryable is (sent.is_acknowledged and not any(write.is_multi for write in sent.writes))
        if fault in ("lost", "cancelled"):
            self.received.append(sent._replace(is_known=False))
            self.end = fault
            if fault == "cancelled":
                await Pause()
            raise network_error()
        self.received.append(sent)
        reply = self.reply(command, sent)
        if sent.failed and command.document["ordered"]:
            self.end = "an error"
        if not sent.is_acknowledged:
            self.results, self.delivered, self.cursor_is_open = [], [], False
            return None
        if fault == "concern":
            self.concerns.append(len(self.received))
            reply["writeConcernError"] = {"code": 64, "errmsg": "slow", "command": len(self.received)}
        return reply

    def check_call(self, operation: Operation[Any], call: Call) -> None:
        self.operation_ids.add(call.operation_id)
        assert len(self.operation_ids) == 1
        if operation.is_acknowledged:
            assert call.session is not None
            call.session.server_session = call.session.server_session or ServerSession(bson.Binary(b"i" * 16, 4), 0.0)
            self.sessions.add(call.session)

    def receive(self, operation: Operation[Any], command: Command, limits: Limits) -> Sent:
        """Look at a command, which must not be above the limits."""
        statements = [bson.decode(each) for each in command.sequences[0].documents]
        if command.name == "bulkWrite":
            assert [each.identifier for each in command.sequences] == ["ops", "nsInfo"]
            namespaces = [bson.decode(each)["ns"] for each in command.sequences[1].documents]
            assert len(set(namespaces)) == len(namespaces)
            writes = [self.read_operation(each, namespaces) for each in statements]
        else:
            assert command.sequences[0].identifier == {"insert": "documents"}.get(command.name, f"{command.name}s")
            writes = [self.read_statement(each, command.name) for each in statements]
        size = len(op_msg.encode(1, bson.encode(command.document), command.sequences))
        payload = sum(len(each) for sequence in command.sequences for each in sequence.documents)
        assert size + ROOM <= limits.message, "no room for the session"
        assert 0 < len(writes) <= min(limits.writes, most_statements())
        is_acknowledged = operation.is_acknowledged
        allowance = ALLOWANCE if is_acknowledged else 0
        if command.name != "bulkWrite":
            assert command.document.get("writeConcern", {}).get("w", 1) == int(is_acknowledged)
            assert len(writes) == 1 or payload <= most_bytes()
            assert all(len(each) <= limits.document + allowance for each in command.sequences[0].documents)
        elif not is_acknowledged:
            assert all(size_of(write) <= limits.document for write in writes if write.kind == "insert")
        return Sent(writes, limits, size, payload, [], [], is_acknowledged, is_known=is_acknowledged)

    def read_statement(self, statement: dict[str, Any], name: str) -> Write:
        write = self.by_number[(statement if name == "insert" else statement["q"])["n"]]
        assert write.kind == name
        if name == "insert":
            self.check_document(write, statement)
        else:
            multi = statement["limit"] == 0 if name == "delete" else statement.get("multi", False)
            assert multi is write.is_multi
        return write

    def read_operation(self, operation: dict[str, Any], namespaces: list[str]) -> Write:
        name = next(iter(operation))
        write = self.by_number[(operation["document"] if name == "insert" else operation["filter"])["n"]]
        assert write.kind == name
        assert namespaces[operation[name]] == f"app.{write.collection}"
        if name == "insert":
            self.check_document(write, operation["document"])
        else:
            assert operation["multi"] is write.is_multi
        return write

    @staticmethod
    def check_document(write: Write, found: dict[str, Any]) -> None:
        """The document has an `_id`, which is first, and which the caller knows."""
        assert next(iter(found)) == "_id"
        assert found == write.document

    # --- what it does with them ---

    def reply(self, command: Command, sent: Sent) -> dict[str, Any]:
        for write in sent.writes:
            sent.done.append(write)
            if write.fate == "fails" or (write.kind == "insert" and size_of(write) > sent.limits.document):
                sent.failed.append(write)
                if command.document["ordered"]:
                    break
        return self.reply_to_client(command, sent) if command.name == "bulkWrite" else self.reply_to_collection(sent)

    def reply_to_collection(self, sent: Sent) -> dict[str, Any]:
        done = [write for write in sent.done if write not in sent.failed]
        reply: dict[str, Any] = {"ok": 1, "n": len(done)}
        if sent.failed:
            places = [sent.writes.index(write) for write in sent.failed]
            reply["writeErrors"] = [{"index": place, "code": 11000, "errmsg": "no"} for place in places]
        if sent.writes[0].kind == "update":
            upserted = [write for write in done if write.fate == "upserts"]
            reply["nModified"] = len(done) - len(upserted)
            reply["upserted"] = [{"index": sent.writes.index(each), "_id": -each.number} for each in upserted]
        return reply

    def reply_to_client(self, command: Command, sent: Sent) -> dict[str, Any]:
        counts = dict.fromkeys(("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        self.results = []
        for place, write in enumerate(sent.done):
            result: dict[str, Any] = {"ok": 1.0, "idx": place, "n": 1}
            if write in sent.failed:
                result |= {"ok": 0.0, "n": 0, "code": 11000, "errmsg": "no"}
                counts["nErrors"] += 1
            elif write.kind == "update":
                is_upsert = write.fate == "upserts"
                result |= {
                    "nModified": int(not is_upsert),
                    **({"upserted": {"_id": -write.number}} if is_upsert else {}),
                }
                for name in ("nUpserted",) if is_upsert else ("nMatched", "nModified"):
                    counts[name] += 1
            else:
                counts["nInserted" if write.kind == "insert" else "nDeleted"] += 1
            if write in sent.failed or not command.document["errorsOnly"]:
                self.results.append(result)
        return {"ok": 1, **counts, "cursor": self.next_results(sent, "firstBatch")}

    def next_results(self, sent: Sent, field: str) -> dict[str, Any]:
        chunk = self.chunk if field == "firstBatch" else self.chunk or 4
        found, self.results = self.results[:chunk], self.results[chunk:]
        self.delivered += [(sent.writes[each["idx"]], each) for each in found]
        self.cursor_is_open = bool(self.results)
        return {"id": CURSOR if self.results else 0, "ns": "admin.$cmd.bulkWrite", field: found}

    async def get_more(self) -> dict[str, Any]:
        assert self.cursor_is_open
        fault = self.faults.pop(0) if self.faults and self.faults[0] in ("lost", "cancelled") else "works"
        if fault != "works":
            self.end = f"the results were {fault}"
            if fault == "cancelled":
                await Pause()
            raise network_error()
        return {"ok": 1, "cursor": self.next_results(self.received[-1], "nextBatch")}

    def kill(self) -> None:
        assert self.cursor_is_open, "killed twice"
        self.cursor_is_open = False


def most_statements() -> int:
    """How many statements the driver puts into a command at most."""
    return int(vars(bulk)["MAX_STATEMENTS"])


def most_bytes() -> int:
    """How many bytes they have together."""
    return int(vars(bulk)["MAX_SIZE"])


def size_of(write: Write) -> int:
    return len(bson.encode(write.document))


class Core(FakeCore):
    """Runs without an event loop."""

    async def checkpoint(self) -> None:
        self.checkpoints += 1

    def kill_cursor(self, cursor: LostCursor) -> None:
        assert isinstance(self.executor, Server)
        if cursor.cursor_id:
            self.executor.kill()
        give_back(cursor, self.executor)


NUMBERS: Final = st.sampled_from([1, 2, 3, 7, 100])
LIMITS: Final = st.builds(Limits, NUMBERS, st.sampled_from([40_000, 48_000, 90_000]), st.sampled_from([8_000, 16_000]))
# A name, a length, a fate and a collection.
WRITES: Final = st.tuples(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from([*[0] * 4, *[400] * 4, 2_000, 9_000, 17_000, 26_000, 50_000]),
    st.sampled_from(["works"] * 6 + ["fails", "upserts", "upserts"]),
    st.sampled_from(["a", "b" * 150, "c" * 200, "d" * 220]),
)
FAULTS: Final = st.lists(
    st.sampled_from(["works", "works", "works", "retried", "concern", "lost", "cancelled"]), max_size=4
)


class Known:
    """What the driver should know in the end, by the indexes of the caller's list."""

    def __init__(self, writes: list[Write], commands: list[Sent], server: Server) -> None:
        self.writes = writes
        places = {write.number: place for place, write in enumerate(writes)}
        succeeded = [write for each in commands for write in each.done if write not in each.failed]
        updates = [write for write in succeeded if write.kind == "update"]
        upserts = [write for write in updates if write.fate == "upserts"]
        self.has_succeeded = bool(succeeded)
        self.counts = {
            "nInserted": sum(write.kind == "insert" for write in succeeded),
            "nUpserted": len(upserts),
            "nMatched": len(updates) - len(upserts),
            "nModified": len(updates) - len(upserts),
            "nRemoved": sum(write.kind == "delete" for write in succeeded),
        }
        self.upserted = sorted((places[write.number], -write.number) for write in upserts)
        self.errors = sorted((places[write.number], 11000) for each in commands for write in each.failed)
        self.concerns = server.concerns
        # Of a client's bulk write: the results that arrived.
        self.results = {places[write.number]: (write, result) for write, result in server.delivered}


class CollectionBulk(Machine):
    """Bulk writes of a collection. The model: the list of writes, and what the server received of them."""

    IS_OF_CLIENT = False

    @initialize(is_small=st.booleans())
    def make(self, is_small: bool) -> None:
        self.patches = ExitStack()
        for (module, name), value in SMALL.items() if is_small else ():
            self.patches.enter_context(mock.patch.object(module, name, value))
        self.client, _ = fake_client()
        self.core = self.client._core = Core()
        self.numbers = count(1)
        self.writes: list[Write] = []

    @rule(specs=st.lists(WRITES, min_size=1, max_size=8), times=st.sampled_from([1, 1, 1, 5, 15]))
    def add(self, specs: list[Any], times: int) -> None:
        for name, length, fate, collection in specs * times:
            if fate == "upserts" and not name.startswith(("update", "replace")):
                fate = "works"
            number = next(self.numbers)
            model = MODELS[name](number, "x" * length, fate == "upserts")
            self.writes.append(Write(number, name, fate, collection, model))

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def spoil(self, data: st.DataObject) -> None:
        """A write cannot be encoded."""
        place = data.draw(st.integers(0, len(self.writes) - 1))
        number, name, _, collection, _ = self.writes[place]
        self.writes[place] = Write(number, name, "unencodable", collection, MODELS[name](number, object(), False))

    @precondition(lambda self: self.writes)
    @rule(
        limits=st.lists(LIMITS, min_size=1, max_size=3),
        faults=FAULTS,
        is_ordered=st.booleans(),
        is_acknowledged=st.sampled_from([True, True, True, False]),
        is_verbose=st.booleans(),
        chunk=st.sampled_from([0, 1, 4, 100]),
        is_slow=st.booleans(),
        only_inserts=st.sampled_from([False, False, False, True]),
    )
    def write(self, limits: list[Limits], faults: list[str], chunk: int, only_inserts: bool, **how: bool) -> None:
        writes, self.writes = self.writes, []
        if only_inserts:
            writes = [write for write in writes if write.kind == "insert"] or writes
        server = Server(writes, limits, [*faults], chunk)
        result = self.call(writes, server, is_insert_many=only_inserts and writes[0].kind == "insert", **how)
        order = writes
        if not (how["is_ordered"] or self.IS_OF_CLIENT):
            order = [write for kind in KINDS for write in writes if write.kind == kind]
        if server.wrong is not None:
            raise server.wrong
        self.check_commands(order, server, result, how["is_acknowledged"])
        self.check_result(writes, server, result, how["is_acknowledged"])
        assert not server.cursor_is_open, "the server keeps the results"
        assert server.released == list(server.sessions)

    def call(
        self,
        writes: list[Write],
        server: Server,
        *,
        is_insert_many: bool,
        is_ordered: bool,
        is_acknowledged: bool,
        is_verbose: bool,
        is_slow: bool,
    ) -> Any:
        """Make the call; return its result, or its error."""
        client, core = self.client, self.core
        core.executor = server
        # Others get a turn after every slice.
        core.time_per_look = 0.1 if is_slow else 0.0
        concern = None if is_acknowledged else WriteConcern(0)
        models = [write.model for write in writes]
        coroutine: Coroutine[Any, Any, Any]
        collection = client.app.things.with_options(write_concern=concern)
        if self.IS_OF_CLIENT:
            is_ordered = is_ordered and is_acknowledged
            is_verbose = is_verbose and is_acknowledged
            for write in writes:
                write.model.namespace = f"app.{write.collection}"
            coroutine = client.bulk_write(models, ordered=is_ordered, verbose_results=is_verbose, write_concern=concern)
        elif is_insert_many:
            coroutine = collection.insert_many([write.document for write in writes], ordered=is_ordered)
        else:
            coroutine = collection.bulk_write(models, ordered=is_ordered)
        try:
            coroutine.send(None)
            coroutine.throw(asyncio.CancelledError())
        except StopIteration as end:
            return end.value
        except (PyMongoError, InvalidDocument, asyncio.CancelledError) as error:
            return error
        raise AssertionError("it goes on after its cancellation")

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.close()

    # --- what must have happened ---

    def check_commands(self, order: list[Write], server: Server, result: Any, is_acknowledged: bool) -> None:
        """Each write is sent once, in order, in as few commands as the limits permit, up to a reason to stop."""
        sent = [write for each in server.received for write in each.writes]
        assert sent == order[: len(sent)]
        place = 0
        for command in server.received:
            place += len(command.writes)
            if not self.IS_OF_CLIENT:
                assert len({write.kind for write in command.writes}) == 1
            if place < len(order) and (self.IS_OF_CLIENT or order[place].kind == command.writes[0].kind):
                assert self.is_full(command, order[place], is_acknowledged), "another write would have fitted"
        if len(sent) == len(order) or server.end:
            return
        # The rest has one that cannot be sent at all.
        cause = getattr(result, "error", None) or result
        rest = order[len(sent) :]
        if isinstance(cause, DocumentTooLarge):
            limits, needed = server.next_limits(), self.size_in_command(rest[0])
            allowance = ALLOWANCE if is_acknowledged else 0
            added = 1_000 if self.IS_OF_CLIENT else ALLOWANCE
            is_too_large = needed > limits.document + allowance and not (self.IS_OF_CLIENT and is_acknowledged)
            assert is_too_large or needed + added + 500 > limits.message
        else:
            assert isinstance(cause, InvalidDocument)
            batch = takewhile(lambda write: write.kind == rest[0].kind, rest)
            assert any(write.fate == "unencodable" for write in ([rest[0]] if self.IS_OF_CLIENT else batch))

    def is_full(self, command: Sent, following: Write, is_acknowledged: bool) -> bool:
        """Whether a command has no room for another write."""
        if len(command.writes) in (command.limits.writes, most_statements()) or following.fate == "unencodable":
            return True
        size = self.size_in_command(following)
        if self.IS_OF_CLIENT:
            if command.payload > client_bulk._MAX_SIZE:
                return True
            return command.size + size + 1100 > command.limits.message or (
                not command.is_acknowledged and size > command.limits.document
            )
        allowance = ALLOWANCE if is_acknowledged else 0
        return (
            command.size + size + ALLOWANCE + 100 > command.limits.message
            or command.payload + size > most_bytes()
            or size > command.limits.document + allowance
        )

    def size_in_command(self, write: Write) -> int:
        """About how many bytes it has there."""
        if write.fate == "unencodable":
            return 0
        if self.IS_OF_CLIENT:
            kind, _, fields = client_bulk.statement_of(write.model)
            return len(bson.encode({kind: 0, **fields}))
        _, statement = statement_of(write.model)
        return len(bson.encode(statement))

    def check_result(self, writes: list[Write], server: Server, result: Any, is_acknowledged: bool) -> None:
        """The result, or the error, has what the server did."""
        if isinstance(result, asyncio.CancelledError):
            assert "cancelled" in server.end
        elif not is_acknowledged:
            assert isinstance(result, BaseException) or not result.acknowledged
        else:
            known = [each for each in server.received if each.is_known]
            self.compare(Known(writes, known, server), result)

    def compare(self, known: Known, result: Any) -> None:
        if isinstance(result, InsertManyResult):
            assert result.inserted_ids == [write.document["_id"] for write in known.writes]
            assert not known.errors
            assert not known.concerns
            return
        is_error = isinstance(result, BulkWriteError)
        if isinstance(result, BaseException) and not is_error:
            details = vars(result)["partial_result"].bulk_api_result
        else:
            assert is_error is bool(known.errors or known.concerns)
            details = result.details if is_error else result.bulk_api_result
        assert {name: details[name] for name in known.counts} == known.counts
        assert sorted((each["index"], each["_id"]) for each in details["upserted"]) == known.upserted
        found = [(each["index"], each["code"]) for each in details["writeErrors"]]
        assert (found if is_error else sorted(found)) == known.errors
        for each in details["writeErrors"]:
            statement = each["op"]
            assert statement.get("q", statement)["n"] == known.writes[each["index"]].number
        assert [each["command"] for each in details["writeConcernErrors"]] == known.concerns


class ClientBulk(CollectionBulk):
    """The same of a client, whose results come with a cursor."""

    IS_OF_CLIENT = True

    def compare(self, known: Known, result: Any) -> None:
        errors = sorted(place for place, (_, each) in known.results.items() if not each["ok"])
        partial = result
        if isinstance(result, ClientBulkWriteException):
            assert [each["idx"] for each in result.write_errors] == errors
            for each in result.write_errors:
                write = known.writes[each["idx"]]
                assert each["op"][write.kind] == f"app.{write.collection}"
                assert each["op"].get("filter", each["op"].get("document"))["n"] == write.number
            assert [each["command"] for each in result.write_concern_errors] == known.concerns
            assert result.error is not None or errors or known.concerns
            partial = result.partial_result
            assert (partial is not None) is known.has_succeeded
        elif isinstance(result, BaseException):
            assert not known.results
            assert not known.has_succeeded
            return
        else:
            assert not errors
            assert not known.concerns
        if partial is None:
            return
        counts = dict(known.counts)
        counts["nDeleted"] = counts.pop("nRemoved")
        assert {name: partial.bulk_api_result[name] for name in counts} == counts
        if not partial.has_verbose_results:
            return
        singles = {"insert": partial.insert_results, "update": partial.update_results, "delete": partial.delete_results}
        for kind, found in singles.items():
            expected = {
                place: write for place, (write, each) in known.results.items() if each["ok"] and write.kind == kind
            }
            assert set(found) == set(expected)
            for place, write in expected.items():
                if kind == "insert":
                    assert found[place].inserted_id == write.document["_id"]
                elif kind == "update":
                    assert found[place].upserted_id == (-write.number if write.fate == "upserts" else None)


@pytest.mark.parametrize("machine", [CollectionBulk, ClientBulk])
def test_each_write_is_sent_once_and_counted_once(machine: type[CollectionBulk]) -> None:
    run(machine)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(CollectionBulk, ClientBulk))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
