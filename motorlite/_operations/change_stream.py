"""Pure: change streams: their commands, where they resume, and after which errors. `_api.cursors` resumes them.

Change streams specification, "Resumable Error", "Resume Process" and "Updating the Cached Resume Token".
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final

from bson.dbref import DBRef

from motorlite._base.error_documents import CURSOR_NOT_FOUND, REFUSALS, RESUMABLE_CHANGE_STREAM, RESUMABLE_CODES
from motorlite._base.wire_versions import V4_4
from motorlite._operations.cursors import GetMore
from motorlite._operations.reads import Aggregate
from motorlite._wire.replies import document
from motorlite.errors import AutoReconnect, OperationFailure, error_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.timestamp import Timestamp

    from motorlite._base.values import Document, ServerFacts
    from motorlite._operations.contract import Command, CursorReply
    from motorlite.errors import PyMongoError


# From this version on, servers label the errors after which a change stream can continue.
_LABELS: Final = V4_4


class Watch(Aggregate):
    """The aggregate command that opens or resumes a change stream; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ("wire_version",)

    # No list of documents can stand in for a stream of changes.
    is_degradable = False

    # Of the server that got the newest attempt: it decides which of its errors are resumable.
    wire_version: int

    def command(self, facts: ServerFacts) -> Command:
        self.wire_version = facts.max_wire_version
        return super().command(facts)

    def parse(self, reply: Document) -> CursorReply:
        found = super().parse(reply)
        post_batch_token(found)
        return found


class WatchMore(GetMore):
    """The getMore command of a change stream; `parse` returns a CursorReply.

    Retry: never by the retryable reads specification (the change stream resumes instead); overload errors by the
    overload policy, as a read.
    """

    __slots__ = ()

    # The stream resumes on another server, also where this one is lost after it rejected an attempt.
    waits_for_server = False

    def parse(self, reply: Document) -> CursorReply:
        found = super().parse(reply)
        post_batch_token(found)
        return found


def post_batch_token(reply: CursorReply) -> Mapping[str, Any] | None:
    """Return the token from which to resume after the whole batch, if the server sent one.

    Raises:
        ProtocolError: It is not a document.
    """
    cursor: Mapping[str, Any] = reply.reply["cursor"]
    return document(cursor, "postBatchResumeToken") if cursor.get("postBatchResumeToken") is not None else None


class Position:
    """The position of a change stream: what its next aggregate command resumes from.

    Args:
        resume_after: The caller's option of this name.
        start_after: The caller's option of this name.
        start_at_operation_time: The caller's option of this name.
    """

    __slots__ = ("_batch_token", "_given", "_has_returned", "_is_opened", "_operation_time", "token")

    def __init__(
        self,
        resume_after: Mapping[str, Any] | None = None,
        start_after: Mapping[str, Any] | None = None,
        start_at_operation_time: Timestamp | None = None,
    ) -> None:
        given = {
            "resumeAfter": resume_after,
            "startAfter": start_after,
            "startAtOperationTime": start_at_operation_time,
        }
        # The first command has them all: the server reports a conflict.
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        # The token to resume from; None before the server sent the first one, unless the caller has one.
        self.token: Mapping[str, Any] | None = resume_after if start_after is None else start_after
        # Where to resume without a token.
        self._operation_time = start_at_operation_time
        # The token after the current batch.
        self._batch_token: Mapping[str, Any] | None = None
        self._is_opened = False
        # The application has got a change.
        self._has_returned = False

    @property
    def place(self) -> tuple[Mapping[str, Any] | None, bool]:
        """What `returned` changes. Set it again to take back the changes that were returned since."""
        return self.token, self._has_returned

    @place.setter
    def place(self, value: tuple[Mapping[str, Any] | None, bool]) -> None:
        self.token, self._has_returned = value

    def stage_options(self) -> dict[str, Any]:
        """Return the options of the $changeStream stage that say where the next command begins."""
        if not self._is_opened:
            return dict(self._given)
        if self.token is not None:
            is_unread = "startAfter" in self._given and not self._has_returned
            return {"startAfter" if is_unread else "resumeAfter": self.token}
        return {} if self._operation_time is None else {"startAtOperationTime": self._operation_time}

    def opened(self, reply: CursorReply) -> None:
        """Learn where to resume before there is a token, from the reply to an aggregate command."""
        if not self._is_opened and not self._given and not reply.documents and post_batch_token(reply) is None:
            self._operation_time = reply.reply.get("operationTime")
        self._is_opened = True

    def received(self, reply: CursorReply) -> None:
        """Learn the tokens of a batch."""
        self._batch_token = post_batch_token(reply)
        if not reply.documents and self._batch_token is not None:
            self.token = self._batch_token

    def returned(self, change: Mapping[str, Any] | DBRef, *, is_last: bool) -> bool:
        """Move behind a change that the application gets. False if the change has no token to resume from.

        Args:
            change: The change.
            is_last: It is the last one of its batch.
        """
        # A pipeline may make of it what `bson` takes for a DBRef.
        token: Any = None if isinstance(change, DBRef) else change.get("_id")
        if token is None:
            return False
        if is_last and self._batch_token is not None:
            token = self._batch_token
        elif isinstance(token, MutableMapping):
            token = dict(token)  # the application may change its own
        self.token = token
        self._has_returned = True
        return True


def is_resumable(error: PyMongoError, wire_version: int, *, is_reachable: bool = True) -> bool:
    """Whether a change stream whose getMore failed with `error` continues on a new cursor.

    Args:
        error: The error.
        wire_version: That of the server that opened the cursor.
        is_reachable: Whether another getMore could be sent to that server.
    """
    if not is_reachable and not REFUSALS.isdisjoint(error.error_labels):
        # The error is that of an attempt before the one that did not reach the server.
        return True
    code = error_code(error)
    if not error.reached_server or (code is None and not isinstance(error, OperationFailure)):
        # Not the answer of a server to the getMore. What the client itself refused says nothing about the cursor.
        return isinstance(error, AutoReconnect)
    if code == CURSOR_NOT_FOUND:
        return True
    if wire_version >= _LABELS:
        return error.has_error_label(RESUMABLE_CHANGE_STREAM)
    return code in RESUMABLE_CODES
