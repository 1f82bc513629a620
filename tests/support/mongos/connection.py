"""One connection of a client to a mongos: its requests one after the other, each answered here or by a member."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.wire_versions import V8_0
from motorlite._wire import op_msg
from tests.support.mongos import bulk_writes, hello, messages
from tests.support.mongos.errors import (
    COMMAND_NOT_FOUND,
    CURSOR_NOT_FOUND,
    FAIL_POINT_SET_FAILED,
    LOAD_BALANCER_SUPPORT_MISMATCH,
    MAX_TIME_MS_EXPIRED,
    NO_SUCH_TRANSACTION,
    TRANSACTION_COMMITTED,
    CommandError,
    labels_of,
)
from tests.support.mongos.members import Backend, Backends, read_message
from tests.support.mongos.messages import Message, Unusable
from tests.support.mongos.transactions import is_statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from tests.support.mongos.fail_points import Fault
    from tests.support.mongos.server import Mongos

_NOT_LOAD_BALANCED: Final = (
    "The server is being accessed through a load balancer, but this driver does not have load balancing enabled"
)
# Fail points that a mongos has, which act on the members here.
_OF_MEMBERS: Final = frozenset({"failGetMoreAfterCursorCheckout"})


class Hangup(Exception):
    """The connection is closed without a reply."""


class ClientConnection:
    """Serves until the client goes.

    Args:
        service_id: What the mongos is called behind a load balancer; None: the client came directly.
    """

    def __init__(
        self,
        mongos: Mongos,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        service_id: ObjectId | None,
    ) -> None:
        self._mongos = mongos
        self._reader = reader
        self._writer = writer
        self._service_id = service_id
        self._backends = Backends(mongos.members)
        self._id = mongos.new_connection_id()
        self._app_name: str | None = None
        self._reply_ids = count(1)
        self._task: asyncio.Task[None] | None = None
        # Whether the client waits for the reply to the current request, and whether it has gone.
        self._is_awaited = False
        self._is_lost = False

    async def serve(self) -> None:
        """Answer requests until there are no more."""
        self._task = asyncio.current_task()
        try:
            while True:
                await self._answer(await read_message(self._reader))
        except (asyncio.IncompleteReadError, OSError, Hangup, Unusable):
            pass
        finally:
            self._backends.close()
            self._writer.close()

    def lose_client(self) -> None:
        """The client has closed the connection: what it waited for is given up, and nothing else."""
        self._is_lost = True
        if self._is_awaited and self._task is not None:
            self._task.cancel()

    async def _answer(self, request: Message) -> None:
        self._is_awaited = not request.more_to_come
        if self._is_awaited and self._is_lost:
            raise Hangup
        try:
            if request.name in hello.NAMES:
                await self._greet(request)
                return
            reply = await self._reply(request)
            if self._is_awaited:
                self._writer.write(reply)
        finally:
            self._is_awaited = False

    async def _reply(self, request: Message) -> bytes:
        try:
            fault = await self._fault(request)
            answer = self._own_answer(request)
            if answer is not None:
                return messages.reply({**answer, **self._mongos.gossip}, request.request_id)
            return await self._execute(request, fault)
        except CommandError as error:
            return messages.reply({**error.reply(request.document), **self._mongos.gossip}, request.request_id)

    async def _fault(self, request: Message) -> Fault | None:
        """Do what the fail point does before a command is executed.

        Raises:
            CommandError: it fails the command.
            Hangup: it closes the connection.
        """
        fault = self._mongos.fail_command.fault(request.name, request.namespace, self._app_name)
        if fault is None:
            return None
        if fault.block:
            await asyncio.sleep(fault.block)
        if fault.closes:
            raise Hangup
        if fault.error is not None:
            raise fault.error
        limit = request.document.get("maxTimeMS")
        if fault.block and limit and request.name != "getMore" and fault.block * 1000 > limit:
            # Noticed only now: the fail point is not interrupted.
            raise CommandError(MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
        return fault

    # --- hello ---

    async def _greet(self, request: Message) -> None:
        """Answer hello, again and again if the client wants that."""
        command = request.document
        if "client" in command:
            self._app_name = command["client"].get("application", {}).get("name")
            self._backends.hello = request
        version, response_to = self._mongos.topology_version, request.request_id
        streams = request.exhaust_allowed and "topologyVersion" in command
        wait = hello.seconds_to_wait(command, version)
        while True:
            try:
                await self._fault(request)
                await asyncio.sleep(wait)
                document = await self._hello(request)
            except CommandError as error:
                streams, document = False, error.reply(command)
            reply_id = next(self._reply_ids)
            flags = op_msg.MORE_TO_COME if streams else 0
            self._writer.write(messages.reply({**document, **self._mongos.gossip}, response_to, reply_id, flags))
            if self._service_id is not None and not document["ok"]:
                raise Hangup
            if not streams:
                return
            response_to, wait = reply_id, float(command["maxAwaitTimeMS"]) / 1000

    async def _hello(self, request: Message) -> dict[str, Any]:
        command, own = request.document, {"connectionId": self._id, "topologyVersion": self._mongos.topology_version}
        if self._mongos.has_bulk_writes:
            own["maxWireVersion"] = V8_0
        if self._service_id is not None:
            if command.get("loadBalanced") is not True and "client" in command:
                raise CommandError(LOAD_BALANCER_SUPPORT_MISMATCH, _NOT_LOAD_BALANCED)
            own["serviceId"] = self._service_id
        reply = self._mongos.hello_of_primary
        if not hello.OF_AUTHENTICATION.isdisjoint(command):
            reply = (await self._backends.greet(request)).document
            if not reply["ok"]:
                return dict(reply)
        return hello.of_mongos(reply, command, own)

    # --- other commands ---

    def _own_answer(self, request: Message) -> dict[str, Any] | None:
        """The answer to what no member is asked; None for everything else.

        Raises:
            CommandError: a mongos has no such command.
        """
        command = request.document
        if request.name == "configureFailPoint" and command["configureFailPoint"] not in _OF_MEMBERS:
            if command["configureFailPoint"] != "failCommand":
                raise CommandError(FAIL_POINT_SET_FAILED, f"{command['configureFailPoint']} not found")
            return self._mongos.fail_command.configure(command)
        if request.name == "isdbgrid":
            return {"isdbgrid": 1, "hostname": "localhost", "ok": 1.0}
        if request.name.startswith("replSet"):
            raise CommandError(COMMAND_NOT_FOUND, f"no such command: '{request.name}'")
        if request.name == "killCursors" and self._mongos.cursors.keys().isdisjoint(command["cursors"]):
            nothing: dict[str, list[int]] = {"cursorsKilled": [], "cursorsAlive": [], "cursorsUnknown": []}
            return {**nothing, "cursorsNotFound": list(command["cursors"]), "ok": 1.0}
        return None

    async def _execute(self, request: Message, fault: Fault | None) -> bytes:
        command = request.document
        if is_statement(command) and self._mongos.transactions.admit(command) == "recover":
            await self._check_outcome(command)
        backend = await self._backend_for(request)
        is_bulk_write = request.name == "bulkWrite" and self._mongos.has_bulk_writes
        if request.more_to_come and not is_bulk_write:
            backend.send(request.data)
            return b""
        if is_bulk_write:
            reply = await bulk_writes.execute(request, backend)
        else:
            reply = await backend.ask(request.without_exhaust())
        self._mongos.learn(request, reply, backend.address)
        fields: dict[str, Any] = {}
        if reply.document["ok"]:
            if is_statement(command):
                fields["recoveryToken"] = self._mongos.transactions.token_after(command)
            if fault is not None:
                fields |= _write_concern_error(command, fault)
        return reply.with_fields(fields) if fields else reply.data

    async def _backend_for(self, request: Message) -> Backend:
        """A connection to the member that executes a command.

        Raises:
            CommandError: there is none, or it is about a cursor of another mongos.
        """
        command, cursors = request.document, self._mongos.cursors
        if request.name == "getMore":
            if command["getMore"] not in cursors:
                raise CommandError(CURSOR_NOT_FOUND, f"cursor id {command['getMore']} not found")
            return await self._backends.at(cursors[command["getMore"]])
        if request.name == "killCursors":
            return await self._backends.at(next(cursors[one] for one in command["cursors"] if one in cursors))
        preference: Mapping[str, Any] = command.get("$readPreference", {}) if request.is_read else {}
        return await self._backends.select(preference)

    async def _check_outcome(self, command: Mapping[str, Any]) -> None:
        """Find out how a transaction of another mongos ended; a commit that the shard never saw, never will be.

        Raises:
            CommandError: it was aborted, maybe just now.
        """
        about = {name: command[name] for name in ("lsid", "txnNumber", "autocommit")}
        abort = messages.request({"abortTransaction": 1, **about, "$db": "admin"})
        reply = (await (await self._backends.select({})).ask(abort.data)).document
        if reply["ok"] or reply["code"] == NO_SUCH_TRANSACTION:
            raise CommandError(NO_SUCH_TRANSACTION, f"Transaction {command['txnNumber']} has been aborted.")
        if reply["code"] != TRANSACTION_COMMITTED:
            raise CommandError(reply["code"], reply["errmsg"])


def _write_concern_error(command: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    if fault.write_concern_error is None:
        return {}
    labels = fault.labels
    if labels is None:
        labels = labels_of(command, write_concern_code=fault.write_concern_error.get("code"))
    found: dict[str, Any] = {"writeConcernError": fault.write_concern_error}
    return {**found, "errorLabels": labels} if labels else found
