"""A configured wait queue, from the methods of a client to its servers."""

from __future__ import annotations

import warnings
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import motorlite
from motorlite import ReadPreference
from motorlite.errors import (
    AdmissionError,
    ConfigurationError,
    OperationFailure,
    PoolFullError,
    RateLimitError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.exporters._readings import readings
from motorlite.monitoring import (
    DegradedEvent,
    OperationEvent,
    OperationFailedEvent,
    OperationStartedEvent,
    OperationSucceededEvent,
    PoolEvent,
    RetryEvent,
)
from motorlite.overload import RateLimit, WaitQueue
from motorlite.testing.scripted import Reply, overloaded
from tests.support.clients import scripted_client
from tests.support.core import FOUND, A, replica_set
from tests.support.events import Recorder
from tests.support.kept_errors import garbage, without_collector
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from motorlite.overload import CallBlock, Fallback
    from motorlite.stats import QueueStats
    from motorlite.testing.scripted import ScriptedDeployment
    from tests.support.clients import Client

# Some tests set what their queue does not read, which `test_options_without_effect` is about.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:call_options")]

LARGE = {"text": "x" * 50_000}
OTHER = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": "from b"}]}}


class Subject:
    """A client with one connection to each server, which a slow find of collection `slow` can hold."""

    def __init__(self, client: Client, deployment: ScriptedDeployment, recorder: Recorder) -> None:
        self.client = client
        self.coll = client.db.coll
        self.deployment = deployment
        self.recorder = recorder

    @asynccontextmanager
    async def full(self, seconds: float = 1.0, calls: int = 1) -> AsyncIterator[None]:
        """All connections to the primary are in use, and `calls` - 1 operations wait."""
        self.deployment["a:1"].on("find", *[Reply(FOUND, seconds)] * calls)
        async with anyio.create_task_group() as group:
            for _ in range(calls):
                group.start_soon(self.client.db.slow.find_one)
            await settle()
            yield

    @property
    def queue(self) -> QueueStats:
        queue = self.client.stats().servers[A].queue
        assert queue is not None
        return queue


@asynccontextmanager
async def client_with(queue: WaitQueue | None, *, servers: int = 1, **options: Any) -> AsyncIterator[Subject]:
    deployment = replica_set(servers=servers)
    for server in deployment.servers.values():
        server.on("find", FOUND)
    recorder = Recorder()
    async with scripted_client(
        deployment, maxPoolSize=1, wait_queue=queue, event_listeners=[recorder], **options
    ) as client:
        await client.db.coll.find_one()
        await anyio.sleep(1)
        for server in deployment.servers.values():
            server.received.clear()
        recorder.clear()
        yield Subject(client, deployment, recorder)


async def refused(call: Callable[[], Awaitable[Any]]) -> AdmissionError:
    with pytest.raises(AdmissionError) as caught:
        await call()
    return caught.value


# --- errors ---


async def test_a_refused_operation_costs_nothing() -> None:
    async with client_with(WaitQueue("reject")) as subject, subject.full():
        before = subject.client.stats()
        began = anyio.current_time()
        error = await refused(subject.coll.find_one)
        assert anyio.current_time() == began
        assert type(error) is PoolFullError
        assert (error.depth, error.limit, error.address, error.retry_after) == (1, 1, A, 1.0)
        assert (error.attempts, error.retry_reasons, error.retry_refusal) == (1, (), None)
        assert not error.error_labels
        # It never reached the server: the application can tell the driver's refusals by their class.
        assert not error.reached_server
        after = subject.client.stats()
        assert (after.tokens, after.retries, after.refusals) == (before.tokens, {}, {})
        assert after.servers[A].server_type == "RSPrimary"
        assert after.servers[A].generation == before.servers[A].generation
        assert len(subject.deployment["a:1"].commands("find")) == 1
        (told,) = (event for event in subject.recorder.of(PoolEvent) if hasattr(event, "error"))
        assert (told.error.depth, told.error.limit, told.error.retry_after) == (1, 1, 1.0)
        assert "check-out failed connectionError" in subject.recorder.words("failed")
        assert subject.recorder.words("retry|server changed|cleared") == []
        assert subject.queue.rejected == {"pool_full": 1}


async def test_a_full_queue_and_a_timeout() -> None:
    options = WaitQueue("queue", 1, "300ms")
    async with client_with(options) as subject, subject.full(), anyio.create_task_group() as group:
        errors: list[AdmissionError] = []

        async def late() -> None:
            errors.append(await refused(subject.coll.find_one))

        group.start_soon(late)
        await settle()
        assert subject.client.stats().servers[A].waiting == subject.queue.depth == 1
        full = await refused(subject.coll.find_one)
        assert type(full) is WaitQueueFullError
        assert (full.depth, full.limit, full.retry_after) == (1, 1, 1.0)
        await anyio.sleep(0.5)
        (timeout,) = errors
        assert type(timeout) is WaitQueueTimeoutError
        assert timeout.wait_time == pytest.approx(0.3)
        assert (timeout.phase, timeout.attempts) == ("queue", 1)
        assert (subject.queue.rejected, subject.queue.timeouts) == ({"queue_full": 1, "timeout": 1}, 1)


async def test_memory_counts_the_documents() -> None:
    async with client_with(WaitQueue("queue", memory_limit="50KB")) as subject:
        subject.deployment["a:1"].on("insert", {"n": 1})
        async with subject.full(), anyio.create_task_group() as group:
            group.start_soon(subject.coll.insert_one, {"text": "x" * 1000})
            await settle()
            assert 1200 < subject.queue.memory < 1500
            error = await refused(lambda: subject.coll.insert_one(dict(LARGE)))
            assert type(error) is WaitQueueMemoryError
            assert (error.limit, error.depth) == (51200, subject.queue.memory)
            error = await refused(lambda: subject.coll.insert_many([dict(LARGE), dict(LARGE)]))
            assert type(error) is WaitQueueMemoryError
            # Nothing but metadata.
            group.start_soon(subject.client.db.slow.find_one)
        assert subject.queue.memory == 0


async def test_a_refused_retry_raises_the_error_of_the_server() -> None:
    async with client_with(WaitQueue("reject")) as subject:
        subject.deployment["a:1"].on("find", overloaded(baseBackoffMS=300), Reply(FOUND, 5))
        errors: list[OperationFailure] = []

        async def overload() -> None:
            with pytest.raises(OperationFailure) as caught:
                await subject.coll.find_one()
            errors.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(overload)
            await anyio.sleep(0.1)
            group.start_soon(subject.coll.find_one)
            await anyio.sleep(0.1)
            # The server's own hint comes first.
            assert (await refused(subject.coll.find_one)).retry_after == 0.3
            await anyio.sleep(2)
            (error,) = errors
            assert (error.code, error.attempts, error.retry_after) == (462, 2, 0.3)
            assert isinstance(error.__cause__, PoolFullError)


@pytest.mark.parametrize("queue", [None, WaitQueue("queue", 500, "60s")])
async def test_an_overload_error_without_a_hint_has_the_mean_duration(queue: WaitQueue | None) -> None:
    async with client_with(queue, maxAdaptiveRetries=0) as subject, anyio.create_task_group() as group:
        if queue is None:
            subject.deployment["a:1"].on("ping", overloaded())
            with pytest.raises(OperationFailure) as caught:
                await subject.client.db.command("ping")
            assert caught.value.retry_after == 1.0, "nothing was measured"
        # The pool measures while operations wait.
        subject.deployment["a:1"].on("find", *[Reply(FOUND, 0.25)] * 200, overloaded(), overloaded(baseBackoffMS=300))
        for _ in range(200):
            group.start_soon(subject.coll.find_one)
        await settle()
        for expected in (0.25, 0.3):
            with pytest.raises(OperationFailure) as caught:
                await subject.coll.find_one()
            assert caught.value.retry_after == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("overflow", ["a full pool", "a full queue", "no memory", "a timeout"])
async def test_a_refusal_is_in_the_histogram_of_retry_after(overflow: str) -> None:
    """Each with the seconds that its error names."""
    queue = {
        "a full pool": WaitQueue("reject"),
        "a full queue": WaitQueue("queue", 1),
        "no memory": WaitQueue("queue", memory_limit=1),
        "a timeout": WaitQueue("queue", timeout=0.2),
    }[overflow]
    async with client_with(queue) as subject, subject.full(2, 2 if overflow == "a full queue" else 1):
        advised = [(await refused(subject.coll.find_one)).retry_after for _ in range(3)]
        assert subject.queue.retry_after.count == 3
        assert subject.queue.retry_after.total == pytest.approx(sum(seconds or 0 for seconds in advised))
        assert all(advised)


async def test_a_retry_keeps_its_place() -> None:
    async with client_with(WaitQueue("queue")) as subject:
        ended: list[str] = []

        async def one(name: str) -> None:
            await subject.coll.find_one()
            ended.append(name)

        subject.deployment["a:1"].on("find", overloaded(baseBackoffMS=100), *[Reply(FOUND, 0.15)] * 6)
        async with anyio.create_task_group() as group:
            for name in ("retried", "a", "b", "c"):
                group.start_soon(one, name)
                await settle()
        # It comes back after 100 ms, while a runs and b and c wait.
        assert ended == ["a", "retried", "b", "c"]


# --- priority ---


async def order_of(subject: Subject, calls: Iterable[tuple[str, Callable[[], Any]]]) -> list[str]:
    """The order in which calls are served that begin one after another while the pool is full."""
    ended: list[str] = []

    async def one(name: str, block: Callable[[], Any]) -> None:
        with block():
            await subject.coll.find_one()
            ended.append(name)

    async with subject.full(), anyio.create_task_group() as group:
        for name, block in calls:
            group.start_soon(one, name, block)
            await settle()
    return ended


def priority(number: int) -> Callable[[], Any]:
    return lambda: motorlite.call_options(priority=number)


async def test_priorities() -> None:
    """What counted, and not what was asked for, is in the statistics, and in a metric for an audit."""
    async with client_with(WaitQueue("queue", ordering="priority", max_priority=80)) as subject:
        calls = [("low", priority(0)), ("none", motorlite.call_options), ("high", priority(100)), ("60", priority(60))]
        assert await order_of(subject, calls) == ["high", "60", "none", "low"]
        with motorlite.call_options(priority=20), motorlite.call_options(priority=100):
            await order_of(subject, [("nested", motorlite.call_options)])
        # The first operation waited for the connection to be opened.
        assert subject.queue.priorities == {50: 2, 0: 1, 80: 1, 60: 1, 20: 1}
        found = {
            reading.labels: reading.value
            for reading in readings(subject.client.stats())
            if reading.name == "queue_admitted"
        }
        assert found == {("a:1", str(number)): count for number, count in subject.queue.priorities.items()}


@pytest.mark.parametrize(("allow", "first"), [(True, "greedy"), (False, "gold")])
async def test_who_may_set_the_priority(allow: bool, first: str) -> None:
    """The code that knows the user sets it for what it calls; without override, that cannot raise it."""
    options = WaitQueue("queue", ordering="priority", allow_priority_override=allow)
    async with client_with(options) as subject:
        ended: list[str] = []

        async def request(name: str, assigned: int, wanted: int) -> None:
            with motorlite.call_options(priority=assigned), motorlite.call_options(priority=wanted):
                await subject.coll.find_one()
                ended.append(name)

        async with subject.full(), anyio.create_task_group() as group:
            group.start_soon(request, "greedy", 10, 100)
            await settle()
            group.start_soon(request, "gold", 80, 80)
            await settle()
        assert ended[0] == first


# --- degrade ---

DEGRADE = WaitQueue("degrade")


def count(recorder: Recorder, kind: type) -> int:
    return sum(isinstance(event, kind) for event in recorder.events)


async def test_a_read_preference_instead() -> None:
    async with client_with(DEGRADE, servers=2) as subject, subject.full():
        subject.deployment["b:1"].on("find", OTHER)
        with motorlite.call_options(fallback=ReadPreference.SECONDARY) as block:
            assert await subject.coll.find_one() == {"_id": "from b"}
            assert (block.degraded, block.is_degraded) == (1, True)
            assert await subject.coll.find().to_list() == [{"_id": "from b"}]
        assert block.degraded == subject.client.stats().degraded == 2
        event = next(event for event in subject.recorder.events if isinstance(event, DegradedEvent))
        assert (event.command_name, event.read_preference) == ("find", ReadPreference.SECONDARY)
        assert isinstance(event.error, PoolFullError)
        assert event.error.address == A
        (sent, _) = subject.deployment["b:1"].commands("find")
        assert sent["$readPreference"]["mode"] == "secondary"
        assert count(subject.recorder, RetryEvent) == 0


async def test_a_read_preference_instead_needs_no_further_token() -> None:
    """It is the same operation, which had its token. One that had none needs one for other servers, too."""
    limit = RateLimit(rate=0.1, burst=2)
    async with client_with(DEGRADE, servers=2, rate_limit=limit) as subject:
        await anyio.sleep(100)
        async with subject.full():
            with motorlite.call_options(fallback=ReadPreference.SECONDARY) as block:
                assert await subject.coll.find_one() == {"_id": 1}
                assert block.degraded == 1
                assert isinstance(await refused(subject.coll.find_one), RateLimitError)
                assert block.degraded == 1
        assert len(subject.deployment["b:1"].commands("find")) == 1


async def test_another_deployment_answers_with_a_lower_priority() -> None:
    """The decision record's example of `degrade`: another upstream, whose own callers go first while it is busy."""
    spare = WaitQueue("queue", ordering="priority")
    async with client_with(DEGRADE) as subject, client_with(spare) as other, subject.full(), other.full(0.1):
        other.deployment["a:1"].on("find", OTHER)
        ended: list[str] = []

        async def elsewhere(error: AdmissionError) -> Any:
            with motorlite.call_options(priority=10):
                return await other.coll.find_one(7)

        async def degraded() -> None:
            with motorlite.call_options(fallback=elsewhere) as block:
                assert await subject.coll.find_one(7) == {"_id": "from b"}
            assert block.is_degraded
            ended.append("degraded")

        async def its_own() -> None:
            await other.coll.find_one(8)
            ended.append("its own")

        async with anyio.create_task_group() as group:
            group.start_soon(degraded)
            await settle()
            group.start_soon(its_own)
        assert ended == ["its own", "degraded"]
        assert other.queue.priorities == {50: 2, 10: 1}


@pytest.mark.parametrize("fallback", [ReadPreference.SECONDARY, ReadPreference.PRIMARY_PREFERRED])
@pytest.mark.parametrize("read", [lambda coll: coll.find_one(), lambda coll: coll.find().to_list()])
async def test_a_degraded_operation_is_published_once(fallback: Any, read: Callable[[Any], Awaitable[Any]]) -> None:
    """The read preference is used once: it may name the full server again, which is no answer."""
    async with client_with(DEGRADE, servers=2) as subject, subject.full():
        subject.recorder.clear()
        before = subject.client.stats().failures
        with motorlite.call_options(fallback=fallback) as block:
            if is_answered := fallback is ReadPreference.SECONDARY:
                await read(subject.coll)
            else:
                assert type(await refused(lambda: read(subject.coll))) is PoolFullError
        kinds = [type(event) for event in subject.recorder.events if isinstance(event, OperationEvent)]
        assert kinds == [OperationStartedEvent, OperationSucceededEvent if is_answered else OperationFailedEvent]
        assert subject.client.stats().failures == before + (not is_answered)
        assert (
            block.degraded == subject.client.stats().degraded == count(subject.recorder, DegradedEvent) == is_answered
        )


CACHED: list[dict[str, Any]] = [{"_id": "cached"}]


def answers(value: Any) -> list[Fallback]:
    async def later(error: AdmissionError) -> Any:
        await anyio.sleep(0.01)
        assert isinstance(error, PoolFullError)
        return value

    def at_once(error: AdmissionError) -> Any:
        assert isinstance(error, PoolFullError)
        return value

    return [at_once, later]


READS: list[tuple[Any, Callable[[Subject], Awaitable[Any]]]] = [
    (CACHED[0], lambda subject: subject.coll.find_one()),
    (None, lambda subject: subject.coll.find_one()),
    (CACHED, lambda subject: subject.coll.find().to_list()),
    (CACHED, lambda subject: subject.coll.aggregate([]).to_list()),
    (["a"], lambda subject: subject.coll.distinct("x")),
    (7, lambda subject: subject.coll.count_documents({})),
    (7, lambda subject: subject.coll.estimated_document_count()),
]


@pytest.mark.parametrize(("value", "read"), READS)
async def test_a_function_supplies_the_answer(value: Any, read: Callable[[Subject], Awaitable[Any]]) -> None:
    async with client_with(DEGRADE, servers=2) as subject:
        with motorlite.call_options(fallback=ReadPreference.SECONDARY) as block:
            await subject.coll.find_one()
        assert not block.is_degraded, "there is room"
        async with subject.full():
            for fallback in answers(value):
                with motorlite.call_options(fallback=fallback) as block:
                    assert await read(subject) == value
                assert block.degraded == 1
        assert count(subject.recorder, DegradedEvent) == 2
        assert subject.deployment["b:1"].commands("find") == []


@pytest.mark.parametrize(
    ("queue", "call"),
    [
        (DEGRADE, lambda coll: coll.insert_one({})),
        (DEGRADE, lambda coll: coll.update_many({}, {"$set": {"x": 1}})),
        (DEGRADE, lambda coll: coll.find_one_and_delete({})),
        (DEGRADE, lambda coll: coll.aggregate([{"$out": "x"}]).to_list()),
        (DEGRADE, lambda coll: coll.database.command("ping")),
        (DEGRADE, lambda coll: coll.bulk_write([motorlite.InsertOne({})])),
        (WaitQueue("reject"), lambda coll: coll.find_one()),
        (WaitQueue("queue", 1, memory_limit=1), lambda coll: coll.find_one()),
    ],
)
async def test_writes_and_other_strategies_have_no_other_answer(
    queue: WaitQueue, call: Callable[[Any], Awaitable[Any]]
) -> None:
    async with client_with(queue, servers=2) as subject, subject.full():
        for fallback in (None, ReadPreference.SECONDARY, *answers({})):
            with motorlite.call_options(fallback=fallback) as block:
                await refused(lambda: call(subject.coll))
            assert not block.is_degraded


async def test_what_the_function_raises_leaves_the_method() -> None:
    def fail(error: AdmissionError) -> Any:
        raise LookupError("not cached") from error

    async with client_with(DEGRADE) as subject, subject.full():
        with motorlite.call_options(fallback=fail):
            with pytest.raises(LookupError) as caught:
                await subject.coll.find_one()
            assert isinstance(caught.value.__cause__, PoolFullError)
            with pytest.raises(LookupError):
                await subject.coll.find().to_list()
        assert subject.client.stats().degraded == 0


@pytest.mark.parametrize("read", [lambda coll: coll.find_one(), lambda coll: coll.find().to_list()])
async def test_calls_inside_the_function_have_no_fallback(read: Callable[[Any], Awaitable[Any]]) -> None:
    """Else a fallback that reads from a server that is busy too would call itself again and again."""
    errors: list[AdmissionError] = []

    async with client_with(DEGRADE) as subject, subject.full():

        async def read_elsewhere(error: AdmissionError) -> Any:
            errors.append(error)
            return await read(subject.client.db.copy)

        with motorlite.call_options(fallback=read_elsewhere) as block:
            error = await refused(lambda: read(subject.coll))
        assert isinstance(error, PoolFullError)
        assert len(errors) == 1
        assert not block.is_degraded


async def test_the_function_may_set_a_fallback_of_its_own() -> None:
    async with client_with(DEGRADE) as subject, subject.full():

        async def read_elsewhere(error: AdmissionError) -> Any:
            with motorlite.call_options(fallback=lambda error: CACHED[0]) as inner:
                found = await subject.client.db.copy.find_one()
            assert inner.degraded == 1
            return found

        with motorlite.call_options(fallback=read_elsewhere) as block:
            assert await subject.coll.find_one() == CACHED[0]
            # The block has its fallback again.
            assert await subject.coll.find_one() == CACHED[0]
        assert block.degraded == 2


async def test_a_cursor_needs_a_list() -> None:
    async with client_with(DEGRADE) as subject, subject.full():
        with (
            motorlite.call_options(fallback=lambda error: None),
            pytest.raises(TypeError, match="the fallback of find must return a list of documents, not NoneType"),
        ):
            await subject.coll.find().to_list()


async def test_a_function_that_hangs_can_be_cancelled() -> None:
    async def hang(error: AdmissionError) -> Any:
        await anyio.sleep_forever()

    async with client_with(DEGRADE) as subject:
        async with subject.full():
            with motorlite.call_options(fallback=hang), anyio.move_on_after(0.1) as scope:
                await subject.coll.find_one()
            assert scope.cancelled_caught
        assert await subject.coll.find_one() == {"_id": 1}


async def test_an_inner_block_replaces_the_fallback() -> None:
    async with client_with(DEGRADE) as subject, subject.full():
        outer: CallBlock
        with motorlite.call_options(fallback=lambda _: {"_id": 1}) as outer:
            with motorlite.call_options(fallback=lambda _: {"_id": 2}) as inner:
                assert await subject.coll.find_one() == {"_id": 2}
            with motorlite.call_options(priority=1) as other:
                assert await subject.coll.find_one() == {"_id": 1}
        assert (outer.degraded, inner.degraded, other.degraded) == (1, 1, 0)


@pytest.mark.parametrize("fallback", ["secondary", 7, [], {}])
def test_what_is_no_fallback(fallback: Any) -> None:
    with (
        pytest.raises(TypeError, match="fallback must be a read preference or a function"),
        motorlite.call_options(fallback=fallback),
    ):
        raise AssertionError("not reached")


# --- configuration ---


@pytest.mark.parametrize(
    ("timeout_ms", "queue", "warns"),
    [
        (5000, WaitQueue("queue"), True),
        (4999, WaitQueue("queue"), True),
        (5001, WaitQueue("queue"), False),
        (None, WaitQueue("queue"), False),
        (0, WaitQueue("queue"), False),
        (100, WaitQueue("reject"), False),
        (100, None, False),
    ],
)
def test_a_queue_timeout_that_has_no_effect_warns_once(timeout_ms: Any, queue: Any, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        motorlite.AsyncMongoClient(timeoutMS=timeout_ms, wait_queue=queue)
    assert [str(each.message).partition(":")[0] for each in caught] == (
        [f"the timeout of wait_queue (5.0 s) is not below timeoutMS ({timeout_ms / 1000} s)"] if warns else []
    )
    assert all(each.filename == __file__ for each in caught)


# --- what errors keep alive ---


@pytest.mark.parametrize(
    ("options", "calls"),
    [(WaitQueue("reject"), 1), (WaitQueue("queue", 1), 2), (WaitQueue("queue", 1, 0.1), 1), (WaitQueue("degrade"), 1)],
)
async def test_refusals_form_no_cycles(options: WaitQueue, calls: int) -> None:
    """Only reference counts free what a refused operation leaves behind."""

    def fail(error: AdmissionError) -> Any:
        raise LookupError("not cached")

    async with client_with(options) as subject, subject.full(1.0, calls):
        with without_collector():
            for fallback in (None, ReadPreference.PRIMARY_PREFERRED, fail):
                for call in (subject.coll.find_one, lambda: subject.coll.find().to_list()):
                    with motorlite.call_options(fallback=fallback), suppress(AdmissionError, LookupError):
                        await call()
            assert garbage() == []


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize("options", [WaitQueue("queue"), DEGRADE])
async def test_cancelled_at_any_moment(options: WaitQueue, at: int) -> None:
    """A caller is cancelled after some turns of the event loop: nothing of it stays in the queue or in use."""

    async def slowly(error: AdmissionError) -> Any:
        for _ in range(3):
            await anyio.sleep(0.01)
        return None

    async with client_with(options) as subject:
        async with subject.full(0.02), anyio.create_task_group() as group:

            async def one(scope: anyio.CancelScope) -> None:
                with scope, motorlite.call_options(fallback=slowly):
                    await subject.coll.find_one()

            scopes = [anyio.CancelScope() for _ in range(4)]
            for scope in scopes:
                group.start_soon(one, scope)
            for scope in scopes:
                for _ in range(at):
                    await anyio.sleep(0.005)
                scope.cancel()
        await anyio.sleep(2)
        server = subject.client.stats().servers[A]
        assert (server.in_use, server.waiting, server.idle, subject.queue.memory) == (0, 0, 1, 0)
        assert await subject.coll.find_one() == {"_id": 1}


# --- for one block of calls ---


async def test_a_route_may_wait_where_others_are_refused() -> None:
    async with client_with(WaitQueue("reject")) as subject, subject.full():
        with motorlite.call_options(wait_queue=WaitQueue("queue")):
            assert await subject.coll.find_one() == {"_id": 1}
        assert subject.queue.waits.count >= 1


@pytest.mark.parametrize(
    ("route", "error", "limit", "waited"),
    [
        (WaitQueue("reject"), PoolFullError, 1, 0.0),
        # It counts all that wait.
        (WaitQueue("queue", max_depth=2), WaitQueueFullError, 2, 0.0),
        (WaitQueue("queue", timeout=0.2), WaitQueueTimeoutError, 10, 0.2),
        (WaitQueue("queue", memory_limit="1KB"), WaitQueueMemoryError, 1024, 0.0),
    ],
    ids=["strategy", "depth", "timeout", "memory"],
)
async def test_a_route_may_be_refused_where_others_wait(
    route: WaitQueue, error: type[AdmissionError], limit: int, waited: float
) -> None:
    options = WaitQueue("queue", max_depth=10, timeout=10, memory_limit=None)
    async with client_with(options) as subject, subject.full(calls=3):
        assert subject.queue.depth == 2
        began = anyio.current_time()
        with motorlite.call_options(wait_queue=route):
            found = await refused(lambda: subject.coll.insert_one({"text": "x" * 2000}))
        assert anyio.current_time() - began == pytest.approx(waited)
        assert (type(found), found.limit) == (error, limit)
        assert await subject.coll.find_one() == {"_id": 1}
        assert subject.queue.memory == 0


@pytest.mark.parametrize(("of_client", "of_route"), [("queue", "degrade"), ("degrade", "reject")])
async def test_a_route_may_be_degraded(of_client: Any, of_route: Any) -> None:
    """Or turn fallbacks off."""
    async with client_with(WaitQueue(of_client)) as subject, subject.full():
        with motorlite.call_options(wait_queue=WaitQueue(of_route), fallback=lambda _: {"_id": "cache"}) as block:
            if of_route == "degrade":
                assert await subject.coll.find_one() == {"_id": "cache"}
            else:
                await refused(subject.coll.find_one)
        assert block.is_degraded is (of_route == "degrade")


async def test_a_route_may_drop_the_oldest() -> None:
    async with client_with(WaitQueue("queue", max_depth=5)) as subject, subject.full(0.5):
        async with anyio.create_task_group() as group:
            errors: list[AdmissionError] = []

            async def dropped() -> None:
                errors.append(await refused(subject.coll.find_one))

            group.start_soon(dropped)
            await settle()
            queue = WaitQueue("queue", max_depth=1, overflow_strategy="drop_oldest")
            with motorlite.call_options(wait_queue=queue):
                assert await subject.coll.find_one() == {"_id": 1}
        assert [type(error) for error in errors] == [WaitQueueFullError]


async def test_a_wait_queue_of_a_block_needs_that_of_the_client() -> None:
    async with client_with(None) as subject:
        assert subject.client.stats().servers[A].queue is None
        calls = (subject.coll.find_one, lambda: subject.coll.find().to_list(), lambda: subject.coll.insert_one({}))
        with motorlite.call_options(wait_queue=WaitQueue("reject")):
            for call in calls:
                with pytest.raises(ConfigurationError, match="without the option wait_queue"):
                    await call()
