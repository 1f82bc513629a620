"""Pure: adds the common fields to a command: session, transaction number, limits, comment, API version."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from motorlite._base import wire_versions
from motorlite._execution.operation import TimeLimit
from motorlite._overload.server_limits import LONGEST_MS
from motorlite.errors import ConfigurationError, no_time_left

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Document, ServerFacts
    from motorlite._execution.operation import Operation
    from motorlite._overload.server_limits import ServerLimits
    from motorlite._sessions.session import ServerSession, Session
    from motorlite.read_preferences import ServerMode

_PRIMARY = 0
_SCOPE_MARGIN_MS = 5
_PRIMARY_PREFERRED = {"mode": "primaryPreferred"}
# Commands whose maxTimeMS a mongos does not pass on to the shards before 5.0 (SERVER-46187).
_WRITES = ("insert", "update", "delete")
# Commands that take a comment before 4.4, where it became a field of every command.
_TOOK_COMMENTS = ("find", "aggregate")
# Neither limited nor commented: they are not the user's operations, and they are short.
_UNLIMITED = (TimeLimit.DEADLINE, TimeLimit.AWAIT)


def add_time_limit(
    document: Document, operation: Operation[Any], deadline: Deadline, now: float, min_round_trip_time: float
) -> None:
    """Append maxTimeMS from the deadline (client-side operations timeout, "Command Execution").

    A timeout replaces the caller's maxTimeMS and wtimeout, even if it sets no limit ("Validation and Overrides").

    Raises:
        ExecutionTimeout: The operation's own deadline leaves less time than one round trip takes.
    """
    if deadline.is_set:
        remove_older_limits(document, operation)
    time_limit = operation.time_limit
    if time_limit is TimeLimit.OMIT:
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
    limits: ServerLimits,
    request_id: int,
) -> None:
    """Append the client's default maxTimeMS, and the comment by which an abandoned operation can be killed.

    The caller's own value wins: maxTimeMS, be it 0, or a timeout, which `add_time_limit` appends afterwards.
    """
    if limits.milliseconds and operation.time_limit is TimeLimit.SEND and not deadline.is_set:
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


def comment_of_abandoned(document: Mapping[str, Any], facts: ServerFacts, limits: ServerLimits) -> str | None:
    """Return the comment by which to kill an operation that its caller left, or None.

    None also if the server ends it by itself, and if it has a comment of the caller's own, which other operations, or
    its own retry, may have too.
    """
    comment = document.get("comment")
    if not limits.comment or not isinstance(comment, str) or not comment.startswith(limits.comment):
        return None
    return comment if server_limit(document, facts) is None else None


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
