"""Pure: builds the command of each attempt: session, transaction number and maxTimeMS are added to its own fields."""

from __future__ import annotations

from math import ceil, inf
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64

from motorlite._base import wire_versions
from motorlite._base.deadline import NO_DEADLINE
from motorlite._connection.messages import (
    encode_around_large,
    encode_around_small,
    encode_command,
    encode_parts,
    encoded_fields,
)
from motorlite._operations.contract import Kind, TimeLimit
from motorlite._sessions.session import ENDED, UNACKNOWLEDGED, UNSUPPORTED, newest_cluster_time
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError, no_time_left
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Document, ServerFacts
    from motorlite._execution.run import Attempt, Run
    from motorlite._net.runtime import Parts
    from motorlite._operations.contract import Command, Operation
    from motorlite._sessions.session import ServerSession, Session, SessionPool
    from motorlite._topology.topology_description import TopologyDescription
    from motorlite.read_preferences import ServerMode


# A client's default maxTimeMS, and the comment by which abandoned operations are found; `building` adds both.

LONGEST_MS: Final = 2**31 - 1
"""The largest maxTimeMS that servers accept."""


def default_milliseconds(seconds: float | None) -> int | None:
    """Convert a default to whole milliseconds, rounded up: a short limit must not become 0, which is no limit."""
    if seconds is None:
        return None
    if seconds in (0, inf):
        return 0
    # A product of floats may be a little above a whole number.
    return max(1, ceil(round(min(seconds * 1000, LONGEST_MS), 6)))


def document_milliseconds(value: Any) -> int:
    """Return the limit in a document of the deployment. The mongo shell writes its numbers as doubles.

    Raises:
        ValueError: It is not a whole number of milliseconds from 0 to `LONGEST_MS`.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_MS:
        milliseconds = int(value)
        if milliseconds == value:
            return milliseconds
    raise ValueError(f"not a whole number of milliseconds from 0 to {LONGEST_MS}")


class CommandDefaults:
    """The default maxTimeMS of one client, from up to three sources, and the comments of its operations.

    The nearer source wins: what the application set through the client, then the document of the deployment, then the
    client option. 0 is no limit; a source that is None says nothing.
    """

    __slots__ = ("_chosen", "_document", "_option", "are_used", "comment", "milliseconds")

    def __init__(self, option: int | None = None, comment: str = "") -> None:
        self._option = option
        self._document: int | None = None
        self._chosen: int | None = None
        # Begins the comments by which operations are recognized on their server; empty: they get none.
        self.comment: str = comment
        # The default in force; 0: none.
        self.milliseconds: int
        # Whether commands get anything at all. Read for every command.
        self.are_used: bool
        self._update()

    @property
    def chosen(self) -> int | None:
        """The application's choice, or None."""
        return self._chosen

    def choose(self, milliseconds: int | None) -> None:
        """Set the application's choice; None takes it back."""
        self._chosen = milliseconds
        self._update()

    def read(self, milliseconds: int | None) -> None:
        """Learn what the document of the deployment says; None: there is none."""
        self._document = milliseconds
        self._update()

    def _update(self) -> None:
        sources = (self._chosen, self._document, self._option)
        self.milliseconds = next((source for source in sources if source is not None), 0)
        self.are_used = bool(self.milliseconds or self.comment)


# Adds the common fields to a command: session, transaction number, limits, comment, API version.

_PRIMARY = 0
_SCOPE_MARGIN_MS = 5
_PRIMARY_PREFERRED = {"mode": "primaryPreferred"}
# Commands whose maxTimeMS a mongos does not pass on to the shards before 5.0 (SERVER-46187).
_WRITES = ("insert", "update", "delete")
# Commands that take a comment before 4.4, where it became a field of every command.
_TOOK_COMMENTS = ("find", "aggregate")
# Seconds to wait for a late reply: beyond the command's own time limit, and for a command without one.
_WAIT_BEYOND_LIMIT: Final = 1.0
_WAIT_WITHOUT_LIMIT: Final = 1.0
# Neither limited nor commented: they are not the user's operations, and they are short.
_UNLIMITED = (TimeLimit.DEADLINE, TimeLimit.AWAIT)


def add_time_limit(
    document: Document,
    operation: Operation[Any],
    deadline: Deadline,
    now: float,
    min_round_trip_time: float,
    *,
    is_cryptd: bool = False,
) -> None:
    """Append maxTimeMS from the deadline (client-side operations timeout, "Command Execution"), but not to mongocryptd.

    A timeout replaces the caller's maxTimeMS and wtimeout, even if it sets no limit ("Validation and Overrides").

    Raises:
        ExecutionTimeout: The operation's own deadline leaves less time than one round trip takes.
    """
    if deadline.is_set:
        remove_older_limits(document, operation)
    time_limit = operation.time_limit
    if time_limit is TimeLimit.OMIT or is_cryptd:
        if deadline.expires_at - now <= 0:
            raise no_time_left(deadline.timeout)
        return
    is_await_time = time_limit is TimeLimit.AWAIT
    if deadline.expires_at != inf:
        milliseconds = int((deadline.expires_at - now - min_round_trip_time) * 1000)
        if milliseconds <= 0:
            raise no_time_left(deadline.timeout)
        milliseconds = min(milliseconds, LONGEST_MS)
        document["maxTimeMS"] = min(milliseconds, document["maxTimeMS"]) if is_await_time else milliseconds
    if time_limit is not TimeLimit.SEND:
        return
    remaining = deadline.scope_expires_at - now
    if 0 < remaining < inf and not operation.creates_cursor:
        # A hint to the server, deliberately a little late: the cancel scope itself must end the operation here.
        milliseconds = min(ceil(remaining * 1000) + _SCOPE_MARGIN_MS, LONGEST_MS)
        document["maxTimeMS"] = min(milliseconds, document.get("maxTimeMS") or milliseconds)


def add_server_limits(
    document: Document,
    operation: Operation[Any],
    deadline: Deadline,
    facts: ServerFacts,
    limits: CommandDefaults,
    request_id: int,
) -> None:
    """Append the client's default maxTimeMS, and the comment by which an abandoned operation can be killed.

    The caller's own value wins: maxTimeMS, be it 0, or a timeout, which `add_time_limit` appends afterwards.
    """
    sends = operation.time_limit is TimeLimit.SEND and not facts.is_cryptd
    if limits.milliseconds and sends and not deadline.is_set:
        document.setdefault("maxTimeMS", limits.milliseconds)
    if (
        limits.comment
        and operation.time_limit not in _UNLIMITED
        and not operation.is_housekeeping
        and (facts.max_wire_version >= wire_versions.V4_4 or operation.name in _TOOK_COMMENTS)
    ):
        document.setdefault("comment", f"{limits.comment} {request_id}")


def server_limit(document: Mapping[str, Any], facts: ServerFacts) -> float | None:
    """Return the milliseconds after which the server ends the command as sent, or None if it does not."""
    limit = document.get("maxTimeMS")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        return None
    if facts.is_mongos and facts.max_wire_version < wire_versions.V5_0 and next(iter(document)) in _WRITES:
        return None
    return float(limit)


def comment_of_abandoned(document: Mapping[str, Any], facts: ServerFacts, limits: CommandDefaults) -> str | None:
    """Return the comment by which to kill an operation that its caller left, or None.

    None also if the server ends it by itself, and if it has a comment of the caller's own, which other operations, or
    its own retry, may have too.
    """
    comment = document.get("comment")
    if not limits.comment or not isinstance(comment, str) or not comment.startswith(limits.comment):
        return None
    return comment if server_limit(document, facts) is None else None


def worth_waiting_until(limit: float | None, sent_at: float, now: float) -> float:
    """The loop time until which to wait for a late reply. Then the connection closes, so the server stops the work.

    Args:
        limit: The milliseconds after which the server ends the command; None: it does not.
        sent_at: The loop time at which it was sent.
        now: The loop time at which its caller stopped waiting.
    """
    if limit is None:
        return now + _WAIT_WITHOUT_LIMIT
    return max(now, sent_at + limit / 1000) + _WAIT_BEYOND_LIMIT


def remove_older_limits(document: Document, operation: Operation[Any]) -> None:
    """Remove the limits that a timeout replaces."""
    if operation.time_limit is not TimeLimit.AWAIT:
        document.pop("maxTimeMS", None)
    if "wtimeout" in document.get("writeConcern", ()):
        document["writeConcern"] = {key: value for key, value in document["writeConcern"].items() if key != "wtimeout"}
        if not document["writeConcern"]:
            del document["writeConcern"]


def add_session(document: Document, server_session: ServerSession, transaction_number: int | None) -> None:
    """Append lsid and txnNumber."""
    document["lsid"] = server_session.lsid
    if transaction_number is not None:
        document["txnNumber"] = Int64(transaction_number)


def add_session_times(document: Document, operation: Operation[Any], session: Session, facts: ServerFacts) -> None:
    """Append what a session outside of transactions asks of a read: afterClusterTime, or that of its snapshot.

    Every command of a snapshot session has its read concern, so that the server refuses those that cannot read from a
    snapshot (snapshot reads specification).

    Raises:
        ConfigurationError: The server has no snapshot reads.
    """
    if session.is_snapshot:
        if facts.max_wire_version < wire_versions.V5_0:
            raise ConfigurationError("Snapshot reads require MongoDB 5.0 or later")
        concern = {**(document.get("readConcern") or {}), "level": "snapshot"}
        if session.snapshot_time is not None:
            concern["atClusterTime"] = session.snapshot_time
        document["readConcern"] = concern
    elif (
        session.is_causally_consistent and session.operation_time is not None and operation.supports_after_cluster_time
    ):
        concern = document.get("readConcern") or {}
        document["readConcern"] = {**concern, "afterClusterTime": session.operation_time}


def sent_preference(preference: ServerMode, facts: ServerFacts, *, is_direct: bool) -> Document | None:
    """Return $readPreference, or None (server selection specification, "Passing read preference to mongos...").

    `is_direct`: the topology is a single server. A replica set member then needs an explicit read preference.
    """
    if facts.is_standalone:
        return None
    if preference.mode != _PRIMARY:
        return preference.document
    return _PRIMARY_PREFERRED if is_direct and not facts.is_mongos else None


def add_api_version(document: Document, declaration: Mapping[str, Any]) -> None:
    """Append the declared API version (versioned API specification). Fields that the user set are kept."""
    for key, value in declaration.items():
        document.setdefault(key, value)


# Builds the command for each attempt, for the selected server.
#
# Most commands get nothing but their session, the cluster time, a read preference and the database. These fields are
# the same for many commands, so they are encoded once and appended as bytes (`_tail`). Any other field makes the
# command take the general way, on which all fields are put into its document. Both ways send the same bytes.

_SINGLE, _WRITE = TopologyType.Single, Kind.WRITE
# The fields of `_tail`. Some commands have fields of the application, which may be among them.
_APPENDED: Final = frozenset({"lsid", "txnNumber", "$clusterTime", "$readPreference", "$db"})
_NUMBER: Final = Struct("<11sq")
# Encoded databases and read preferences that a builder keeps.
_MOST: Final = 1000


class CommandBuilder:
    """Builds the commands of one client."""

    def __init__(
        self,
        sessions: SessionPool,
        limits: CommandDefaults,
        *,
        retry_writes: bool,
        api_declaration: Mapping[str, Any] | None,
    ) -> None:
        self._sessions = sessions
        self._limits = limits
        self._retry_writes = retry_writes
        # apiVersion and its companions, or None.
        self._api_declaration = api_declaration
        # The newest cluster time that any server reported ("gossiping the cluster time"), and its field as bytes: empty
        # until a command needs it.
        self.cluster_time: Mapping[str, Any] | None = None
        self._encoded_time = b""
        # Fields as bytes: $db, which ends the command, by database; $readPreference by its document's identity.
        self._databases: dict[str, bytes] = {}
        self._preferences: dict[int, tuple[Document, bytes]] = {}

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Learn the cluster time from a reply."""
        newest = newest_cluster_time(self.cluster_time, reply.get("$clusterTime"))
        if newest is not self.cluster_time:
            self.cluster_time, self._encoded_time = newest, b""

    def build(
        self,
        run: Run,
        attempt: Attempt,
        facts: ServerFacts,
        request_id: int,
        now: float,
        topology: TopologyDescription,
        *,
        is_shown: bool,
    ) -> tuple[Command, bytes | Parts]:
        """Build the command and its message for a server with these facts. The first attempt acquires the session.

        Args:
            run: The operation.
            attempt: The attempt to send it.
            facts: The facts of the connection's server.
            request_id: The id of the message.
            now: Loop time.
            topology: The deployment.
            is_shown: Whether listeners get the command. If not, its document may lack what is appended as bytes.

        Raises:
            InvalidOperation: This server cannot run an equivalent command for a retry; the earlier error is raised.
        """
        operation, call, session = run.operation, run.call, run.call.session
        try:
            is_usual = (
                call.deadline is NO_DEADLINE
                and (session is None or session.is_implicit)
                and not is_shown
                and facts.supports_sessions
                and self._api_declaration is None
                and not self._limits.are_used
            )
            template = operation.template
            if template is not None and is_usual:
                after = template.after + self._tail(run, facts, now, topology)
                if template.value_prefix is not None:
                    varying = operation.varying
                    message = encode_around_small(template.value_prefix, varying, after, request_id, facts)
                    if message is not None:
                        return template.command, message
                parts = template.before, after
                if operation.encoded is not None:
                    large = encode_around_large(template.varying, operation.encoded, parts, request_id, facts)
                    return template.command, large
                fields = {template.varying: operation.varying}
                return template.command, encode_parts(fields, operation.codec_options, parts, request_id, facts)
            command = operation.command(facts)
            if (
                is_usual
                and operation.supports_sessions
                and operation.is_acknowledged
                and _APPENDED.isdisjoint(command.document)
            ):
                parts = b"", self._tail(run, facts, now, topology)
                codec_options, sequences = operation.codec_options, command.sequences
                return command, encode_parts(
                    command.document,
                    codec_options,
                    parts,
                    request_id,
                    facts,
                    sequences,
                    is_exhaust=operation.is_exhaust,
                )
            return command, self._decorated(command, run, attempt, facts, request_id, now, topology)
        except Exception as error:
            _not_built(run, error)
            raise

    def _tail(self, run: Run, facts: ServerFacts, now: float, topology: TopologyDescription) -> bytes:
        """Return what follows the operation's own fields, as bytes."""
        operation = run.operation
        tail = self._server_session(run, facts, now).encoded
        if run.transaction_number is not None:
            tail += _NUMBER.pack(b"\x12txnNumber\0", run.transaction_number)
        if self.cluster_time is not None:
            tail += self._encoded_time or self._encode_time()
        if operation.read_preference is not None and not facts.is_standalone:
            is_direct = topology.topology_type is _SINGLE
            preference = sent_preference(operation.read_preference, facts, is_direct=is_direct)
            if preference is not None:
                tail += self._encoded_preference(preference)
        return tail + (self._databases.get(operation.database) or self._encode_database(operation.database))

    def _encode_time(self) -> bytes:
        self._encoded_time = encoded_fields({"$clusterTime": self.cluster_time})
        return self._encoded_time

    def _encode_database(self, database: str) -> bytes:
        if len(self._databases) >= _MOST:
            self._databases.clear()
        encoded = self._databases[database] = encoded_fields({"$db": database}) + b"\0"
        return encoded

    def _encoded_preference(self, document: Document) -> bytes:
        # Documents of preferences never change. Keeping them keeps their identity from being reused.
        known = self._preferences.get(id(document))
        if known is None:
            if len(self._preferences) >= _MOST:
                self._preferences.clear()
            known = self._preferences[id(document)] = document, encoded_fields({"$readPreference": document})
        return known[1]

    def _decorated(
        self,
        command: Command,
        run: Run,
        attempt: Attempt,
        facts: ServerFacts,
        request_id: int,
        now: float,
        topology: TopologyDescription,
    ) -> bytes:
        """Put everything into the document of `command`. Return its message."""
        operation, document, deadline = run.operation, command.document, run.call.deadline
        if operation.supports_sessions:
            self._add_session(run, document, facts, now)
        if operation.read_preference is not None:
            is_direct = topology.topology_type is _SINGLE
            preference = sent_preference(operation.read_preference, facts, is_direct=is_direct)
            if preference is not None:
                document["$readPreference"] = preference
        if self._limits.are_used:
            add_server_limits(document, operation, deadline, facts, self._limits, request_id)
        if deadline is not NO_DEADLINE:
            assert attempt.description is not None
            round_trip_time = attempt.description.min_round_trip_time
            add_time_limit(document, operation, deadline, now, round_trip_time, is_cryptd=facts.is_cryptd)
        if self._api_declaration is not None:
            add_api_version(document, self._api_declaration)
        document["$db"] = operation.database
        return encode_command(
            document,
            operation.codec_options,
            command.sequences,
            request_id,
            facts,
            is_acknowledged=operation.is_acknowledged,
            is_exhaust=operation.is_exhaust,
        )

    def _add_session(self, run: Run, document: Document, facts: ServerFacts, now: float) -> None:
        operation, session = run.operation, run.call.session
        if not facts.supports_sessions or not operation.is_acknowledged:
            # Unacknowledged writes never use an implicit session (driver sessions specification).
            if session is not None and not session.is_implicit:
                raise ConfigurationError(UNACKNOWLEDGED if facts.supports_sessions else UNSUPPORTED)
            if run.transaction_number is not None:
                raise ConfigurationError("the server does not support sessions")
            return
        server_session = self._server_session(run, facts, now)
        add_session(document, server_session, run.transaction_number)
        cluster_time = self.cluster_time
        if session is not None:
            if run.part is not None:
                run.part.add_fields(document, server_session)
            else:
                add_session_times(document, operation, session, facts)
            cluster_time = newest_cluster_time(cluster_time, session.cluster_time)
        if cluster_time is not None:
            document["$clusterTime"] = cluster_time

    def _server_session(self, run: Run, facts: ServerFacts, now: float) -> ServerSession:
        """Return the server session of the operation. The first attempt acquires it, and numbers a retryable write."""
        server_session = run.server_session
        if server_session is None:
            operation, session = run.operation, run.call.session
            server_session = session.server_session if session is not None else None
            if server_session is None:
                if session is not None and session.has_ended:
                    # While the operation waited. Nothing would return what the session takes now.
                    raise InvalidOperation(ENDED)
                server_session = self._sessions.acquire(now, facts.session_timeout_minutes)
                if session is not None:
                    session.server_session = server_session
            run.server_session = server_session
            if (
                operation.kind is _WRITE
                and self._retry_writes
                and facts.supports_retryable_writes
                and run.part is None
                and operation.is_retryable
            ):
                server_session.transaction_number += 1
                run.transaction_number = server_session.transaction_number
        server_session.last_use = now
        if run.transaction_number is not None and not facts.supports_retryable_writes:
            raise ConfigurationError("the server does not support retryable writes")
        return server_session


def _not_built(run: Run, error: Exception) -> None:
    """Explain why a command cannot be built.

    Raises:
        InvalidOperation: It is that of a retry.
    """
    if run.is_retry and not getattr(error, "timeout", False):
        raise InvalidOperation(f"no equivalent command for this server: {error}") from error
    if not isinstance(error, PyMongoError):
        from motorlite._base.unencodable import explain

        explain(error)
