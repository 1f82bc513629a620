"""Pure: the commands of a simulated member, as generators: they yield what they wait for, and return their reply.

A command yields a condition and a time. It goes on with True as soon as the condition holds, or with False at that
time. Between two yields nothing else happens, as under a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson.int64 import Int64

from tests.simulation import documents
from tests.simulation.changes import ChangeCursor, FoundCursor, open_stream
from tests.simulation.storage import INDEXES, SESSIONS, Change
from tests.simulation.transactions import OpenTransaction, Snapshot
from tests.simulation.writes import matching, plan_delete, plan_find_and_modify, plan_insert, plan_update
from tests.support.mongos.errors import (
    BAD_VALUE,
    COMMAND_NOT_FOUND,
    CURSOR_NOT_FOUND,
    MAX_TIME_MS_EXPIRED,
    TRANSACTION_COMMITTED,
    TRANSACTION_TOO_OLD,
    CommandError,
    code_name,
    labels_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from tests.simulation.changes import Cursor
    from tests.simulation.documents import Document
    from tests.simulation.replication import Replica
    from tests.simulation.transactions import Transactions
    from tests.simulation.writes import Plan

Wait: TypeAlias = tuple[Callable[[], bool], float]
Steps: TypeAlias = Generator[Wait, bool, "Document"]

_NOT_WRITABLE: Final = 10107
_NOT_READABLE: Final = 13435
_STEPPED_DOWN: Final = 189
_WRITE_CONCERN_FAILED: Final = 64
_DUPLICATE_KEY: Final = 11000
# Errors of one statement, which the others of its command survive.
_OF_STATEMENTS: Final = frozenset({_DUPLICATE_KEY, BAD_VALUE, 14})
_FIRST_BATCH: Final = 101

FORGETS_RETRIES: Final = "a new primary forgets the retry records of the old one"
LOSES_COMMITTED: Final = "majority writes are acknowledged before a majority has them"


@dataclass(slots=True, eq=False)
class Request:
    """A command that has arrived.

    Attributes:
        document: All of it, document sequences included.
        until: The loop time at which its maxTimeMS has passed; infinity without one.
        connection: What identifies the connection that it came on.
    """

    document: Document
    until: float = inf
    connection: Any = None

    @property
    def name(self) -> str:
        return next(iter(self.document))

    @property
    def namespace(self) -> str:
        return f"{self.document['$db']}.{self.document[self.name]}"

    @property
    def session(self) -> bytes:
        lsid = self.document.get("lsid")
        return b"" if lsid is None else bytes(lsid["id"])

    @property
    def number(self) -> int:
        return int(self.document["txnNumber"])

    @property
    def is_in_transaction(self) -> bool:
        return self.document.get("autocommit") is False


class Commands:
    """Executes the commands of one process of a member.

    Args:
        replica: Its part of the replica set.
        transactions: Its open transactions.
        now: The loop's clock.
        chance: Draws the ids of cursors.
        rules: Rules of servers that are broken on purpose, to test the tests.
    """

    def __init__(
        self,
        replica: Replica,
        transactions: Transactions,
        now: Callable[[], float],
        chance: Random,
        rules: frozenset[str] = frozenset(),
    ) -> None:
        self._replica = replica
        self._storage = replica.storage
        self._transactions = transactions
        self._now = now
        self._chance = chance
        self._rules = rules
        self.cursors: dict[int, Cursor] = {}
        self._handlers: dict[str, Callable[[Request], Steps]] = {
            **dict.fromkeys(("ping", "buildInfo", "create"), self._nothing),
            **dict.fromkeys(("endSessions", "killSessions"), self._end_sessions),
            **dict.fromkeys(("insert", "update", "delete"), self._write),
            "find": self._find,
            "aggregate": self._aggregate,
            "getMore": self._get_more,
            "killCursors": self._kill_cursors,
            "findAndModify": self._find_and_modify,
            "bulkWrite": self._bulk_write,
            "createIndexes": self._create_indexes,
            "listIndexes": self._list_indexes,
            "listCollections": self._list_collections,
            "commitTransaction": self._commit,
            "abortTransaction": self._abort,
        }

    def run(self, request: Request) -> Steps:
        """Execute a command.

        Raises:
            CommandError: It fails.
        """
        handler = self._handlers.get(request.name)
        if handler is None:
            raise CommandError(COMMAND_NOT_FOUND, f"no such command: '{request.name}'")
        try:
            return (yield from handler(request))
        except CommandError:
            if request.is_in_transaction and request.name not in ("commitTransaction", "abortTransaction"):
                self._transactions.end(request.session)
            raise

    # --- sessions and cursors ---

    def _nothing(self, request: Request) -> Steps:
        yield from ()
        return {"ok": 1.0}

    def _end_sessions(self, request: Request) -> Steps:
        yield from ()
        ended = {bytes(each["id"]) for each in request.document[request.name]}
        for session in sorted(ended):
            self._transactions.end(session)
        self.cursors = {number: cursor for number, cursor in self.cursors.items() if cursor.session not in ended}
        return {"ok": 1.0}

    def _opened(self, request: Request, cursor: Cursor, size: int, extra: Mapping[str, Any] | None = None) -> Document:
        """The reply with the first batch of a cursor, which stays open if there is more."""
        batch = cursor.take(size)
        number = 0
        if not cursor.is_exhausted and not request.document.get("singleBatch"):
            number = self._chance.randrange(1, 2**62)
            self.cursors[number] = cursor
        reply = {"id": Int64(number), "ns": cursor.namespace, "firstBatch": batch, **cursor.position()}
        return {"cursor": {**reply, **(extra or {})}, "ok": 1.0}

    def _get_more(self, request: Request) -> Steps:
        number = int(request.document["getMore"])
        cursor = self.cursors.get(number)
        if cursor is None:
            raise CommandError(CURSOR_NOT_FOUND, f"cursor id {number} not found")
        if cursor.session != request.session:
            raise CommandError(50738, "Cannot run getMore on a cursor of another session")
        if isinstance(cursor, ChangeCursor):
            wait = request.document.get("maxTimeMS", 1000) / 1000
            yield cursor.has_news, self._now() + wait
            if number not in self.cursors:
                raise CommandError(CURSOR_NOT_FOUND, f"cursor id {number} was killed")
        batch = cursor.take(request.document.get("batchSize", 10_000))
        if cursor.is_exhausted:
            del self.cursors[number]
            number = 0
        reply = {"id": Int64(number), "ns": cursor.namespace, "nextBatch": batch, **cursor.position()}
        return {"cursor": reply, "ok": 1.0}

    def _kill_cursors(self, request: Request) -> Steps:
        yield from ()
        found = [number for number in request.document["cursors"] if self.cursors.pop(int(number), None) is not None]
        missing = [number for number in request.document["cursors"] if number not in found]
        reply: Document = {"cursorsKilled": found, "cursorsNotFound": missing}
        return {**reply, "cursorsAlive": [], "cursorsUnknown": [], "ok": 1.0}

    def invalidate_streams(self) -> None:
        """Let each change stream end with an event that says so."""
        for cursor in self.cursors.values():
            if isinstance(cursor, ChangeCursor):
                cursor.invalidate()

    # --- reads ---

    def _find(self, request: Request) -> Steps:
        command = request.document
        view = yield from self._view(request)
        query = command.get("filter", {})
        found = documents.ordered(matching(view, request.namespace, query), command.get("sort"))
        found = found[command.get("skip", 0) :]
        if command.get("limit"):
            found = found[: abs(command["limit"])]
        found = [documents.projected(document, command.get("projection")) for document in found]
        cursor = FoundCursor(request.namespace, request.session, found)
        return self._opened(request, cursor, command.get("batchSize", _FIRST_BATCH))

    def _aggregate(self, request: Request) -> Steps:
        pipeline = request.document["pipeline"]
        if pipeline and "$changeStream" in pipeline[0]:
            self._check_readable(request)
            # A stream begins with what a majority has; unless it resumes, its first batch is empty.
            database, target = request.document["$db"], request.document["aggregate"]
            namespace = database if isinstance(target, int) else f"{database}.{target}"
            stream = open_stream(self._replica, namespace, request.session, pipeline)
            return self._opened(request, stream, self._chance.choice((0, 1, _FIRST_BATCH)))
        view = yield from self._view(request)
        found: Iterable[Document] = view.scan(request.namespace)
        for stage in pipeline:
            ((name, operand),) = stage.items()
            if name == "$match":
                found = [document for document in found if documents.matches(document, operand)]
            elif name == "$group":
                count = len(list(found))
                found = [{"_id": 1, "n": count}] if count else []
            else:
                raise CommandError(BAD_VALUE, f"Unrecognized pipeline stage name: '{name}'")
        cursor = FoundCursor(request.namespace, request.session, list(found))
        return self._opened(request, cursor, request.document.get("cursor", {}).get("batchSize", _FIRST_BATCH))

    def _check_readable(self, request: Request) -> None:
        preference = request.document.get("$readPreference", {}).get("mode", "primary")
        if not self._replica.is_primary and preference in ("primary", None):
            raise CommandError(_NOT_READABLE, "not primary and secondaryOk=false")

    def _view(self, request: Request) -> Generator[Wait, bool, Snapshot]:
        """What a read sees, by its read concern or in its transaction."""
        if request.is_in_transaction:
            return self._statement(request)
        self._check_readable(request)
        concern = request.document.get("readConcern", {})
        level = concern.get("level", "local")
        storage, replica = self._storage, self._replica
        if "afterClusterTime" in concern:
            yield from self._await_time(request, concern["afterClusterTime"], of_majority=level != "local")
        if level == "linearizable":
            yield from self._await_majority(request)
            return Snapshot(storage, storage.last)
        return Snapshot(storage, storage.last if level == "local" else replica.commit)

    def _await_time(self, request: Request, time: Any, *, of_majority: bool) -> Generator[Wait, bool, None]:
        storage, replica = self._storage, self._replica

        def is_there() -> bool:
            end = replica.commit if of_majority else storage.last
            return end > 0 and storage.log[end - 1].time >= time

        if not is_there() and replica.is_primary and storage.log[-1].time < time:
            replica.learn_time(time)
            replica.write(())
        if not (yield is_there, request.until):
            raise CommandError(MAX_TIME_MS_EXPIRED, "operation exceeded time limit")

    def _await_majority(self, request: Request) -> Generator[Wait, bool, None]:
        """Make sure that this member is the primary, by an empty write that a majority must have."""
        replica = self._replica
        if not replica.is_primary:
            raise CommandError(_NOT_WRITABLE, "cannot satisfy linearizable read concern on non-primary node")
        term, index = replica.term, replica.write(())
        is_in_time = yield lambda: replica.commit >= index or not self._leads(term), request.until
        if not self._leads(term):
            raise CommandError(_STEPPED_DOWN, "primary stepped down while waiting for a linearizable read")
        if not is_in_time:
            raise CommandError(MAX_TIME_MS_EXPIRED, "operation exceeded time limit")

    def _leads(self, term: int) -> bool:
        return self._replica.is_primary and self._replica.term == term

    # --- writes ---

    def _check_writable(self) -> None:
        if not self._replica.is_primary:
            raise CommandError(_NOT_WRITABLE, "not primary")

    def _record(self, session: bytes) -> Document | None:
        """What the log knows of a session: the results of its latest retryable write, or transaction."""
        record = self._storage.document(SESSIONS, session, self._storage.last)
        if record is not None and FORGETS_RETRIES in self._rules and record["term"] != self._replica.term:
            return None
        return record

    def _statement(self, request: Request) -> OpenTransaction:
        """The transaction of a statement, which may begin it."""
        self._check_writable()
        session, number = request.session, request.number
        record = self._record(session)
        if not request.document.get("startTransaction"):
            return self._transactions.find(session, number, record)
        if record is not None and record["number"] >= number:
            raise CommandError(TRANSACTION_TOO_OLD, f"transaction {number} is not newer than {record['number']}")
        return self._transactions.begin(session, number, self._storage.last, self._now())

    def _perform(self, request: Request, statement: int, plan: Plan) -> Steps:
        """Perform one write; return its result, which may be that of an earlier attempt."""
        if request.is_in_transaction:
            transaction = self._transactions.find(request.session, request.number, None)
            changes, result = plan(transaction)
            for change in changes:
                self._transactions.lock(request.session, transaction, change.namespace, change.identifier)
                transaction.changes[change.namespace, documents.key_of(change.identifier)] = change
            return result
        self._check_writable()
        record: Document | None = None
        if "txnNumber" in request.document:
            record = self._retry_record(request)
            if str(statement) in record["results"]:
                result = record["results"][str(statement)]
                return dict(result)
        changes, result = plan(Snapshot(self._storage, self._storage.last))
        while any(self._transactions.is_locked(change.namespace, change.identifier) for change in changes):
            slots = [(change.namespace, change.identifier) for change in changes]
            until = min(request.until, self._now() + 5.0)
            if not (yield lambda slots=slots: not any(self._is_locked(*slot) for slot in slots), until):  # type: ignore[misc]
                raise CommandError(MAX_TIME_MS_EXPIRED, "operation exceeded time limit waiting for a transaction")
            self._check_writable()
            changes, result = plan(Snapshot(self._storage, self._storage.last))
        if changes:
            if record is not None:
                # Read again: another statement may have been performed during a wait.
                record = self._retry_record(request)
                record = {**record, "results": {**record["results"], str(statement): result}}
                changes = [*changes, Change(SESSIONS, request.session, record, "session")]
            self._replica.write(changes)
        return result

    def _is_locked(self, namespace: str, identifier: Any) -> bool:
        return self._replica.is_primary and self._transactions.is_locked(namespace, identifier)

    def _retry_record(self, request: Request) -> Document:
        session, number = request.session, request.number
        record = self._record(session)
        if record is not None and record["number"] > number:
            raise CommandError(TRANSACTION_TOO_OLD, f"{number} is older than {record['number']} of its session")
        self._transactions.supersede(session, number)
        if record is not None and record["number"] == number:
            if record["is_committed"]:
                raise CommandError(TRANSACTION_COMMITTED, f"{number} was a transaction")
            return record
        return self._new_record(session, number)

    def _new_record(self, session: bytes, number: int, *, is_committed: bool = False) -> Document:
        term = self._replica.term
        return {"_id": session, "number": number, "term": term, "is_committed": is_committed, "results": {}}

    def _write(self, request: Request) -> Steps:
        """insert, update and delete."""
        command, name, namespace = request.document, request.name, request.namespace
        self._begin_writing(request)
        reply: Document = {"n": 0}
        if name == "update":
            reply["nModified"] = 0
        errors: list[Document] = []
        upserted: list[Document] = []
        field, plan = _PLANS[name]
        for index, specification in enumerate(command[field]):
            try:
                result = yield from self._perform(request, index, plan(namespace, specification, self._new_id))
            except CommandError as error:
                if error.code not in _OF_STATEMENTS or request.is_in_transaction:
                    raise
                errors.append({"index": index, "code": error.code, "errmsg": str(error)})
                if command.get("ordered", True):
                    break
                continue
            reply["n"] += result["n"]
            if name == "update":
                reply["nModified"] += result["nModified"]
            if "upserted" in result:
                upserted.append({"index": index, "_id": result["upserted"]})
        reply |= {"upserted": upserted} if upserted else {}
        reply |= {"writeErrors": errors} if errors else {}
        return (yield from self._acknowledge(request, reply))

    def _begin_writing(self, request: Request) -> None:
        self._check_writable()
        if request.is_in_transaction:
            self._statement(request)

    def _new_id(self) -> Any:
        return f"upserted {self._chance.randrange(2**48)}"

    def _find_and_modify(self, request: Request) -> Steps:
        self._begin_writing(request)
        plan = plan_find_and_modify(request.namespace, request.document, self._new_id)
        result = yield from self._perform(request, 0, plan)
        return (yield from self._acknowledge(request, {"value": None, **result}))

    def _bulk_write(self, request: Request) -> Steps:
        command = request.document
        self._begin_writing(request)
        counts = dict.fromkeys(("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        results: list[Document] = []
        for index, operation in enumerate(command["ops"]):
            kind = next(iter(operation))
            namespace = command["nsInfo"][operation[kind]]["ns"]
            try:
                result = yield from self._perform(request, index, _bulk_plan(kind, namespace, operation, self._new_id))
            except CommandError as error:
                if error.code not in _OF_STATEMENTS or request.is_in_transaction:
                    raise
                counts["nErrors"] += 1
                results.append({"ok": 0.0, "idx": index, "n": 0, "code": error.code, "errmsg": str(error)})
                if command["ordered"]:
                    break
                continue
            _count(counts, kind, result)
            if not command["errorsOnly"]:
                single: Document = {"ok": 1.0, "idx": index, "n": 1}
                single |= {name: result[name] for name in ("n", "nModified") if name in result}
                single |= {"upserted": {"_id": result["upserted"]}} if "upserted" in result else {}
                results.append(single)
        cursor = FoundCursor("admin.$cmd.bulkWrite", request.session, results)
        reply = self._opened(request, cursor, command.get("cursor", {}).get("batchSize", 10_000))
        return (yield from self._acknowledge(request, {**reply, **counts}))

    def _acknowledge(self, request: Request, reply: Document) -> Steps:
        """Wait for the write concern; the reply says if that failed."""
        reply = {"ok": 1.0, **reply}
        if request.is_in_transaction and request.name not in ("commitTransaction", "abortTransaction"):
            return reply
        concern = request.document.get("writeConcern", {})
        if concern.get("w", "majority") in (0, 1) or LOSES_COMMITTED in self._rules:
            return reply
        replica, storage = self._replica, self._storage
        term, index = replica.term, storage.last
        written = storage.term_at(index)
        timeout = concern.get("wtimeout", 0)
        limit = self._now() + timeout / 1000 if timeout else inf
        yield lambda: replica.commit >= index or not self._leads(term), min(limit, request.until)
        if replica.commit >= index and storage.term_at(index) == written:
            return reply
        if not self._leads(term):
            code, message = _STEPPED_DOWN, "operation was interrupted: the primary stepped down"
        elif limit <= self._now():
            code, message = _WRITE_CONCERN_FAILED, "waiting for replication timed out"
        else:
            code, message = MAX_TIME_MS_EXPIRED, "operation exceeded time limit"
        error: Document = {"code": code, "codeName": code_name(code), "errmsg": message}
        if code == _WRITE_CONCERN_FAILED:
            error["errInfo"] = {"wtimeout": True}
        labels = labels_of(request.document, write_concern_code=code)
        return {**reply, "writeConcernError": error, **({"errorLabels": labels} if labels else {})}

    # --- transactions ---

    def _commit(self, request: Request) -> Steps:
        self._check_writable()
        session, number = request.session, request.number
        try:
            transaction = self._transactions.find(session, number, self._record(session))
        except CommandError as error:
            if error.code != TRANSACTION_COMMITTED:
                raise
        else:
            record = self._new_record(session, number, is_committed=True)
            changes = [*transaction.changes.values(), Change(SESSIONS, session, record, "session")]
            self._transactions.end(session)
            self._replica.write(changes)
        return (yield from self._acknowledge(request, {}))

    def _abort(self, request: Request) -> Steps:
        self._check_writable()
        self._transactions.find(request.session, request.number, self._record(request.session))
        self._transactions.end(request.session)
        return (yield from self._acknowledge(request, {}))

    # --- indexes ---

    def _create_indexes(self, request: Request) -> Steps:
        self._check_writable()
        changes = []
        for index in request.document["indexes"]:
            identifier = f"{request.namespace} {index['name']}"
            if self._storage.document(INDEXES, identifier, self._storage.last) is None:
                document = {"_id": identifier, "of": request.namespace, "index": {"v": 2, **index}}
                changes.append(Change(INDEXES, identifier, document, "index"))
        if changes:
            self._replica.write(changes)
        return (yield from self._acknowledge(request, {"numIndexesBefore": 1, "numIndexesAfter": 1 + len(changes)}))

    def _list_indexes(self, request: Request) -> Steps:
        view = yield from self._view(request)
        namespace = request.namespace
        own = [each["index"] for each in view.scan(INDEXES) if each["of"] == namespace]
        if not own and next(iter(view.scan(namespace)), None) is None:
            raise CommandError(26, f"ns does not exist: {namespace}")
        found = [{"v": 2, "key": {"_id": 1}, "name": "_id_"}, *own]
        return self._opened(request, FoundCursor(namespace, request.session, found), _FIRST_BATCH)

    def _list_collections(self, request: Request) -> Steps:
        yield from ()
        self._check_readable(request)
        database = request.document["$db"]
        found = [{"name": name, "type": "collection", "options": {}} for name in self._storage.collections_of(database)]
        query = request.document.get("filter", {})
        found = [each for each in found if documents.matches(each, query)]
        return self._opened(request, FoundCursor(f"{database}.$cmd.listCollections", request.session, found), 100)


_PLANS: Final[dict[str, tuple[str, Callable[..., Plan]]]] = {
    "insert": ("documents", plan_insert),
    "update": ("updates", plan_update),
    "delete": ("deletes", plan_delete),
}


def _bulk_plan(kind: str, namespace: str, operation: Mapping[str, Any], new_id: Callable[[], Any]) -> Plan:
    if kind == "insert":
        return plan_insert(namespace, operation["document"], new_id)
    if kind == "delete":
        return plan_delete(namespace, {"q": operation["filter"], "limit": 0 if operation["multi"] else 1}, new_id)
    options = {name: operation[name] for name in ("multi", "upsert") if name in operation}
    return plan_update(namespace, {"q": operation["filter"], "u": operation["updateMods"], **options}, new_id)


def _count(counts: dict[str, int], kind: str, result: Mapping[str, Any]) -> None:
    if kind == "insert":
        counts["nInserted"] += 1
    elif kind == "delete":
        counts["nDeleted"] += result["n"]
    elif "upserted" in result:
        counts["nUpserted"] += 1
    else:
        counts["nMatched"] += result["n"]
        counts["nModified"] += result["nModified"]
