"""Pure: user-defined commands (run command specification), sent without inspection, and buildInfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.arguments import wrong
from motorlite._operations.common import FIRST_BATCH
from motorlite._operations.contract import Command, CursorReply, Kind, Operation, R_co, TimeLimit
from motorlite._topology.selection import WRITABLE
from motorlite.errors import InvalidOperation
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_preferences import ServerMode


# A user-defined command (run command specification), sent without inspecting its fields.

# Commands that make the server wait for changes, and the field that sets how long.
_AWAIT_TIMES: Final = {
    "getMore": "maxTimeMS",
    "hello": "maxAwaitTimeMS",
    "isMaster": "maxAwaitTimeMS",
    "ismaster": "maxAwaitTimeMS",
}
# Commands that free what the server holds, so that no default may prevent them.
_SHORT: Final = ("killCursors", "endSessions", "killOp", "killSessions", "killAllSessions")


def command_document(command: Any, value: Any, comment: Any, fields: Mapping[str, Any]) -> Document:
    """Return a command as a new document: its name and value, or the whole command, then `comment` and `fields`.

    Raises:
        TypeError: `command` is neither a name nor a mapping.
    """
    if not isinstance(command, str | Mapping):
        raise TypeError(wrong("command", command, "a string or a mapping"))
    document = {command: value} if isinstance(command, str) else dict(command)
    if comment is not None:
        document["comment"] = comment
    document.update(fields)
    return document


class VerbatimCommand(Operation[R_co]):
    """A user-defined command.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ("_document", "has_own_preference", "is_await_data", "name", "time_limit")

    # Not the name of the command, which may be anything.
    operation_name = "runCommand"
    kind = Kind.COMMAND
    # The whole reply is decoded with the user's codec options.
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(
        self,
        database: str,
        command: Mapping[str, Any],
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        time_limit: TimeLimit = TimeLimit.SEND,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self.time_limit = time_limit
        # Of the database's methods, only these two take one.
        self.has_own_preference = False
        # A copy: if the caller changes its document later, retries must not change.
        self._document = dict(command)
        if not self._document:
            raise ValueError("a command must not be empty: its first key is its name")
        self.name = next(iter(self._document))
        self.is_await_data = _AWAIT_TIMES.get(self.name) in self._document
        if self.is_await_data and self.name == "getMore":
            # Its maxTimeMS is the time that the server waits, not a limit that a timeout replaces.
            self.time_limit = TimeLimit.AWAIT
        elif self.name == "getMore":
            self.time_limit = TimeLimit.OMIT  # the server refuses it for a cursor that does not wait for data
        elif self.is_await_data or self.name in _SHORT:
            self.time_limit = TimeLimit.DEADLINE

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())

    @property
    def namespace(self) -> str:
        return self.database  # the first field need not be a collection


class RunCommand(VerbatimCommand["Document"]):
    """A user-defined command; `parse` returns the reply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document:
        return reply


class RunCursorCommand(VerbatimCommand[CursorReply]):
    """A user-defined command whose reply has a cursor; `parse` returns a CursorReply.

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


# The buildInfo command.


class BuildInfo(RunCommand):
    """The version of the primary and how it was built; `parse` returns the reply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    is_idempotent = True

    def __init__(self) -> None:
        primary = ReadPreference.PRIMARY
        super().__init__("admin", {"buildInfo": 1}, selector=primary, read_preference=primary)
