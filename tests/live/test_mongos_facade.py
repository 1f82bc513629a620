"""The facade of a sharded cluster: it answers as mongos do, and refuses what only a wrong driver sends."""

from __future__ import annotations

import gc
import socket
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from motorlite.errors import CursorNotFound, NotPrimaryError, OperationFailure, PyMongoError
from motorlite.testing import LocalServer, failpoints
from tests.support.mongos.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


HOST_UNREACHABLE: Final = 6
CURSOR_NOT_FOUND: Final = 43
INVALID_OPTIONS: Final = 72
STARTED_TWICE: Final = 117
NO_SUITABLE_MEMBER: Final = 133
TOO_OLD: Final = 225
NO_SUCH_TRANSACTION: Final = 251
FAIL_POINT_SET_FAILED: Final = 266
NO_PARTICIPANTS: Final = 50940
TRANSIENT: Final = "TransientTransactionError"
# Codes that every server knows by the same name, of all kinds of labels.
CODES: Final = (1, 6, 7, 11, 24, 43, 51, 64, 79, 89, 91, 100, 112, 189, 246, 251, 262, 267, 9001, 10107, 11600, 11601)


def refused(run: Callable[[], object]) -> Mapping[str, Any]:
    """The reply that refuses a command."""
    with pytest.raises((OperationFailure, NotPrimaryError)) as caught:
        run()
    error: Any = caught.value
    details: Mapping[str, Any] = error.details
    return details


# --- hello ---


def test_hello_is_that_of_a_mongos(cluster: Cluster, replica_set: LocalServer) -> None:
    first, second = (cluster.command(number, {"hello": 1}) for number in (0, 1))
    of_member = replica_set.command({"hello": 1})
    assert first["msg"] == "isdbgrid"
    assert first["isWritablePrimary"] is True
    assert not first.keys() & {"setName", "hosts", "primary", "secondary", "compression", "helloOk"}
    same = ("maxWireVersion", "minWireVersion", "maxBsonObjectSize", "logicalSessionTimeoutMinutes")
    assert {name: first[name] for name in same} == {name: of_member[name] for name in same}
    assert first["topologyVersion"] == cluster.command(0, {"hello": 1})["topologyVersion"]
    processes = {each["topologyVersion"]["processId"] for each in (first, second, of_member)}
    assert len(processes) == 3
    old = cluster.command(0, {"isMaster": 1, "helloOk": True})
    assert (old["ismaster"], old["helloOk"], "isWritablePrimary" in old) == (True, True, False)


# --- failpoints ---


def test_a_failpoint_acts_on_its_mongos_only(cluster: Cluster, replica_set: LocalServer) -> None:
    cluster.command(0, failpoints.fail_command(["ping"], error_code=HOST_UNREACHABLE, times=2))
    cluster.command(1, {"ping": 1})
    replica_set.command({"ping": 1})
    for _ in range(2):
        assert refused(lambda: cluster.command(0, {"ping": 1}))["code"] == HOST_UNREACHABLE
    cluster.command(0, {"ping": 1})
    assert cluster.command(0, failpoints.off())["count"] == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mode": "sometimes"}, 2),
        ({"mode": {"often": 1}}, 2),
        ({"data": {"failCommands": ["ping"], "errorcode": 6}}, 2),
        ({"configureFailPoint": "onPrimaryTransactionalWrite"}, FAIL_POINT_SET_FAILED),
    ],
)
def test_a_failpoint_that_a_mongos_does_not_know(cluster: Cluster, change: dict[str, Any], code: int) -> None:
    command = {**failpoints.fail_command(["ping"], error_code=HOST_UNREACHABLE), **change}
    assert refused(lambda: cluster.command(0, command))["code"] == code


def test_errors_are_those_of_a_server(cluster: Cluster, replica_set: LocalServer, database_name: str) -> None:
    """Code names, and the labels that a server adds: to retryable writes, in transactions, to a commit."""
    (member,) = replica_set.addresses
    for code in CODES:
        session = {"lsid": new_session(), "txnNumber": Int64(1)}
        statement = {**session, "autocommit": False}
        commands = [
            {"insert": "coll", "documents": [{}], **session},
            {"insert": "coll", "documents": [{}], "startTransaction": True, **statement},
            {"commitTransaction": 1, **statement},
        ]
        names = ["insert", "commitTransaction"]
        fails = failpoints.fail_command(names, error_code=code, times=len(commands))
        cluster.command(0, fails)
        replica_set.command(fails)
        for command in commands:
            database = "admin" if "commitTransaction" in command else database_name
            here = refused(lambda: cluster.command(0, command, database))  # noqa: B023  # called at once
            there = refused(lambda: replica_set.command(command, database, member))  # noqa: B023
            compared = ("ok", "code", "codeName", "errmsg", "errorLabels")
            assert [here.get(name) for name in compared] == [there.get(name) for name in compared], (code, command)
            assert "$clusterTime" in here


# --- cursors and read preferences ---


def test_a_cursor_is_known_to_its_mongos_only(cluster: Cluster, database_name: str) -> None:
    cluster.command(0, {"insert": "coll", "documents": [{"_id": number} for number in range(4)]}, database_name)
    cursor = cluster.command(0, {"find": "coll", "batchSize": 1}, database_name)["cursor"]
    get_more = {"getMore": Int64(cursor["id"]), "collection": "coll", "batchSize": 1}
    kill = {"killCursors": "coll", "cursors": [Int64(cursor["id"])]}
    with pytest.raises(CursorNotFound) as caught:
        cluster.command(1, get_more, database_name)
    assert caught.value.code == CURSOR_NOT_FOUND
    assert cluster.command(1, kill, database_name)["cursorsNotFound"] == [cursor["id"]]
    batch = cluster.command(0, get_more, database_name)["cursor"]["nextBatch"]
    assert [document["_id"] for document in batch] == [1]
    assert cluster.command(0, kill, database_name)["cursorsKilled"] == [cursor["id"]]


@pytest.mark.parametrize(
    ("preference", "found"),
    [
        ({"mode": "primary"}, True),
        ({"mode": "primaryPreferred"}, True),
        ({"mode": "secondaryPreferred", "tags": [{"a": "b"}]}, True),
        ({"mode": "nearest"}, True),
        ({"mode": "nearest", "tags": [{"a": "b"}, {}]}, True),
        ({"mode": "nearest", "tags": [{"a": "b"}]}, False),
        ({"mode": "secondary"}, False),
    ],
)
def test_the_read_preference_has_to_be_met(cluster: Cluster, preference: dict[str, Any], found: bool) -> None:
    """Of a replica set with one member, without tags."""
    command = {"find": "coll", "$readPreference": preference}
    if found:
        cluster.command(0, command, "db")
    else:
        assert refused(lambda: cluster.command(0, command, "db"))["code"] == NO_SUITABLE_MEMBER
    # Writes go to the primary, whatever it says.
    cluster.command(0, {"insert": "coll", "documents": [{}], "$readPreference": preference}, "db")


# --- transactions ---


def new_session() -> dict[str, Any]:
    return {"id": Binary(uuid4().bytes, 4)}


class Transaction:
    """A transaction that no driver runs: each of its commands goes to the mongos that a test names."""

    def __init__(self, cluster: Cluster, database: str, lsid: dict[str, Any] | None = None, number: int = 1) -> None:
        self.cluster = cluster
        self.database = database
        self.fields: dict[str, Any] = {"lsid": lsid or new_session(), "txnNumber": Int64(number), "autocommit": False}

    def insert(self, mongos: int, _id: int, **fields: Any) -> Mapping[str, Any]:
        command = {"insert": "coll", "documents": [{"_id": _id}], **self.fields, **fields}
        return self.cluster.command(mongos, command, self.database)

    def find(self, mongos: int, **fields: Any) -> Mapping[str, Any]:
        return self.cluster.command(mongos, {"find": "coll", **self.fields, **fields}, self.database)

    def end(self, mongos: int, name: str, **fields: Any) -> Mapping[str, Any]:
        return self.cluster.command(mongos, {name: 1, **self.fields, **fields})


@pytest.fixture
def transaction(cluster: Cluster, database_name: str) -> Transaction:
    """One that has not begun; the collection is there, since creating it would wait for other transactions."""
    cluster.command(0, {"create": "coll"}, database_name)
    return Transaction(cluster, database_name)


def stored(cluster: Cluster, database_name: str) -> list[int]:
    find = {"find": "coll", "sort": {"_id": 1}}
    return [document["_id"] for document in cluster.command(1, find, database_name)["cursor"]["firstBatch"]]


def test_a_transaction_on_one_mongos(transaction: Transaction, cluster: Cluster, database_name: str) -> None:
    assert transaction.find(0, startTransaction=True)["recoveryToken"] == {}
    token = transaction.insert(0, 1)["recoveryToken"]
    assert token["recoveryShardId"]
    assert transaction.find(0)["recoveryToken"] == token
    assert not stored(cluster, database_name)
    # Twice: the second time nothing is left to do.
    for _ in range(2):
        assert transaction.end(0, "commitTransaction", recoveryToken=token)["recoveryToken"] == token
    assert stored(cluster, database_name) == [1]


def test_a_statement_on_the_other_mongos_is_refused(
    transaction: Transaction, cluster: Cluster, database_name: str
) -> None:
    transaction.insert(0, 1, startTransaction=True)
    for wrong in (lambda: transaction.insert(1, 2), lambda: transaction.find(1)):
        reply = refused(wrong)
        assert (reply["code"], reply["errorLabels"]) == (NO_SUCH_TRANSACTION, [TRANSIENT])
    assert refused(lambda: transaction.end(1, "abortTransaction"))["code"] == NO_SUCH_TRANSACTION
    # The transaction itself has noticed nothing.
    transaction.end(0, "commitTransaction")
    assert stored(cluster, database_name) == [1]


def test_a_commit_on_the_other_mongos_needs_the_recovery_token(transaction: Transaction) -> None:
    transaction.insert(0, 1, startTransaction=True)
    transaction.end(0, "commitTransaction")
    assert refused(lambda: transaction.end(1, "commitTransaction"))["code"] == NO_PARTICIPANTS
    empty = refused(lambda: transaction.end(1, "commitTransaction", recoveryToken={}))
    assert (empty["code"], empty["errorLabels"]) == (NO_SUCH_TRANSACTION, [TRANSIENT])


def test_the_outcome_of_a_committed_transaction_is_recovered(transaction: Transaction) -> None:
    token = transaction.insert(0, 1, startTransaction=True)["recoveryToken"]
    transaction.end(0, "commitTransaction")
    assert transaction.end(1, "commitTransaction", recoveryToken=token)["recoveryToken"] == token


def test_a_transaction_whose_commit_was_lost_is_aborted_by_the_recovery(
    transaction: Transaction, cluster: Cluster, database_name: str
) -> None:
    token = transaction.insert(0, 1, startTransaction=True)["recoveryToken"]
    cluster.command(0, failpoints.fail_command(["commitTransaction"], close_connection=True, times=1))
    with pytest.raises(ConnectionResetError):
        transaction.end(0, "commitTransaction", recoveryToken=token)
    for number in (1, 0):
        reply = refused(lambda: transaction.end(number, "commitTransaction", recoveryToken=token))  # noqa: B023
        assert (reply["code"], reply["errorLabels"]) == (NO_SUCH_TRANSACTION, [TRANSIENT])
    assert not stored(cluster, database_name)


def test_numbers_of_transactions_only_grow(transaction: Transaction, cluster: Cluster, database_name: str) -> None:
    lsid = transaction.fields["lsid"]
    transaction.insert(0, 1, startTransaction=True)
    assert refused(lambda: transaction.insert(0, 2, startTransaction=True))["code"] == STARTED_TWICE
    next_one = Transaction(cluster, database_name, lsid, number=2)
    next_one.insert(0, 2, startTransaction=True)
    assert refused(lambda: transaction.find(0))["code"] == TOO_OLD
    next_one.end(0, "commitTransaction")
    assert stored(cluster, database_name) == [2]


def test_a_command_that_was_failed_has_not_started_its_transaction(transaction: Transaction, cluster: Cluster) -> None:
    cluster.command(0, failpoints.fail_command(["insert"], error_code=91, times=1))
    refused(lambda: transaction.insert(0, 1, startTransaction=True))
    transaction.insert(0, 1, startTransaction=True)
    transaction.end(0, "commitTransaction")


def test_transactions_read_from_the_primary(transaction: Transaction) -> None:
    preference = {"$readPreference": {"mode": "secondaryPreferred"}}
    assert refused(lambda: transaction.find(0, startTransaction=True, **preference))["code"] == INVALID_OPTIONS


# --- the facade itself ---


def test_a_connection_that_arrives_at_the_end_is_closed(replica_set: LocalServer) -> None:
    cluster, is_busy, goes_on = Cluster(replica_set), Event(), Event()

    def busy() -> None:
        is_busy.set()
        goes_on.wait(10)

    cluster._loop.call_soon_threadsafe(busy)
    assert is_busy.wait(10)
    with socket.create_connection(cluster.addresses[0]) as connection:
        connection.settimeout(10)
        closing = Thread(target=cluster.close)
        closing.start()
        while len(cluster._loop._ready) == 0:  # type: ignore[attr-defined]  # of asyncio's own loop
            time.sleep(0.001)
        goes_on.set()
        closing.join(10)
        assert not closing.is_alive()
        gc.collect()  # a socket that is left open warns
        assert connection.recv(1) == b""


def test_a_bug_of_the_facade_is_not_taken_for_a_network_error(replica_set: LocalServer) -> None:
    with Cluster(replica_set) as cluster, pytest.raises((OSError, PyMongoError)):
        cluster.command(0, {"find": "coll", "autocommit": False, "txnNumber": 1}, "db")
    # The end of the block has waited for the task that failed.
    assert [type(error) for error in cluster.failures] == [KeyError]
