"""Pure: the contract between an operation and the executor, as values.

An operation declares facts; the executor never asks which operation it has.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._replies import cursor
from motorlite._topology.selection import WRITABLE, Selector, WritesByPreference
from motorlite.values import Address, Document, ServerFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._execution.session import Session
    from motorlite.read_preferences import _ServerMode

__all__ = [
    "WRITABLE",
    "Address",
    "Command",
    "CursorReply",
    "Document",
    "DocumentSequence",
    "Kind",
    "Operation",
    "Pin",
    "Selector",
    "ServerFacts",
    "TimeLimit",
    "WritesByPreference",
]


class Kind(enum.Enum):
    """Which retry options apply and which error leaves the loop; runCommand is neither a read nor a write."""

    READ = "read"
    WRITE = "write"
    COMMAND = "command"


class TimeLimit(enum.Enum):
    """Whether `maxTimeMS` is appended when a deadline is set (client-side operations timeout, "Command Execution")."""

    SEND = "send"
    # getMore, and everything of tailable and iteration-mode cursors: the limit is kept by the client alone.
    OMIT = "omit"
    # getMore of an awaitData cursor: maxTimeMS is how long the server waits for data, at most what is left.
    AWAIT = "await"


class Pin(Protocol):
    """A connection that one cursor keeps (`pinning`)."""

    @property
    def is_usable(self) -> bool:
        """Whether a command can be sent on it."""
        ...

    def release(self) -> None:
        """Give the connection back to its pool; only the first call has an effect."""
        ...


class DocumentSequence(NamedTuple):
    """An OP_MSG section of kind 1: documents of a bulk write, already encoded."""

    identifier: str
    documents: Sequence[bytes]


class Command:
    """A command as the operation wants it; the executor decorates `document` in place, so it must be a new one."""

    __slots__ = ("document", "name", "sequences")

    def __init__(self, name: str, document: Document, sequences: tuple[DocumentSequence, ...] = ()) -> None:
        self.name: str = name
        # The first key is the command's name.
        self.document: Document = document
        self.sequences: tuple[DocumentSequence, ...] = sequences


class Operation:
    """What an operation tells the executor. Subclasses set the class facts and may override them per instance.

    `command` and `parse` are synchronous and free of side effects on anything but the operation itself. `command` is
    called again for every attempt, with the facts of the server that was selected for it, and must build an
    equivalent command (a bulk batch keeps its documents); it raises when this server cannot have it.
    """

    __slots__ = ("codec_options", "database", "read_preference", "selector")

    # The command's name, for errors and events.
    name: str
    kind: ClassVar[Kind]
    # May be retried by the retryable reads or retryable writes specification. For writes this also means that the
    # command takes a txnNumber.
    is_retryable: bool = False
    # Executing it twice has the effect of executing it once (an input for user strategies).
    is_idempotent: bool = False
    supports_sessions: bool = True
    # False for w: 0: the command is sent with moreToCome and no reply is read.
    is_acknowledged: bool = True
    time_limit: TimeLimit = TimeLimit.SEND
    # `parse` returns a CursorReply; an implicit session stays with the cursor, and the deadline of a cancel scope
    # does not become the cursor's maxTimeMS.
    creates_cursor: bool = False
    # The connection that it has to be sent on; None: one to a server that `selector` selects.
    pin: Pin | None = None
    # The reply may be sent by a server that is waiting for data (awaitData): it is never drained.
    is_await_data: bool = False
    # Reads by the server discovery rules may go to secondaries; the command carries `read_preference` then.
    # A causally consistent session adds readConcern.afterClusterTime (read and write concern specification,
    # "afterClusterTime": reads, and since 2026-05-04 writes).
    supports_after_cluster_time: bool = False
    # Fields of the reply that hold user documents, to be decoded with the user's codec options, as the nested
    # mapping {"cursor": {"firstBatch": 1}}; None: the whole reply is decoded with default options.
    document_fields: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self,
        database: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    ) -> None:
        self.database: str = database
        # Which servers are suitable: a read preference, WRITABLE, or the address of the server that has the cursor.
        self.selector: Selector = selector
        # What is sent as $readPreference, None for writes.
        self.read_preference: _ServerMode | None = read_preference
        self.codec_options: CodecOptions[Any] = codec_options

    def command(self, facts: ServerFacts) -> Command:
        """Build the command for a server with these facts."""
        raise TypeError(f"{type(self).__name__} does not build a command")

    def parse(self, reply: Document) -> Any:
        """The operation's result, from a reply with ``ok: 1``. Raises the write (concern) errors in it."""
        return reply


class CursorReply:
    """A batch of documents and the server-side cursor they came from.

    Raises:
        ProtocolError: The reply has no such cursor.
    """

    __slots__ = ("address", "cursor_id", "documents", "namespace", "pin", "reply", "session")

    def __init__(self, reply: Document, field: str) -> None:
        self.cursor_id: int
        # "database.collection" of the cursor, which getMore must name.
        self.namespace: str
        self.documents: list[Any]
        # An id of 0: the server has closed the cursor.
        self.cursor_id, self.namespace, self.documents = cursor(reply, field)
        self.reply: Document = reply
        # Set by the executor: where the cursor lives, and the implicit session and (behind a load balancer) the
        # connection that now belong to it.
        self.address: Address | None = None
        self.session: Session | None = None
        self.pin: Pin | None = None
