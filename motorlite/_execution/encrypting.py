"""Shell: sends commands of a client with automatic encryption: encrypted, and their replies decrypted.

Events, log messages and what the driver learns from a reply see neither the plain command nor the decrypted reply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import bson
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import Progress
from motorlite._execution.sender import Sender
from motorlite._operations.contract import Command
from motorlite._wire.documents import LENIENT, decode_details, decode_reply
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bson.codec_options import CodecOptions

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Document, ServerFacts
    from motorlite._connection.connection import Connection
    from motorlite._execution.run import Attempt, Run
    from motorlite._operations.contract import Operation
    from motorlite._topology.topology import Server
    from motorlite._topology.topology_description import TopologyDescription

# Bytes of the writes in one command, before they are encrypted, which makes them larger (client-side encryption
# specification, "Size limits for Write Commands").
MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
# Commands and replies pass through as they are: only the caller's own codec options may refuse a value.
_RAW: Final[CodecOptions[Any]] = LENIENT.with_options(document_class=RawBSONDocument)
# The errors in a reply with ``ok: 1``.
_ERRORS: Final = ("writeErrors", "writeConcernError")


class Encryption(Protocol):
    """Encrypts commands and decrypts replies."""

    @property
    def encrypts(self) -> bool:
        """Whether commands are encrypted; replies are decrypted in any case."""

    async def encrypt(self, database: str, command: bytes, deadline: Deadline) -> bytes:
        """Return the encoded command with its fields encrypted where the schema says so."""

    async def decrypt(self, reply: bytes, deadline: Deadline) -> bytes:
        """Return the encoded reply with all encrypted values decrypted."""

    async def close(self, grace: float) -> None:
        """Erase the keys from memory, and close what belongs to it."""

    def erase_keys(self) -> None:
        """Erase the keys from memory."""


class _EncryptedOperation:
    """An operation as builder and sender see it: its command is made already, and its reply stays encoded."""

    template = None
    encoded = None
    codec_options = _RAW
    document_fields: Final[dict[str, Any]] = {}

    def __init__(self, operation: Operation[Any], command: Command) -> None:
        self._operation = operation
        self._command = command

    def command(self, facts: ServerFacts) -> Command:
        """Return the command."""
        return self._command

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)


def _encode(document: Mapping[str, Any], codec_options: CodecOptions[Any]) -> bytes:
    """Encode a command. If that fails, the error says which value it is about, as that of other clients does."""
    try:
        return bson.encode(document, codec_options=codec_options)
    except Exception as error:
        from motorlite._base.unencodable import explain

        explain(error)
        raise


def _fields(encoded: bytes) -> Document:
    """Return the fields of a document, whose values stay encoded."""
    return dict(RawBSONDocument(encoded, _RAW).items())


def _without(names: Collection[str], document: RawBSONDocument) -> bytes:
    """Return the encoded document without these fields."""
    if not names:
        return bytes(document.raw)
    return bson.encode({name: value for name, value in document.items() if name not in names}, codec_options=_RAW)


def _has_results_of_client_bulk_write(operation: Operation[Any]) -> bool:
    """Whether errors of single writes are among the documents of the reply's cursor."""
    return operation.name == "bulkWrite" or (
        operation.name == "getMore" and operation.namespace == "admin.$cmd.bulkWrite"
    )


class EncryptingSender(Sender):
    """Sends the commands of one client with automatic encryption."""

    def __init__(self, encryption: Encryption, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._encryption = encryption

    async def send(
        self, run: Run, attempt: Attempt, server: Server, connection: Connection, topology: TopologyDescription
    ) -> Document | None:
        """As that of `Sender`, which gets the encrypted command and returns the encrypted reply.

        Raises:
            EncryptionError: The command could not be encrypted, or the reply could not be decrypted.
        """
        operation: Operation[Any] = run.operation
        command = await self._encrypted(operation, connection.facts, run.call.deadline)
        attempt.sent_at = self._now()
        encrypted: Any = _EncryptedOperation(operation, command)
        run.operation = encrypted
        try:
            reply = await super().send(run, attempt, server, connection, topology)
        except PyMongoError as error:
            decode_details(error)
            standing, attempt.reply = attempt.reply, None
            if standing is not None:
                attempt.reply = await self._decrypted(operation, attempt, connection, standing, run.call.deadline)
            raise
        finally:
            run.operation = operation
        if reply is None:
            return None
        return await self._decrypted(operation, attempt, connection, reply, run.call.deadline)

    async def _decrypted(
        self, operation: Operation[Any], attempt: Attempt, connection: Connection, reply: Any, deadline: Deadline
    ) -> Document:
        """Return a reply with ``ok: 1``, decrypted but for its errors, which others than the caller may see."""
        attempt.progress, attempt.is_executed, attempt.replied_at = Progress.ANSWERED, True, self._now()
        try:
            encoded = reply.raw
            if not _has_results_of_client_bulk_write(operation):
                errors = {name: reply[name] for name in _ERRORS if name in reply}
                encoded = await self._encryption.decrypt(_without(errors, reply), deadline)
                if errors:
                    encoded = bson.encode({**_fields(encoded), **errors}, codec_options=_RAW)
            return decode_reply(encoded, operation.codec_options, operation.document_fields)
        except BaseException:
            cursor = reply.get("cursor")
            if isinstance(cursor, RawBSONDocument):
                self._end_refused(connection, {"cursor": dict(cursor)})
            raise

    async def _encrypted(self, operation: Operation[Any], facts: ServerFacts, deadline: Deadline) -> Command:
        """Return the command of an operation, encrypted if it may have fields of the application."""
        if not self._encryption.encrypts or operation.is_housekeeping or operation.ends is not None:
            command = operation.command(facts)
            encoded = _encode(command.document, operation.codec_options)
            return Command(command.name, _fields(encoded), command.sequences)
        if operation.name == "bulkWrite":
            raise InvalidOperation("bulk_write of a client does not encrypt: use bulk_write of a collection")
        command = operation.command(replace(facts, max_batch_bytes=MAX_BATCH_BYTES))
        document = dict(command.document)
        for sequence in command.sequences:
            # The encryption library knows no sections of a message.
            document[sequence.identifier] = [RawBSONDocument(bytes(each)) for each in sequence.documents]
        encoded = _encode(document, operation.codec_options)
        fields = _fields(await self._encryption.encrypt(operation.database, encoded, deadline))
        # Added again to every command, at its end.
        fields.pop("$db", None)
        return Command(command.name, fields)
