"""Pure: the contract between an operation and the executor, as values.

An operation declares facts. The executor never branches on the operation's type.
"""

from __future__ import annotations

import enum
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.values import Address, Document, ServerFacts, estimated_size
from motorlite._connection.messages import encoded_fields
from motorlite._topology.selection import WRITABLE, Selector
from motorlite._wire.replies import cursor
from motorlite.retry import SpecificationRetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bson.codec_options import CodecOptions

    from motorlite._base.deadline import Deadline
    from motorlite._sessions.session import Session
    from motorlite.overload import CallBlock, WaitQueue
    from motorlite.read_preferences import ServerMode
    from motorlite.retry import RetryStrategy

R_co = TypeVar("R_co", covariant=True)


class Kind(enum.Enum):
    """Determines the retry options that apply and the error to raise. runCommand is neither a read nor a write."""

    READ = "read"
    WRITE = "write"
    COMMAND = "command"


class TimeLimit(enum.Enum):
    """Whether `maxTimeMS` is appended (client-side operations timeout, "Command Execution")."""

    # The rest of a deadline, or else the client's default.
    SEND = "send"
    # Only the rest of a deadline. killCursors: no default may prevent a cursor from being closed.
    DEADLINE = "deadline"
    # getMore, and all commands of tailable and iteration-mode cursors: only the client enforces the limit. Also what
    # the client does for itself.
    OMIT = "omit"
    # getMore of an awaitData cursor: maxTimeMS is how long the server waits for data, at most the remaining time.
    AWAIT = "await"


class TransactionEnd(enum.Enum):
    """How an operation ends its session's transaction."""

    COMMIT = "commit"
    ABORT = "abort"


class Pin(Protocol):
    """A connection held by one cursor or one transaction (`pinning`)."""

    @property
    def is_usable(self) -> bool:
        """Whether a command can be sent on it."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether nothing can come over it any more."""
        ...

    def release(self) -> None:
        """Return the connection to its pool. Further calls have no effect."""
        ...


def named_collection(document: Document) -> str | None:
    """Return the collection that a command names: the value of its first field. None for ``{aggregate: 1}``."""
    name = next(iter(document.values()))
    return name if isinstance(name, str) else None


class DocumentSequence(NamedTuple):
    """An OP_MSG section of kind 1: the encoded documents of a bulk write."""

    identifier: str
    documents: Sequence[bytes]


class Command:
    """An operation's command. The executor decorates `document` in place, so it must be a new one."""

    __slots__ = ("document", "name", "sequences")

    def __init__(self, name: str, document: Document, sequences: tuple[DocumentSequence, ...] = ()) -> None:
        self.name: str = name
        # The first key is the command's name.
        self.document: Document = document
        self.sequences: tuple[DocumentSequence, ...] = sequences


class Template:
    """A command with all fields but one the same for many operations; these are encoded once.

    It has none of the fields that the executor adds, and neither a time limit nor a comment. Its operations support
    sessions and are acknowledged.
    """

    __slots__ = ("after", "before", "command", "value_prefix", "varying")

    def __init__(self, command: Command, varying: str) -> None:
        # With any value of the varying field. Shared: do not change it.
        self.command: Command = command
        self.varying: str = varying
        fields = list(command.document.items())
        at = list(command.document).index(varying)
        # The fields before and behind the varying one, as bytes.
        self.before: bytes = encoded_fields(dict(fields[:at]))
        self.after: bytes = encoded_fields(dict(fields[at + 1 :]))
        # What comes before the value of the varying field; None if that is not a document.
        is_document = isinstance(command.document[varying], dict)
        self.value_prefix: bytes | None = self.before + b"\x03" + varying.encode() + b"\0" if is_document else None


class Operation(Generic[R_co]):
    """The facts that an operation declares. Subclasses set them as class attributes and may override them per instance.

    `command` and `parse` are synchronous and have no side effects except on the operation itself. The executor calls
    `command` for every attempt with the facts of the selected server. It must build an equivalent command each time
    (a bulk batch keeps its documents) and raises if this server cannot run one.
    """

    __slots__ = ("codec_options", "database", "read_preference", "selector")

    # The command's name, for errors and events.
    name: str
    # The name of the driver's operation where it is not that of the command, for operation events.
    operation_name: str | None = None
    kind: ClassVar[Kind]
    # The retryable reads or retryable writes specification permits a retry. Writes with this flag also take a
    # txnNumber.
    is_retryable: bool = False
    # Sending it again changes nothing more than sending it once, whatever other clients did meanwhile (an input for
    # retry strategies). Reads are; dropping twice is not, since it can drop what was created in between.
    is_idempotent: bool = False
    # Continues admitted work (getMore, the further commands of a bulk write, the end of a transaction): limits,
    # breakers and queues never refuse it.
    is_continuation: bool = False
    # Frees the server's resources for the driver (killCursors, endSessions): never refused either, and takes no tokens.
    is_housekeeping: bool = False
    supports_sessions: bool = True
    # False for w: 0: the command is sent with moreToCome and no reply is read.
    is_acknowledged: bool = True
    time_limit: TimeLimit = TimeLimit.SEND
    # Executed by `Executor.open`, and `parse` returns a CursorReply. The cursor keeps an implicit session. The deadline
    # of a cancel scope does not become the cursor's maxTimeMS.
    creates_cursor: bool = False
    # An operation that opens a cursor: further commands of the cursor use the connection of the first one, even without
    # a load balancer.
    keeps_connection: bool = False
    # The server may send further replies without further requests. Sent again on the same connection, it waits for the
    # next of these replies. Needs a `pin`.
    is_exhaust: bool = False
    # commitTransaction, abortTransaction: part of a transaction that has ended for all others, and retried whatever
    # retryReads and retryWrites say.
    ends: ClassVar[TransactionEnd | None] = None
    # An error of the server may come after a part of its writes, which remain.
    writes_until_error: ClassVar[bool] = False
    # Of a reply with ``ok: 0`` and a write concern error, the latter is raised, as in PyMongo.
    prefers_concern_error: ClassVar[bool] = False
    # The caller chose the read preference for this call alone, so that of a transaction does not replace it.
    has_own_preference: bool = False
    # Where no suitable server is known, an attempt waits for one. If this is False, the attempt fails at once.
    waits_for_server: ClassVar[bool] = True
    # The cursor whose batch it asks for; 0: none.
    cursor_id: int = 0
    # The connection to use. None: one to a server that `selector` selects.
    pin: Pin | None = None
    # The server may delay the reply while it waits for data (awaitData), so a pending reply is never drained.
    is_await_data: bool = False
    # Reads by the server discovery rules may go to secondaries. The command then carries `read_preference`.
    # A causally consistent session adds readConcern.afterClusterTime (read and write concern specification,
    # "afterClusterTime": reads, and since 2026-05-04 writes).
    supports_after_cluster_time: bool = False
    # A call's fallback may answer it instead of a server: it returns what the application reads, and writes nothing.
    is_degradable: ClassVar[bool] = False
    # Reply fields with user documents, decoded with the user's codec options. Given as the nested mapping
    # {"cursor": {"firstBatch": 1}}. None: the whole reply is decoded with default options.
    document_fields: ClassVar[Mapping[str, Any] | None] = None
    # The encoded part of the command that `command` builds, and the value of the field that is not in it. None: the
    # command has to be built and encoded as a whole.
    template: Template | None = None
    varying: Any = None
    # That value is an array of one document, which is encoded already.
    encoded: bytes | None = None

    def __init__(
        self,
        database: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    ) -> None:
        self.database: str = database
        # The suitable servers: a read preference, WRITABLE, or the address of the cursor's server.
        self.selector: Selector = selector
        # Sent as $readPreference; None for writes.
        self.read_preference: ServerMode | None = read_preference
        self.codec_options: CodecOptions[Any] = codec_options

    @property
    def collection_name(self) -> str | None:
        """The collection that it works on, for operation events; None for a database or a user-defined command."""
        return None

    @property
    def namespace(self) -> str:
        """The collection as "database.collection", or the database of a command without one."""
        name = self.collection_name
        return self.database if name is None else f"{self.database}.{name}"

    @property
    def is_admitted(self) -> bool:
        """Whether the client must send it: it continues admitted work, or frees what that work holds."""
        return self.is_continuation or self.is_housekeeping

    def reading_from(self, preference: ServerMode) -> Self:
        """Return the same operation for the servers of another read preference."""
        twin = copy(self)
        twin.selector = twin.read_preference = preference
        return twin

    def size_hint(self) -> int:
        """Estimate the size of the command in bytes, without encoding it. Commands of fixed size count nothing."""
        document = getattr(self, "_document", None)
        return 0 if document is None else estimated_size(document)

    def command(self, facts: ServerFacts) -> Command:
        """Build the command for a server with these facts."""
        raise TypeError(f"{type(self).__name__} does not build a command")

    def parse(self, reply: Document) -> R_co:
        """Return the result from a reply with ``ok: 1``. Raises the write errors and write concern errors in it."""
        raise TypeError(f"{type(self).__name__} does not parse a reply")

    def unacknowledged(self) -> R_co:
        """Return the result of an unacknowledged operation, which has no reply."""
        raise TypeError(f"{type(self).__name__} is always acknowledged")


class CursorReply:
    """A batch of documents, and the server-side cursor that returned it.

    Raises:
        ProtocolError: The reply has no such cursor.
    """

    __slots__ = ("cursor_id", "documents", "namespace", "reply")

    def __init__(self, reply: Document, field: str) -> None:
        self.cursor_id: int
        # "database.collection" of the cursor, for getMore.
        self.namespace: str
        self.documents: list[Any]
        # An id of 0: the server has closed the cursor.
        self.cursor_id, self.namespace, self.documents = cursor(reply, field)
        self.reply: Document = reply


@dataclass(slots=True, eq=False, repr=False)
class Opened:
    """An open cursor: its first batch, and the state that its further commands need."""

    reply: CursorReply
    # Of the cursor's server.
    address: Address
    # The implicit session that the cursor now owns, or None.
    session: Session | None
    # The connection that the cursor now owns behind a load balancer, or None.
    pin: Pin | None


# The settings of one public call.

DEFAULT_PRIORITY: Final = 50
DEFAULT_STRATEGY: Final = SpecificationRetry()


@dataclass(slots=True, eq=False, repr=False)
class CallOptions:
    """What clients, databases, collections and `motorlite.call_options` blocks set for calls. Immutable and shared."""

    # 0 to 100; operations with higher numbers leave a queue that orders by priority first.
    priority: int = DEFAULT_PRIORITY
    # Data of the application, for its own retry strategy.
    context: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    # Decides about retries that the specifications refuse.
    retry_strategy: RetryStrategy = DEFAULT_STRATEGY
    # The priority of the outermost block that sets one; None: no block does.
    assigned_priority: int | None = None
    # The block whose fallback answers operations that the client refuses to send, or None.
    fallback: CallBlock | None = None
    # Whether a block may set one. Not for the driver's own reads, on which its next writes depend.
    takes_fallback: bool = True
    # Whether the operation took its tokens of the rate limits before its fallback executes it again.
    has_tokens: bool = False
    # Keeps a retry strategy's own operations out of the session that the caller has bound.
    apart: Callable[[], AbstractContextManager[None]] = nullcontext
    # The rules for waiting for a connection; None: the client has none.
    wait_queue: WaitQueue | None = None
    # The settings of blocks that the client ignores and has not warned about yet. The only part that changes; all calls
    # of a client share it.
    unread: set[str] = field(default_factory=set)

    def with_options(self, **options: Any) -> CallOptions:
        """Return a copy with some attributes replaced."""
        return replace(self, **options)


DEFAULT_OPTIONS: Final = CallOptions()
"""Shared by all calls without options of their own."""


class Call:
    """The settings of one call, independent of its operation. All commands of one call share one instance.

    Attributes:
        session: The caller's session, or the implicit session of a cursor or a bulk write. None: the executor acquires
            a server session for this operation alone.
        deadline: When the call must end.
        operation_id: The id that all its command events share. None: each operation has its own id.
        options: The options that the call inherited.
    """

    __slots__ = ("deadline", "operation_id", "options", "session")

    def __init__(
        self,
        session: Session | None,
        deadline: Deadline,
        operation_id: int | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.session: Session | None = session
        self.deadline: Deadline = deadline
        self.operation_id: int | None = operation_id
        self.options: CallOptions = options
