"""Pure: the commands that end sessions and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from motorlite._base.error_documents import UNKNOWN_COMMIT_RESULT
from motorlite._operations.common import UNREAD
from motorlite._operations.contract import Command, Kind, Operation, TimeLimit, TransactionEnd
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import check_write_concern, concern_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_preferences import ServerMode


# The endSessions command (driver sessions specification, "Closing the client").

# The maximum number of session ids in one command.
MAX_SESSIONS: Final = 10_000


class EndSessions(Operation["Document"]):
    """End sessions on a server. The caller ignores errors.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ("_session_ids",)

    name = "endSessions"
    kind = Kind.COMMAND
    is_housekeeping = True
    supports_sessions = False
    time_limit = TimeLimit.OMIT
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(
        self,
        session_ids: Sequence[Mapping[str, Any]],
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
    ) -> None:
        super().__init__("admin", selector=selector, read_preference=read_preference, codec_options=UNREAD)
        self._session_ids = session_ids

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, {"endSessions": self._session_ids})

    def parse(self, reply: Document) -> Document:
        return reply


def session_batches(session_ids: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Split `session_ids` into batches for one command each."""
    for start in range(0, len(session_ids), MAX_SESSIONS):
        yield session_ids[start : start + MAX_SESSIONS]


# The commands that end a transaction (transactions specification, "commitTransaction", "abortTransaction").

# CannotSatisfyWriteConcern, UnknownReplWriteConcern: another attempt with this write concern would fail as well.
_WRONG_CONCERN: Final = frozenset({100, 79})


class EndTransaction(Operation[None]):
    """A command that ends the transaction of its session, which adds the fields.

    Its time limit is the caller's own: with the client's default, the outcome could remain unknown.

    Retry: retryable write, whatever retryWrites says.
    """

    __slots__ = ()

    kind = Kind.WRITE
    is_retryable = True
    # The server ignores a repetition.
    is_idempotent = True
    is_continuation = True
    time_limit = TimeLimit.DEADLINE
    ends: ClassVar[TransactionEnd | None]

    def __init__(self) -> None:
        super().__init__("admin")

    def parse(self, reply: Document) -> None:
        check_write_concern(reply)


class CommitTransaction(EndTransaction):
    """Commit the session's transaction.

    Retry: retryable write, whatever retryWrites says.
    """

    __slots__ = ("_max_time_ms",)

    name = "commitTransaction"
    ends = TransactionEnd.COMMIT

    def __init__(self, max_time_ms: int | None = None) -> None:
        super().__init__()
        self._max_time_ms = max_time_ms

    def command(self, facts: ServerFacts) -> Command:
        document: Document = {"commitTransaction": 1}
        if self._max_time_ms is not None:
            document["maxTimeMS"] = self._max_time_ms
        return Command(self.name, document)

    def parse(self, reply: Document) -> None:
        error = concern_error(reply)
        if error is None:
            return
        if error.code not in _WRONG_CONCERN:
            # The transaction is committed, but may be rolled back.
            error._add_error_label(UNKNOWN_COMMIT_RESULT)
        try:
            raise error
        finally:
            del error  # its traceback references this frame


class AbortTransaction(EndTransaction):
    """Abort the session's transaction.

    Retry: retryable write, whatever retryWrites says.
    """

    __slots__ = ()

    name = "abortTransaction"
    ends = TransactionEnd.ABORT
    is_housekeeping = True

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, {"abortTransaction": 1})
