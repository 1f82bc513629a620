"""Pure: a command that the user wrote (run command specification): nothing in it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import WRITABLE, Command, CursorReply, Kind, Operation, TimeLimit
from motorlite._operations.common import FIRST_BATCH
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_preferences import _ServerMode

# Commands that let the server wait for news, and the field that says how long.
_AWAIT_TIMES: Final = {
    "getMore": "maxTimeMS",
    "hello": "maxAwaitTimeMS",
    "isMaster": "maxAwaitTimeMS",
    "ismaster": "maxAwaitTimeMS",
}


class RunCommand(Operation):
    """A command of the user; `parse` returns the reply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ("_document", "is_await_data", "name", "time_limit")

    kind = Kind.COMMAND
    # The whole reply is the user's.
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(
        self,
        database: str,
        command: Mapping[str, Any],
        *,
        selector: Selector = WRITABLE,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        time_limit: TimeLimit = TimeLimit.SEND,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self.time_limit = time_limit
        # A copy: what the caller does with its document afterwards must not change a retry.
        self._document = dict(command)
        if not self._document:
            raise ValueError("a command must not be empty: its first key is its name")
        self.name = next(iter(self._document))
        self.is_await_data = _AWAIT_TIMES.get(self.name) in self._document

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())


class RunCursorCommand(RunCommand):
    """A command of the user whose reply has a cursor; `parse` returns a CursorReply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    creates_cursor = True
    document_fields = FIRST_BATCH

    def parse(self, reply: Document) -> CursorReply:
        if "cursor" not in reply:
            raise InvalidOperation(f"the reply to {self.name} has no cursor; use command() instead")
        return CursorReply(reply, "firstBatch")
