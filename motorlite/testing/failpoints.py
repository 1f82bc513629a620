"""Pure: commands that make a server fail deliberately, through its failpoint ``failCommand``.

Send them with ``await client.admin.command(document)`` or `LocalServer.command`. The server must have been
started with ``enableTestCommands=1``, as every `LocalServer` is. A failpoint stays on until `off` is sent or
its ``times`` are used up. It acts on one server, not on the whole replica set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import check_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INGRESS_REQUEST_RATE_LIMIT_EXCEEDED: Final = 462
OVERLOAD_LABELS: Final = ("SystemOverloadedError", "RetryableError")

ORDINARY_COMMANDS: Final = (
    "abortTransaction",
    "aggregate",
    "bulkWrite",
    "collMod",
    "commitTransaction",
    "count",
    "create",
    "createIndexes",
    "dbStats",
    "delete",
    "distinct",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "explain",
    "find",
    "findAndModify",
    "getMore",
    "insert",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "ping",
    "update",
)
"""Commands that applications use; excludes handshakes, monitoring, and the command that turns failpoints off."""


def fail_command(
    commands: Iterable[str],
    *,
    error_code: int | None = None,
    error_labels: Sequence[str] | None = None,
    times: int | None = None,
    skip: int | None = None,
    probability: float | None = None,
    close_connection: bool = False,
    block_ms: int | None = None,
    app_name: str | None = None,
    namespace: str | None = None,
    write_concern_error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the command that makes the server fail some of its commands.

    Args:
        commands: Names of the commands to fail, for example ``["find", "getMore"]``.
        error_code: Answer with this error instead of executing the command.
        error_labels: The labels of that error; None: the server's default labels; an empty sequence: no labels.
        times: Fail only this many matching commands.
        skip: Let this many matching commands pass first, and fail all others.
        probability: Fail each matching command with this probability, between 0 and 1.
        close_connection: Close the connection instead of answering.
        block_ms: Wait this many milliseconds before any other effect, or before executing the command.
        app_name: Only fail commands of clients with this ``appName``.
        namespace: Only fail commands on this ``"database.collection"``. Set it to count writes exactly: on the first
            retryable write of a session, a server runs a find of its own, which would also count.
        write_concern_error: Execute the command, and add this write concern error to its reply.

    Returns:
        A ``configureFailPoint`` command for the database ``admin``. Without `times`, `skip` and `probability`
        it acts on every matching command.

    Raises:
        TypeError: `commands` is a text: its letters would be the commands.
        ValueError: there is no effect, or two of `times`, `skip` and `probability` are combined.
    """
    check_items("commands", commands, "a list of names of commands")
    names = list(commands)
    if not names:
        raise ValueError("commands must name at least one command to fail")
    data: dict[str, Any] = {"failCommands": names}
    if error_code is not None:
        data["errorCode"] = error_code
    if close_connection:
        data["closeConnection"] = True
    if block_ms is not None:
        data |= {"blockConnection": True, "blockTimeMS": block_ms}
    if write_concern_error is not None:
        data["writeConcernError"] = dict(write_concern_error)
    if len(data) == 1:
        raise ValueError("name an effect: error_code, close_connection, block_ms or write_concern_error")
    if error_labels is not None:
        data["errorLabels"] = list(error_labels)
    if app_name is not None:
        data["appName"] = app_name
    if namespace is not None:
        data["namespace"] = namespace
    return {"configureFailPoint": "failCommand", "mode": _mode(times, skip, probability), "data": data}


def overload(
    probability: float = 0.6,
    commands: Iterable[str] = ORDINARY_COMMANDS,
    *,
    times: int | None = None,
    error_labels: Sequence[str] = OVERLOAD_LABELS,
    app_name: str | None = None,
    namespace: str | None = None,
) -> dict[str, Any]:
    """Build the command that makes the server reject commands as an overloaded server does.

    Args:
        probability: The fraction of rejected commands, between 0 and 1; ignored if `times` is set.
        commands: The commands to reject; by default `ORDINARY_COMMANDS`.
        times: Reject exactly this many commands instead.
        error_labels: The labels of the error; one label simulates a server that attaches only one of the two.
        app_name: Only reject commands of clients with this ``appName``.
        namespace: Only reject commands on this ``"database.collection"``.

    Returns:
        A ``configureFailPoint`` command for the database ``admin``.
    """
    return fail_command(
        commands,
        error_code=INGRESS_REQUEST_RATE_LIMIT_EXCEEDED,
        error_labels=error_labels,
        times=times,
        probability=probability if times is None else None,
        app_name=app_name,
        namespace=namespace,
    )


def off(name: str = "failCommand") -> dict[str, Any]:
    """Build the command that turns the failpoint `name` off."""
    return {"configureFailPoint": name, "mode": "off"}


def _mode(times: int | None, skip: int | None, probability: float | None) -> str | dict[str, Any]:
    modes = {"times": times, "skip": skip, "activationProbability": probability}
    chosen: dict[str, Any] = {name: value for name, value in modes.items() if value is not None}
    if len(chosen) > 1:
        raise ValueError("times, skip and probability cannot be combined: the server would ignore all but one of them")
    if probability is not None and not 0 <= probability <= 1:
        raise ValueError(f"probability must be between 0 and 1, not {probability!r}")
    return chosen or "alwaysOn"
