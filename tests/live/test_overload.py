"""The overload policy against real servers, rule by rule of the client backpressure specification.

Delays are exact in virtual time (tests/sim); here the clock is real, so that a lower bound is exact and an
upper one generous, and where only counts matter the jitter is 0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import ObjectId

from motorlite import InsertOne, OverloadRetry, UpdateMany
from motorlite.errors import (
    AutoReconnect,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
)
from motorlite.read_preferences import Nearest, PrimaryPreferred
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite.monitoring import CommandFailedEvent
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

BOTH = ("SystemOverloadedError", "RetryableError")
OVERLOADED_ONLY = ("SystemOverloadedError",)
RETRYABLE_ONLY = ("RetryableError",)
# Neither says anything to the retryable reads and writes specifications.
BAD_VALUE = 2
# Retryable, and unlike NotWritablePrimary it does not make the driver forget its server.
EXCEEDED_TIME_LIMIT = 262


def in_turn(server: LocalServer, record: Recorder, documents: list[dict[str, Any]]) -> None:
    """Set the first failpoint now, and each further one when a command has failed."""
    rest = iter(documents)
    server.command(next(rest))

    def advance(_event: CommandFailedEvent) -> None:
        server.command(next(rest, failpoints.off()))

    record.on_failure = advance


# --- rules 1 to 3: deposits ---


async def test_rule_1_a_first_attempt_that_succeeds_deposits_a_tenth(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, jitter=0.0) as client:
        collection = client[database_name].c
        await collection.find_one()
        assert client.stats().tokens == 1000  # never above the capacity
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure):
            await collection.find_one()
        assert client.stats().tokens == 995
        replica_set.command(failpoints.off())
        for expected in (995.1, 995.2, 995.3):
            await collection.find_one()
            assert client.stats().tokens == pytest.approx(expected)


async def test_rule_2_a_retry_that_succeeds_deposits_one_and_a_tenth(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, jitter=0.0) as client:
        fail(replica_set, failpoints.overload(commands=["find"], times=3))
        await client[database_name].c.find_one()
        assert client.stats().tokens == pytest.approx(1000 - 3 + 1.1)
        assert client.stats().retries == {"overload": 3}


@pytest.mark.parametrize(
    ("second", "tokens"),
    [
        (failpoints.fail_command(["find"], error_code=BAD_VALUE, times=1), 1000 - 1 + 1),
        # Labelled as overloaded: no deposit.
        (failpoints.overload(commands=["find"], times=1, error_labels=OVERLOADED_ONLY), 1000 - 1),
    ],
)
async def test_rule_3_a_retry_that_fails_otherwise_deposits_one(
    replica_set: LocalServer, database_name: str, fail: Fail, second: dict[str, Any], tokens: float
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        in_turn(replica_set, record, [failpoints.overload(commands=["find"], times=1), second])
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.find_one()
        assert record.names == ["find"] * 2
        assert (caught.value.attempts, caught.value.retry_refusal) == (2, "not retryable")
        assert client.stats().tokens == tokens


async def test_a_first_attempt_that_fails_otherwise_deposits_nothing(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, jitter=0.0) as client:
        collection = client[database_name].c
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure):
            await collection.find_one()
        replica_set.command(failpoints.fail_command(["find"], error_code=BAD_VALUE))
        with pytest.raises(OperationFailure):
            await collection.find_one()
        assert client.stats().tokens == 995


# --- rule 4: what is retried, and how often ---


async def test_rule_4_five_retries_and_no_sixth(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.find_one()
    error = caught.value
    assert record.names == ["find"] * 6 + ["endSessions"]
    assert error.code == 462
    assert error.error_labels == set(BOTH)
    assert (error.attempts, error.retry_reasons, error.retry_refusal) == (6, ("overload",) * 5, "attempts")
    assert error.address == replica_set.addresses[0]
    assert [event.permitted for event in record.retries] == [True] * 5 + [False]


async def test_rule_4_the_fifth_retry_may_succeed(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(commands=["find"], times=5))
        assert await client[database_name].c.find_one() is None
        assert record.names == ["find"] * 6


@pytest.mark.parametrize(
    ("labels", "attempts", "reasons", "refusal"),
    [
        (BOTH, 6, ("overload",) * 5, "attempts"),
        (RETRYABLE_ONLY, 6, ("retryable error",) * 5, "attempts"),
        (OVERLOADED_ONLY, 1, (), "not retryable"),
        ((), 1, (), None),
    ],
)
async def test_rule_4_labels_decide_and_not_the_code(
    replica_set: LocalServer,
    database_name: str,
    fail: Fail,
    labels: tuple[str, ...],
    attempts: int,
    reasons: tuple[str, ...],
    refusal: str,
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        for code in (462, BAD_VALUE):
            fail(replica_set, failpoints.fail_command(["find"], error_code=code, error_labels=labels))
            record.clear()
            with pytest.raises(OperationFailure) as caught:
                await client[database_name].c.find_one()
            error = caught.value
            assert len(record.names) == attempts
            assert (error.attempts, error.retry_reasons, error.retry_refusal) == (attempts, reasons, refusal)
            assert error.error_labels == set(labels)
        # Both kinds of labelled retry cost a token.
        assert client.stats().tokens == (990 + (0 if labels != RETRYABLE_ONLY else 10) if attempts == 6 else 1000)


async def test_rule_4_an_empty_bucket_fails_at_once(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, retry_budget=1.5, event_listeners=[record]) as client:
        collection = client[database_name].c
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        for attempts in (2, 1, 1):
            with pytest.raises(OperationFailure) as caught:
                await collection.find_one()
            assert (caught.value.attempts, caught.value.retry_refusal) == (attempts, "tokens")
            assert (record.retries[-1].refusal, record.retries[-1].tokens) == ("tokens", 0.5)
        assert client.stats().refusals == {"tokens": 3}
        # Five successes later there is enough for one retry.
        replica_set.command(failpoints.off())
        for _ in range(6):
            await collection.find_one()
        replica_set.command(failpoints.overload(commands=["find"], times=1))
        await collection.find_one()
        assert client.stats().tokens == pytest.approx(0.1 + 1.1)


async def test_a_bucket_is_the_clients_and_shared_by_its_operations(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, retry_budget=7, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))

        async def find() -> None:
            with suppress(OperationFailure):
                await client[database_name].c.find_one()

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(find)
        assert record.names == ["find"] * (10 + 7)
        assert client.stats().tokens == 0


async def test_without_a_budget_nothing_is_taken(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set, jitter=0.0, retry_budget=False) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.find_one()
        assert caught.value.attempts == 6
        assert client.stats().tokens == client.stats().token_capacity == float("inf")


@pytest.mark.parametrize("retries", [0, 2])
async def test_max_adaptive_retries(replica_set: LocalServer, database_name: str, fail: Fail, retries: int) -> None:
    async with make_client(replica_set, jitter=0.0, maxAdaptiveRetries=retries) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.find_one()
        assert (caught.value.attempts, caught.value.retry_refusal) == (retries + 1, "attempts")


# The first backoff; the second is twice as long.
HALF_A_SECOND: dict[str, Any] = {"jitter": 1.0, "overload_policy": OverloadRetry(base_backoff=0.5)}


async def test_rule_4_a_deadline_cuts_and_takes_no_token(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, **HALF_A_SECOND, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        record.clear()
        started = anyio.current_time()
        with pytest.raises(OperationFailure) as caught:
            await collection.find_one(timeoutMS=1_450)
        # Half a second fits, a second more does not: no time is wasted on waiting for it.
        assert 0.5 <= anyio.current_time() - started < 1.45
        assert record.names == ["find"] * 2
        error = caught.value
        assert (error.code, error.attempts, error.retry_refusal, error.phase) == (462, 2, "deadline", "backoff")
        assert client.stats().tokens == 999


async def test_rule_4_an_enclosing_cancel_scope_cuts_but_is_not_the_drivers_timeout(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, **HALF_A_SECOND) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with anyio.fail_after(1.45), pytest.raises(OperationFailure) as caught:
            await collection.find_one()
        error = caught.value
        assert (error.code, error.attempts, error.retry_refusal, error.phase) == (462, 2, "deadline", None)
        assert not error.timeout


# --- rule 5: backoff ---


async def test_rule_5_each_backoff_is_twice_the_one_before(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=1.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        fail(replica_set, failpoints.overload(commands=["find"], times=3))
        await collection.find_one()
        assert [event.delay for event in record.retries] == [0.1, 0.2, 0.4]
        for gap, delay in zip(record.gaps, (0.1, 0.2, 0.4), strict=True):
            assert delay <= gap


async def test_rule_5_all_five_with_a_small_jitter(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.01, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(commands=["find"], times=5))
        await client[database_name].c.find_one()
        delays = [0.001, 0.002, 0.004, 0.008, 0.016]
        assert [event.delay for event in record.retries] == pytest.approx(delays)
        assert all(gap >= delay for gap, delay in zip(record.gaps, delays, strict=True))


async def test_rule_5_without_the_overload_label_there_is_no_backoff(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=1.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(commands=["find"], times=5, error_labels=RETRYABLE_ONLY))
        await client[database_name].c.find_one()
        assert [event.delay for event in record.retries] == [0.0] * 5
        assert sum(record.gaps) < 0.1
        # Each costs a token, and each failed retry deposits one, because the server is not overloaded.
        assert client.stats().tokens == pytest.approx(1000)


async def test_the_real_jitter_is_between_0_and_1_and_not_always_the_same(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    policy = OverloadRetry(base_backoff=0.001)
    async with make_client(replica_set, overload_policy=policy, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        for _ in range(4):
            with pytest.raises(OperationFailure):
                await client[database_name].c.find_one()
        permitted = [event for event in record.retries if event.permitted]
        shares = [event.delay / (0.001 * 2 ** (event.attempt - 1)) for event in permitted]
        assert all(0 <= share < 1 for share in shares)
        assert len(set(shares)) == 20


# --- rule 6: deprioritised servers ---


async def test_rule_6_nearest_leaves_the_overloaded_servers(
    replica_set3: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    read_preference = Nearest()
    options: dict[str, Any] = {
        "read_preference": read_preference,
        "localThresholdMS": 60_000,
        "event_listeners": [record],
    }
    async with make_client(replica_set3, jitter=0.0, **options) as client:
        await all_known(client, record)
        *overloaded, healthy = replica_set3.addresses
        for address in overloaded:
            fail(replica_set3, failpoints.overload(1.0, ["find"]), address)
        for _ in range(10):
            record.clear()
            await client[database_name].c.find_one()
            tried = [event.connection_id for event in record.started_events]
            assert tried[-1] == healthy
            # No server is tried again as long as there is one that was not.
            assert len(set(tried)) == len(tried) <= 3
            assert [event.deprioritized for event in record.retries] == [True] * (len(tried) - 1)


async def test_rule_6_when_all_are_overloaded_all_are_candidates_again(
    replica_set3: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    options: dict[str, Any] = {"read_preference": Nearest(), "localThresholdMS": 60_000, "event_listeners": [record]}
    async with make_client(replica_set3, jitter=0.0, **options) as client:
        await all_known(client, record)
        for address in replica_set3.addresses:
            fail(replica_set3, failpoints.overload(1.0, ["find"]), address)
        with pytest.raises(OperationFailure):
            await client[database_name].c.find_one()
        tried = [event.connection_id for event in record.started_events]
        assert len(tried) == 6
        assert set(tried[:3]) == set(replica_set3.addresses)


@pytest.mark.parametrize("retargeting", [True, False])
async def test_rule_6_primary_preferred_reads_from_a_secondary(
    replica_set3: LocalServer, database_name: str, fail: Fail, retargeting: bool
) -> None:
    record = Recorder()
    options: dict[str, Any] = {"read_preference": PrimaryPreferred(), "enableOverloadRetargeting": retargeting}
    async with make_client(replica_set3, jitter=0.0, event_listeners=[record], **options) as client:
        await all_known(client, record)
        primary = replica_set3.wait_for_primary()
        fail(replica_set3, failpoints.overload(commands=["find"], times=1), primary)
        await client[database_name].c.find_one()
        first, second = (event.connection_id for event in record.started_events)
        assert first == primary
        assert (second == primary) is not retargeting


async def test_rule_6_a_primary_that_is_the_only_candidate_is_asked_again(
    replica_set3: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set3, jitter=0.0, event_listeners=[record]) as client:
        primary = replica_set3.wait_for_primary()
        fail(replica_set3, failpoints.overload(commands=["insert"], times=2), primary)
        await client[database_name].c.insert_one({})
        assert [event.connection_id for event in record.started_events] == [primary] * 3


async def all_known(client: Client, record: Recorder) -> None:
    """Wait until all three members are known, so that selection has a choice."""
    with anyio.fail_after(10):
        while len(client.nodes) < 3:
            await client.aconnect(timeoutMS=0)
            await anyio.sleep(0.01)
    record.clear()


# --- all commands ---

OPERATIONS: dict[str, tuple[str, Callable[[Client, str], Awaitable[Any]]]] = {
    "find": ("find", lambda client, name: client[name].c.find().to_list()),
    "find_one": ("find", lambda client, name: client[name].c.find_one()),
    "getMore": ("getMore", lambda client, name: client[name].c.find(batch_size=3).to_list()),
    "aggregate": ("aggregate", lambda client, name: client[name].c.aggregate([]).to_list()),
    "aggregate_out": ("aggregate", lambda client, name: client[name].c.aggregate([{"$out": "d"}]).to_list()),
    "distinct": ("distinct", lambda client, name: client[name].c.distinct("a")),
    "count_documents": ("aggregate", lambda client, name: client[name].c.count_documents({})),
    "estimated_document_count": ("count", lambda client, name: client[name].c.estimated_document_count()),
    "insert_one": ("insert", lambda client, name: client[name].c.insert_one({"a": 1})),
    "insert_many": ("insert", lambda client, name: client[name].c.insert_many([{"a": 1}, {"a": 2}])),
    "bulk_write": ("update", lambda client, name: client[name].c.bulk_write([UpdateMany({}, {"$set": {"b": 1}})])),
    "update_one": ("update", lambda client, name: client[name].c.update_one({}, {"$set": {"a": 1}})),
    "update_many": ("update", lambda client, name: client[name].c.update_many({}, {"$set": {"a": 1}})),
    "replace_one": ("update", lambda client, name: client[name].c.replace_one({}, {"a": 1})),
    "delete_one": ("delete", lambda client, name: client[name].c.delete_one({"a": 1})),
    "delete_many": ("delete", lambda client, name: client[name].c.delete_many({"a": 1})),
    "find_one_and_update": (
        "findAndModify",
        lambda client, name: client[name].c.find_one_and_update({}, {"$set": {"a": 1}}),
    ),
    "find_one_and_replace": ("findAndModify", lambda client, name: client[name].c.find_one_and_replace({}, {})),
    "find_one_and_delete": ("findAndModify", lambda client, name: client[name].c.find_one_and_delete({})),
    "command": ("ping", lambda client, name: client[name].command("ping")),
    "cursor_command": ("find", lambda client, name: client[name].cursor_command({"find": "c"}).to_list()),
    "create_collection": ("create", lambda client, name: client[name].create_collection("new")),
    "list_collections": ("listCollections", lambda client, name: client[name].list_collection_names()),
    "list_databases": ("listDatabases", lambda client, name: client.list_database_names()),
    "create_index": ("createIndexes", lambda client, name: client[name].c.create_index("a")),
    "list_indexes": ("listIndexes", lambda client, name: client[name].c.list_indexes().to_list()),
    "drop_indexes": ("dropIndexes", lambda client, name: client[name].c.drop_indexes()),
    "rename": ("renameCollection", lambda client, name: client[name].c.rename("d")),
    "drop": ("drop", lambda client, name: client[name].c.drop()),
    "drop_database": ("dropDatabase", lambda client, name: client.drop_database(name)),
    "explain": ("explain", lambda client, name: client[name].c.find().explain()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_is_retried(
    replica_set: LocalServer, database_name: str, fail: Fail, operation: str
) -> None:
    command, run = OPERATIONS[operation]
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        await client[database_name].c.insert_many(numbered(5, a=1))
        record.clear()
        fail(replica_set, failpoints.overload(commands=[command], times=2))
        await run(client, database_name)
        ended = [
            outcome for outcome in record.history if outcome.endswith(f"ed {command}") and "started" not in outcome
        ]
        assert ended[:3] == [f"failed {command}"] * 2 + [f"succeeded {command}"]
        assert [(event.command_name, event.reason) for event in record.retries] == [(command, "overload")] * 2


async def test_a_killed_cursor_is_retried_and_a_getmore_loses_nothing(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, maxAdaptiveRetries=50, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        fail(replica_set, failpoints.overload(0.5, ["getMore"]))
        found = [document["_id"] async for document in collection.find(batch_size=2)]
        assert found == list(range(10))
        replica_set.command(failpoints.overload(commands=["killCursors"], times=2))
        cursor = await collection.find(batch_size=2)
        record.clear()
        await cursor.close()
        assert record.names == ["killCursors"] * 3


async def test_a_write_that_was_shed_is_applied_once(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    namespace = f"{database_name}.c"
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1, "n": 0})
        fail(replica_set, failpoints.overload(commands=["update"], times=5, namespace=namespace))
        result = await collection.update_many({}, {"$inc": {"n": 1}})
        assert (result.matched_count, result.modified_count) == (1, 1)
        assert record.names == ["insert"] + ["update"] * 6
        assert await collection.find_one() == {"_id": 1, "n": 1}


async def test_each_batch_of_a_bulk_write_has_retries_of_its_own(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        insert, update = (
            failpoints.overload(commands=[name], times=1, namespace=f"{database_name}.c")
            for name in ("insert", "update")
        )
        in_turn(replica_set, record, [*[insert] * 4, *[update] * 4])
        requests: list[Any] = [InsertOne({"_id": 1, "n": 0}), UpdateMany({}, {"$inc": {"n": 1}})]
        # The fourth failure of the insert makes way for the first of the update.
        result = await client[database_name].c.bulk_write(requests)
        assert (result.inserted_count, result.modified_count) == (1, 1)
        assert record.names == ["insert"] * 5 + ["update"] * 5
        assert len({event.operation_id for event in record.started_events}) == 1
        assert await client[database_name].c.find_one() == {"_id": 1, "n": 1}


# --- options ---


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"retryReads": False}, {"find", "ping"}),
        ({"retryWrites": False}, {"update", "ping"}),
        ({"retryReads": False, "retryWrites": False}, {"find", "update", "ping"}),
    ],
)
async def test_retry_reads_and_retry_writes_switch_overload_retries_off(
    replica_set: LocalServer, database_name: str, fail: Fail, options: Mapping[str, Any], refused: set[str]
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record], **options) as client:
        database = client[database_name]
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "find": database.c.find_one,
            "update": lambda: database.c.update_many({}, {"$set": {"a": 1}}),
            "ping": lambda: database.command("ping"),
        }
        for command, call in calls.items():
            fail(replica_set, failpoints.overload(1.0, [command]))
            with pytest.raises(OperationFailure) as caught:
                await call()
            expected = (1, "disabled") if command in refused else (6, "attempts")
            assert (caught.value.attempts, caught.value.retry_refusal) == expected


# --- mixtures ---


async def test_an_ordinary_retry_and_overload_retries_are_capped_together(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        fail(replica_set, failpoints.off())
        steps = [
            failpoints.fail_command(["find"], error_code=EXCEEDED_TIME_LIMIT, times=1),
            failpoints.overload(1.0, ["find"]),
        ]
        in_turn(replica_set, record, [*steps, *[steps[1]] * 10])
        with pytest.raises(OperationFailure) as caught:
            await collection.find_one()
        assert caught.value.retry_reasons == ("temporary failure", *("overload",) * 4)
        assert (caught.value.attempts, caught.value.retry_refusal) == (6, "attempts")
        # The ordinary retry is free.
        assert client.stats().tokens == 996


async def test_an_overload_error_and_then_an_ordinary_one(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        fail(replica_set, failpoints.off())
        overload = failpoints.overload(commands=["find"], times=1)
        closed = failpoints.fail_command(["find"], close_connection=True, times=1)
        in_turn(replica_set, record, [overload, closed, overload])
        assert await collection.find_one() is None
        assert [event.reason for event in record.retries] == ["overload", "connection lost in flight", "overload"]
        # 1 taken, 1 deposited for a retry that failed otherwise, 1 taken, 1.1 deposited: above the capacity.
        assert client.stats().tokens == pytest.approx(1000)


async def test_a_write_keeps_its_transaction_number_through_both_kinds_of_retry(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    namespace = f"{database_name}.c"
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        overload = failpoints.overload(commands=["insert"], times=1, namespace=namespace)
        closed = failpoints.fail_command(["insert"], close_connection=True, times=1, namespace=namespace)
        in_turn(replica_set, record, [overload, closed, overload])
        await client[database_name].c.insert_one({"_id": 1})
        inserts = record.commands("insert")
        assert len(inserts) == 4
        assert {(command["lsid"]["id"], command["txnNumber"]) for command in inserts} == {
            (inserts[0]["lsid"]["id"], inserts[0]["txnNumber"])
        }
        assert [event.reason for event in record.retries] == ["overload", "connection lost in flight", "overload"]
        assert await client[database_name].c.count_documents({}) == 1


async def test_the_error_of_an_attempt_that_may_have_written_is_the_one_that_is_raised(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    namespace = f"{database_name}.c"
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        stepping_down = failpoints.fail_command(
            ["insert"],
            error_code=EXCEEDED_TIME_LIMIT,
            error_labels=["RetryableWriteError"],
            times=1,
            namespace=namespace,
        )
        shed = failpoints.overload(1.0, ["insert"], error_labels=[*BOTH, "NoWritesPerformed"], namespace=namespace)
        in_turn(replica_set, record, [stepping_down, *[shed] * 10])
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.insert_one({"_id": 1})
        assert (caught.value.code, caught.value.attempts) == (EXCEEDED_TIME_LIMIT, 6)


async def test_with_timeout_ms_an_overload_caps_the_retries_all_the_same(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, jitter=0.0, timeoutMS=20_000) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].c.find_one()
        assert (caught.value.attempts, caught.value.retry_refusal) == (6, "attempts")


async def test_errors_that_have_nothing_to_do_with_overload_stay_what_they_are(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.overload(commands=["insert"], times=1, namespace=f"{database_name}.c"))
        record.clear()
        with pytest.raises(DuplicateKeyError) as caught:
            await collection.insert_one({"_id": 1})
        assert record.names == ["insert"] * 2
        # A reply to the retry, so a success as far as the server's load goes.
        assert caught.value.attempts == 2
        assert client.stats().tokens == pytest.approx(1000)


# --- while a connection is established ---


async def test_a_connection_that_is_refused_is_an_overload_of_the_operation_that_wanted_it(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    app_name = str(ObjectId())
    options: dict[str, Any] = {"appName": app_name, "event_listeners": [record], "maxPoolSize": 2}
    async with make_client(replica_set, jitter=0.0, **options) as client:
        collection = client[database_name].c
        await collection.insert_one({})
        # The monitor has its connections; the next handshake is that of a second pooled one.
        handshakes = ["hello", "isMaster", "ismaster"]
        fail(replica_set, failpoints.fail_command(handshakes, close_connection=True, times=1, app_name=app_name))
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(collection.find_one, {"$where": "sleep(500) || true"})
        assert [(event.reason, event.rule) for event in record.retries] == [("server not available", "overload policy")]
        assert isinstance(record.retries[0].error, AutoReconnect)
        assert record.retries[0].error.error_labels >= set(BOTH)
        server = client.stats().servers[replica_set.addresses[0]]
        assert (server.generation, server.server_type) == (0, "RSPrimary")


@pytest.mark.parametrize(("policy", "announced"), [(OverloadRetry(), True), (OverloadRetry.revision_2026_07(), "2")])
async def test_the_handshake_of_every_connection_announces_backpressure(
    standalone: LocalServer, database_name: str, policy: OverloadRetry, announced: object
) -> None:
    app_name = str(ObjectId())
    standalone.command({"profile": 0, "slowms": -1})  # every command goes to the server's log
    try:
        async with make_client(standalone, appName=app_name, overload_policy=policy) as client:
            await client[database_name].c.find_one()
            log = standalone.command({"getLog": "global"})["log"]
    finally:
        standalone.command({"profile": 0, "slowms": 100})
    hellos = [
        line for line in log if f'"name":"{app_name}"' in line and '"helloOk":true' in line and '"command"' in line
    ]
    # Of the monitor and of the pooled connection.
    assert len(hellos) >= 2
    expected = '"backpressure":true' if announced is True else '"backpressure":"2"'
    assert all(expected in line for line in hellos)


# --- events ---


async def test_command_events_are_paired_and_retry_events_tell_the_decisions(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.01, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(commands=["find"], times=2))
        await client[database_name].c.find_one()
        assert record.history == ["started find", "failed find"] * 2 + ["started find", "succeeded find"]
        started, ended = record.started_events, record.ended_events
        assert [event.request_id for event in started] == [event.request_id for event in ended]
        assert len({event.request_id for event in started}) == 3
        (operation_id,) = {event.operation_id for event in (*started, *ended)}
        address = replica_set.addresses[0]
        assert {event.connection_id for event in started} == {address}
        assert ended[0].failure["code"] == 462  # type: ignore[union-attr]  # the first one failed
        facts = [
            (event.command_name, event.operation_id, event.permitted, event.reason, event.refusal, event.attempt)
            for event in record.retries
        ]
        assert facts == [("find", operation_id, True, "overload", None, attempt) for attempt in (1, 2)]
        assert [event.tokens for event in record.retries] == [999, 998]
        assert [event.delay for event in record.retries] == pytest.approx([0.001, 0.002])
        assert {event.address for event in record.retries} == {address}
        assert all(event.deprioritized for event in record.retries)


async def test_an_operation_that_is_cancelled_in_its_backoff_ends_at_once(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    options: dict[str, Any] = {"overload_policy": OverloadRetry(base_backoff=10.0), "event_listeners": [record]}
    async with make_client(replica_set, jitter=1.0, **options) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        record.clear()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collection.find_one)
                await until(lambda: record.retries)
                started = anyio.current_time()
                scope.cancel()
        assert anyio.current_time() - started < 9
        assert record.names == ["find"]
        server = client.stats().servers[replica_set.addresses[0]]
        assert (server.in_use, server.operations) == (0, 0)


async def test_a_deadline_that_passes_during_the_command_is_not_retried(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, jitter=0.0) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.fail_command(["find"], block_ms=800))
        with pytest.raises(PyMongoError) as caught:
            await collection.find_one(timeoutMS=250)
        assert caught.value.timeout
        assert caught.value.phase == "reply"
        assert not isinstance(caught.value, ExecutionTimeout) or caught.value.code == 50
