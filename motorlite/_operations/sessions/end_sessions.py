"""Pure: the endSessions command (driver sessions specification, "Closing the client")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from motorlite._execution.operation import WRITABLE, Command, Kind, Operation, TimeLimit
from motorlite._operations.common import UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_preferences import ServerMode

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
