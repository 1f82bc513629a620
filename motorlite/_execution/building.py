"""Pure: builds the command for each attempt, for the selected server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base.deadline import NO_DEADLINE
from motorlite._connection.messages import encode_command
from motorlite._execution import decorate
from motorlite._execution.operation import Kind
from motorlite._sessions.session import newest_cluster_time
from motorlite.errors import ConfigurationError, InvalidOperation
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Document, ServerFacts
    from motorlite._execution.attempt import Attempt
    from motorlite._execution.operation import Command
    from motorlite._execution.run import Run
    from motorlite._overload.server_limits import ServerLimits
    from motorlite._sessions.session import SessionPool
    from motorlite._topology.topology_description import TopologyDescription

# Globals, since reading a member of an enumeration takes 0.28 µs on Python 3.11.
_SINGLE, _WRITE = TopologyType.Single, Kind.WRITE


class CommandBuilder:
    """Builds the commands of one client."""

    def __init__(
        self,
        sessions: SessionPool,
        limits: ServerLimits,
        *,
        retry_writes: bool,
        api_declaration: Mapping[str, Any] | None,
    ) -> None:
        self._sessions = sessions
        self._limits = limits
        self._retry_writes = retry_writes
        # apiVersion and its companions, or None.
        self._api_declaration = api_declaration
        # The newest cluster time that any server reported ("gossiping the cluster time").
        self.cluster_time: Mapping[str, Any] | None = None

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Learn the cluster time from a reply."""
        self.cluster_time = newest_cluster_time(self.cluster_time, reply.get("$clusterTime"))

    def build(
        self, run: Run, attempt: Attempt, facts: ServerFacts, request_id: int, now: float, topology: TopologyDescription
    ) -> tuple[Command, bytes]:
        """Build the command and its message for a server with these facts. The first attempt acquires the session.

        Raises:
            CommandNotRebuilt: This server cannot run an equivalent command for a retry; the earlier error is raised.
        """
        operation = run.operation
        try:
            command = operation.command(facts)
            document = command.document
            if operation.supports_sessions:
                self._add_session(run, document, facts, now)
            if operation.read_preference is not None:
                is_direct = topology.topology_type is _SINGLE
                decorate.add_read_preference(document, operation, facts, is_direct=is_direct)
            deadline = run.call.deadline
            if self._limits.are_used:
                decorate.add_server_limits(document, operation, deadline, facts, self._limits, request_id)
            if deadline is not NO_DEADLINE:
                assert attempt.description is not None
                round_trip_time = attempt.description.min_round_trip_time
                decorate.add_time_limit(document, operation, deadline, now, round_trip_time)
            if self._api_declaration is not None:
                decorate.add_api_version(document, self._api_declaration)
            document["$db"] = operation.database
            message = encode_command(
                document,
                operation.codec_options,
                command.sequences,
                request_id,
                facts,
                is_acknowledged=operation.is_acknowledged,
                is_exhaust=operation.is_exhaust,
            )
        except Exception as error:
            if run.is_retry and not getattr(error, "timeout", False):
                raise CommandNotRebuilt(f"no equivalent command for this server: {error}") from error
            raise
        return command, message

    def _add_session(self, run: Run, document: Document, facts: ServerFacts, now: float) -> None:
        operation, session = run.operation, run.call.session
        if not facts.supports_sessions or not operation.is_acknowledged:
            # Unacknowledged writes never use an implicit session (driver sessions specification).
            if session is not None and not session.is_implicit:
                what = "unacknowledged writes" if facts.supports_sessions else "this server"
                raise ConfigurationError(f"sessions cannot be used with {what}")
            if run.transaction_number is not None:
                raise ConfigurationError("the server does not support sessions")
            return
        server_session = run.server_session
        if server_session is None:
            server_session = session.server_session if session is not None else None
            if server_session is None:
                server_session = self._sessions.acquire(now, facts.session_timeout_minutes)
                if session is not None:
                    session.server_session = server_session
            run.server_session = server_session
            if (
                operation.kind is _WRITE
                and run.part is None
                and operation.is_retryable
                and self._retry_writes
                and facts.supports_retryable_writes
            ):
                server_session.transaction_number += 1
                run.transaction_number = server_session.transaction_number
        server_session.last_use = now
        if run.transaction_number is not None and not facts.supports_retryable_writes:
            raise ConfigurationError("the server does not support retryable writes")
        decorate.add_session(document, server_session, run.transaction_number)
        cluster_time = self.cluster_time
        if session is not None:
            if run.part is not None:
                run.part.add_fields(document, server_session)
            else:
                decorate.add_session_times(document, operation, session, facts)
            cluster_time = newest_cluster_time(cluster_time, session.cluster_time)
        if cluster_time is not None:
            document["$clusterTime"] = cluster_time


class CommandNotRebuilt(InvalidOperation):
    """A retry was not sent: the server selected for it cannot run an equivalent command."""
