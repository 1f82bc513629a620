"""Pure: adds the common fields to a command: session, transaction number, limits, API version."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from motorlite._execution.operation import TimeLimit
from motorlite.errors import no_time_left

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Document, ServerFacts
    from motorlite._execution.operation import Operation
    from motorlite._sessions.session import ServerSession, Session

_PRIMARY = 0
_SCOPE_MARGIN_MS = 5
_PRIMARY_PREFERRED = {"mode": "primaryPreferred"}


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
    if operation.time_limit is TimeLimit.OMIT:
        if deadline.expires_at - now <= 0:
            raise no_time_left()
        return
    is_await_time = operation.time_limit is TimeLimit.AWAIT
    if deadline.expires_at != inf:
        milliseconds = int((deadline.expires_at - now - min_round_trip_time) * 1000)
        if milliseconds <= 0:
            raise no_time_left()
        document["maxTimeMS"] = min(milliseconds, document["maxTimeMS"]) if is_await_time else milliseconds
    if is_await_time:
        return
    remaining = deadline.scope_expires_at - now
    if 0 < remaining < inf and not operation.creates_cursor:
        # A hint to the server, deliberately a little late: the cancel scope itself must end the operation here.
        milliseconds = ceil(remaining * 1000) + _SCOPE_MARGIN_MS
        document["maxTimeMS"] = min(milliseconds, document.get("maxTimeMS") or milliseconds)


def remove_older_limits(document: Document, operation: Operation[Any]) -> None:
    """Remove the limits that a timeout replaces."""
    if operation.time_limit is not TimeLimit.AWAIT:
        document.pop("maxTimeMS", None)
    if "wtimeout" in document.get("writeConcern", ()):
        document["writeConcern"] = {key: value for key, value in document["writeConcern"].items() if key != "wtimeout"}
        if not document["writeConcern"]:
            del document["writeConcern"]


def add_session(
    document: Document,
    operation: Operation[Any],
    server_session: ServerSession,
    session: Session | None,
    transaction_number: int | None,
) -> None:
    """Append lsid, txnNumber and, for a causally consistent session, afterClusterTime."""
    document["lsid"] = server_session.lsid
    if transaction_number is not None:
        document["txnNumber"] = Int64(transaction_number)
    if session is None or not session.is_causally_consistent or session.operation_time is None:
        return
    if operation.supports_after_cluster_time:
        concern = document.get("readConcern") or {}
        document["readConcern"] = {**concern, "afterClusterTime": session.operation_time}


def add_read_preference(document: Document, operation: Operation[Any], facts: ServerFacts, *, is_direct: bool) -> None:
    """Append $readPreference (server selection specification, "Passing read preference to mongos...").

    `is_direct`: the topology is a single server. A replica set member then needs an explicit read preference.
    """
    preference = operation.read_preference
    if preference is None or facts.is_standalone:
        return
    if preference.mode != _PRIMARY:
        document["$readPreference"] = preference.document
    elif is_direct and not facts.is_mongos:
        document["$readPreference"] = _PRIMARY_PREFERRED


def add_api_version(document: Document, declaration: Mapping[str, Any]) -> None:
    """Append the declared API version (versioned API specification). Fields that the user set are kept."""
    for key, value in declaration.items():
        document.setdefault(key, value)
