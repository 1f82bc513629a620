"""The bulkWrite command of MongoDB 8.0, made of the insert, update and delete commands of the server behind the facade.

Each operation becomes a command of its own, which a retry of a retryable write repeats with the same statement id, so
that the server recognises it. What the older server lacks (the sort of an update) is made of a query before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from motorlite._wire import op_msg
from tests.support.mongos import messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.mongos.members import Backend
    from tests.support.mongos.messages import Message

NAMESPACE: Final = "admin.$cmd.bulkWrite"
_RAW: Final[CodecOptions[Mapping[str, Any]]] = CodecOptions(document_class=RawBSONDocument)
# Fields of the command that each of its operations needs.
_COMMON: Final = ("lsid", "txnNumber", "autocommit", "comment", "writeConcern", "$clusterTime")
_API: Final = ("apiVersion", "apiStrict", "apiDeprecationErrors")
# Those that only the first statement of a transaction, or of a command, has.
_FIRST: Final = ("startTransaction", "readConcern")
_COUNTS: Final = ("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted")
_GOSSIP: Final = ("$clusterTime", "operationTime")
_STATEMENT: Final = ("hint", "collation", "arrayFilters", "upsert")


async def execute(request: Message, backend: Backend) -> Message:
    """Execute the operations one after the other, and return the reply."""
    return messages.Message(messages.reply(await _Execution(request, backend).run(), request.request_id))


class _Execution:
    def __init__(self, request: Message, backend: Backend) -> None:
        self._command = request.document
        self._backend = backend
        sequences = op_msg.parse(request.data).sequences or {}
        self._operations, self._namespaces = (
            [bson.decode(bytes(each), _RAW) for each in sequences[name]] for name in ("ops", "nsInfo")
        )
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._last: Mapping[str, Any] = {}
        self._concern_error: Mapping[str, Any] | None = None

    async def run(self) -> dict[str, Any]:
        results = []
        for index, operation in enumerate(self._operations):
            result = await self._execute(index, operation)
            if not self._last["ok"]:
                return dict(self._last)
            if not (result["ok"] and self._command["errorsOnly"]):
                results.append({**result, "idx": index})
            if not result["ok"]:
                self._counts["nErrors"] += 1
                if self._command["ordered"]:
                    break
        gossip = {name: self._last[name] for name in _GOSSIP if name in self._last}
        concern = {} if self._concern_error is None else {"writeConcernError": self._concern_error}
        cursor = {"id": bson.Int64(0), "ns": NAMESPACE, "firstBatch": results}
        return {"ok": 1.0, "cursor": cursor, **self._counts, **concern, **gossip}

    async def _execute(self, index: int, operation: Mapping[str, Any]) -> dict[str, Any]:
        kind = next(iter(operation))
        database, _, collection = self._namespaces[operation[kind]]["ns"].partition(".")
        command: dict[str, Any] = {kind: collection, **await self._statement(kind, operation, database, collection)}
        names = (*_COMMON, *_API, *(_FIRST if index == 0 else ()))
        command |= {name: self._command[name] for name in names if name in self._command}
        if "txnNumber" in command and "autocommit" not in command:
            command["stmtIds"] = [index]
        if kind != "delete" and "bypassDocumentValidation" in self._command:
            command["bypassDocumentValidation"] = self._command["bypassDocumentValidation"]
        if kind != "insert" and "let" in self._command:
            command["let"] = self._command["let"]
        if command.get("writeConcern", {}).get("w") == 0:
            command["writeConcern"] = {"w": 1}
        return self._result(kind, await self._ask(command, database))

    async def _ask(self, command: dict[str, Any], database: str) -> Mapping[str, Any]:
        self._last = (await self._backend.ask(messages.request({**command, "$db": database}).data)).document
        self._concern_error = self._last.get("writeConcernError", self._concern_error)
        return self._last

    async def _statement(
        self, kind: str, operation: Mapping[str, Any], database: str, collection: str
    ) -> dict[str, Any]:
        if kind == "insert":
            return {"documents": [operation["document"]]}
        options = {name: operation[name] for name in _STATEMENT if name in operation}
        if kind == "delete":
            return {"deletes": [{"q": operation["filter"], "limit": 0 if operation["multi"] else 1, **options}]}
        query = operation["filter"]
        if "sort" in operation:
            find = {"find": collection, "filter": query, "sort": operation["sort"], "limit": 1, "singleBatch": True}
            found = (await self._ask(find, database))["cursor"]["firstBatch"]
            query = {"_id": found[0]["_id"]} if found else query
        return {"updates": [{"q": query, "u": operation["updateMods"], "multi": operation["multi"], **options}]}

    def _result(self, kind: str, reply: Mapping[str, Any]) -> dict[str, Any]:
        if not reply["ok"] or reply.get("writeErrors"):
            error = dict(reply["writeErrors"][0]) if reply["ok"] else {}
            error.pop("index", None)
            return {"ok": 0.0, "n": 0, **error}
        counts, n = self._counts, reply["n"]
        if kind == "insert":
            counts["nInserted"] += n
            return {"ok": 1.0, "n": n}
        if kind == "delete":
            counts["nDeleted"] += n
            return {"ok": 1.0, "n": n}
        result = {"ok": 1.0, "n": n, "nModified": reply["nModified"]}
        if reply.get("upserted"):
            counts["nUpserted"] += 1
            return {**result, "upserted": {"_id": reply["upserted"][0]["_id"]}}
        counts["nMatched"] += n
        counts["nModified"] += reply["nModified"]
        return result
