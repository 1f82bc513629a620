"""What operations declare about themselves, in one table; an operation that it lacks fails the test."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import pytest

import motorlite._operations
from motorlite._operations.change_stream import WatchMore
from motorlite._operations.client_bulk import ClientBulkBatch, MoreResults
from motorlite._operations.collections import (
    DropDatabase,
    FindCollection,
    ListCollections,
    ListDatabases,
    Rename,
    Validate,
)
from motorlite._operations.commands import BuildInfo, RunCommand, RunCursorCommand
from motorlite._operations.common import AdministrativeWrite
from motorlite._operations.contract import Kind, Operation, TimeLimit, TransactionEnd
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.sessions import AbortTransaction, CommitTransaction, EndSessions
from motorlite._operations.single_writes import SingleWrite
from motorlite._topology.selection import WRITABLE
from motorlite.read_preferences import ReadPreference
from tests.support.fake_core import Sent, fake_client
from tests.support.operation_cases import CASES, Case
from tests.unit._operations import facts_table as declared
from tests.unit._operations.facts_table import TABLE, Row

if TYPE_CHECKING:
    from collections.abc import Iterable


def operation_classes() -> list[type[Operation[Any]]]:
    """All of the package, base classes too."""
    classes = set()
    for module in pkgutil.walk_packages(motorlite._operations.__path__, "motorlite._operations."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(member, Operation) and member is not Operation:
                classes.add(member)
    return sorted(classes, key=lambda member: member.__name__)


CLASSES: Final = operation_classes()


def test_the_table_has_every_operation() -> None:
    concrete = {kind for kind in CLASSES if hasattr(kind, "name") and kind.parse is not Operation.parse}
    assert {type(row.operation) for row in TABLE} == concrete
    assert {AdministrativeWrite, SingleWrite} <= set(CLASSES) - concrete


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row.operation).__name__)
def test_facts(row: Row) -> None:
    operation = row.operation
    # What instances decide is in a slot, which hides the default.
    decides = inspect.isdatadescriptor(inspect.getattr_static(type(operation), "is_retryable"))
    facts = {
        declared.RETRYABLE: operation.is_retryable and not decides,
        declared.IF_SINGLE: operation.is_retryable and decides,
        declared.IDEMPOTENT: operation.is_idempotent,
        declared.CURSOR: operation.creates_cursor,
        declared.CAUSAL: operation.supports_after_cluster_time,
        declared.KEEPS: operation.keeps_connection,
        declared.NO_SESSION: not operation.supports_sessions,
        declared.NO_LIMIT: operation.time_limit is TimeLimit.OMIT,
        declared.ADDRESSED: operation.selector == declared.ADDRESS,
        declared.CONTINUES: operation.is_continuation,
        declared.FREES: operation.is_housekeeping,
        declared.COMMITS: operation.ends is TransactionEnd.COMMIT,
        declared.ABORTS: operation.ends is TransactionEnd.ABORT,
        declared.OWN_LIMIT: operation.time_limit is TimeLimit.DEADLINE,
        declared.PRIMARY: operation.selector is operation.read_preference is ReadPreference.PRIMARY,
    }
    assert (operation.name, operation.kind) == (row.name, row.kind)
    assert {fact for fact, holds in facts.items() if holds} == row.facts
    assert operation.document_fields == row.fields
    assert operation.is_acknowledged
    assert not operation.is_await_data
    assert not operation.is_exhaust
    assert operation.time_limit is not TimeLimit.AWAIT
    assert not operation.has_own_preference
    assert operation.selector is WRITABLE or row.facts & {declared.ADDRESSED, declared.PRIMARY}
    assert operation.read_preference is None or declared.PRIMARY in row.facts


def test_what_is_idempotent() -> None:
    """All operations, so that one that is added is False unless it says otherwise. Few besides reads say so."""
    idempotent = {type(row.operation) for row in TABLE if row.operation.is_idempotent}
    reads = {type(row.operation) for row in TABLE if row.kind is declared.READ}
    assert idempotent == (reads | {BuildInfo, CommitTransaction, AbortTransaction}) - {
        GetMore,
        KillCursors,
        MoreResults,
        WatchMore,
    }
    assert Operation.is_idempotent is False


WITHOUT_COLLECTION: Final = {
    **dict.fromkeys((FindCollection, ListCollections, DropDatabase, RunCommand, RunCursorCommand), "db"),
    **dict.fromkeys((BuildInfo, ClientBulkBatch, EndSessions, ListDatabases), "admin"),
    **dict.fromkeys((CommitTransaction, AbortTransaction), "admin"),
    Rename: "db.a",
}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row.operation).__name__)
def test_namespace(row: Row) -> None:
    assert row.operation.namespace == WITHOUT_COLLECTION.get(type(row.operation), "db.coll")


@pytest.mark.parametrize("operation", CLASSES, ids=lambda operation: operation.__name__)
def test_every_class_says_how_it_is_retried(operation: type[Operation[Any]]) -> None:
    _, found, text = (operation.__doc__ or "").partition("Retry: ")
    assert found, "the docstring has no line that begins with 'Retry: '"
    text = " ".join(text.split())
    # What is retryable per instance has a slot in its own class.
    can_retry = operation.is_retryable is not False
    if not can_retry:
        assert text.startswith("never by the retryable")
        role = {Kind.READ: "as a read", Kind.WRITE: "as a write", Kind.COMMAND: "needs retryReads"}[operation.kind]
        assert role in text
    else:
        assert text.startswith(f"retryable {operation.kind.value}")


@pytest.mark.parametrize("operation", CLASSES, ids=lambda operation: operation.__name__)
def test_no_instance_has_a_dictionary(operation: type[Operation[Any]]) -> None:
    assert "__slots__" in vars(operation)


# Operations without a case of malformed replies, and why.
UNREAD: Final = {EndSessions: "sent with every case, when its client closes"}


async def sent_by(case: Case) -> set[type[Operation[Any]]]:
    """The operations of one case, with replies that it succeeds with."""

    def answer(sent: Sent) -> dict[str, Any]:
        reply = case.replies[0] if sent.name == case.command else case.others.get(sent.name, {})
        return {"ok": 1, **deepcopy(reply)}  # calls change their replies

    client, core = fake_client()
    core.reply(*[answer] * 10)
    await case.call(client)
    await core.run_spawned()
    return {type(sent.operation) for sent in core.executor.sent}


async def without_a_case(cases: Iterable[Case]) -> set[type[Operation[Any]]]:
    sent = {operation for case in cases for operation in await sent_by(case)}
    return {type(row.operation) for row in TABLE} - sent


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_every_operation_has_a_case_of_malformed_replies() -> None:
    assert await without_a_case(CASES.values()) == UNREAD.keys()
    others = [case for name, case in CASES.items() if name != "validate_collection"]
    assert await without_a_case(others) == {*UNREAD, Validate}
