"""Runs one test (Unified Test Format, "Executing a Test")."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anyio import create_task_group, get_cancelled_exc_class, move_on_after, sleep

from motorlite import AsyncCommandCursor, AsyncCursor
from motorlite.encryption import AsyncClientEncryption
from motorlite.errors import PyMongoError
from tests.spec.unified import operations, requirements
from tests.spec.unified.entities import Client, EntityFactory, EntityMap, Session
from tests.spec.unified.errors import DRIVER_ERRORS, check_error, describe
from tests.spec.unified.events import check_events, matches
from tests.spec.unified.features import used
from tests.spec.unified.logs import check_messages
from tests.spec.unified.matching import MISSING, Matcher
from tests.spec.unified.outcomes import BadTest, Failed
from tests.spec.unified.threads import Thread
from tests.spec.unified.tracing import check_spans

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup

    from tests.spec.unified.cases import Case
    from tests.spec.unified.environment import Environment

# Seconds after which a test hangs. Somebody else then cancels it: a deadline of a scope around it would be the
# driver's to heed.
PATIENCE: Final = 50.0
_WAIT: Final = 10.0
# What starts transactions.
_STARTERS: Final = ("session.startTransaction", "session.withTransaction")


def check_requirements(case: Case, environment: Environment) -> None:
    """Check that a test can be run here.

    Raises:
        Skipped: it cannot.
    """
    requirements.check(case.content.get("runOnRequirements"), environment)
    requirements.check(case.test.get("runOnRequirements"), environment)
    case.check_listed()


async def run_case(case: Case, environment: Environment, slower: int = 1) -> None:
    """Run a test, with times that are so many times as long.

    Raises:
        Skipped: it cannot be run here.
        Failed: the driver did not do what the test says.
        BadTest: the test is wrong.
        Exception: the driver failed in another way.
    """
    case.check_format()
    check_requirements(case, environment)
    failure: BaseException | None = None
    is_over = False
    async with create_task_group() as tasks:

        async def give_up() -> None:
            await sleep(PATIENCE)
            tasks.cancel_scope.cancel()

        tasks.start_soon(give_up)
        try:
            await Run(case, environment, tasks, slower).run()
            is_over = True
        except get_cancelled_exc_class():
            raise
        except Exception as error:
            is_over, failure = True, error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not is_over:
        raise Failed(f"the test hung: it was cancelled after {PATIENCE:g} s")


class Run:
    """One execution of one test."""

    def __init__(self, case: Case, environment: Environment, tasks: TaskGroup, slower: int) -> None:
        # Copies: the driver adds an _id to the documents of a test.
        self._content, self._test = case.prepared(slower)
        self.environment = environment
        self.entities = EntityMap()
        self.factory = EntityFactory(self.entities, environment, case.client_options)
        self.matcher = Matcher(self.entities)
        # The names of the fail points that were set.
        self.fail_points: list[str] = []
        # Seconds that the format gives to whatever is waited for.
        self.patience: float = _WAIT * slower
        # Those that wait for an event.
        self.pending_fail_points: list[PendingFailPoint] = []
        self._tasks = tasks

    async def run(self) -> None:
        """Set everything up, execute the operations, compare, and clean up."""
        has_transactions = any(name in _STARTERS for name in used(self._content, self._test))
        for data in self._content.get("initialData", ()):
            self.environment.set_up(data)
        try:
            for definition in self._content.get("createEntities", ()):
                await self.factory.create(definition)
            for operation in self._test["operations"]:
                await self.execute(operation)
            for thread in self.entities.all(Thread):
                if thread.failure is not None:
                    raise thread.failure
            for pending in self.pending_fail_points:
                pending.check()
            self._stop_recording()
            self._disable_fail_points()
            self._check_observations()
            self._check_outcome()
        finally:
            self._stop_recording()
            self._disable_fail_points()
            await self._clear_entities()
            if has_transactions:
                self.environment.kill_sessions()
        self.environment.check_facade()

    # --- operations ---

    async def execute(self, operation: Mapping[str, Any], *, reraises: bool = False) -> None:
        """Execute one operation and check its result.

        `reraises`: also raise an expected error, for the driver's `with_transaction` to see.

        Raises:
            Failed: it had another result.
            BadTest: there is no such operation, object or argument.
        """
        name, arguments = operation["name"], dict(operation.get("arguments", {}))
        if operation["object"] == "testRunner":
            await perform(self, name, arguments)
            return
        entity = self.entities.get(operation["object"])
        target, handler = operations.operation(entity, name)
        if "session" in arguments:
            arguments["session"] = self.entities.session(arguments["session"]).session
        if "callback" in arguments:
            arguments["callback"] = self._callback(arguments["callback"])
        try:
            result = await handler(target, arguments)
        except DRIVER_ERRORS as error:
            self._check_error(operation, error)
            if reraises:
                raise
            return
        if operation.get("ignoreResultAndError", False):
            return
        if "expectError" in operation:
            raise Failed(f"{name}: expected an error ({operation['expectError']!r}), found the result {result!r}")
        self._check_result(operation, result)
        if "saveResultAsEntity" in operation:
            self.entities.save_result(operation["saveResultAsEntity"], None if result is MISSING else result)

    def _callback(self, operations: list[Mapping[str, Any]]) -> Callable[[Any], Awaitable[None]]:
        async def callback(_session: Any) -> None:
            for operation in operations:
                await self.execute(operation, reraises=True)

        return callback

    def _check_error(self, operation: Mapping[str, Any], error: Exception) -> None:
        if operation.get("ignoreResultAndError", False):
            return
        if "expectError" not in operation:
            raise Failed(f"{operation['name']}: {describe(error)}") from error
        check_error(operation["expectError"], error, self.matcher)

    def _check_result(self, operation: Mapping[str, Any], result: Any) -> None:
        if "expectResult" not in operation:
            return
        name, expected = operation["name"], operation["expectResult"]
        actual = MISSING if result is None and expected is not None else result
        where = f"the result of {name}"
        if name in operations.RETURNS_DOCUMENTS and isinstance(expected, list):
            self.matcher.match_list(expected, actual, where, is_root=True)
        else:
            self.matcher.match(expected, actual, where, is_root=True)

    def start_thread(self, thread: Thread) -> None:
        """Start a thread, once."""
        if not thread.is_started:
            thread.is_started = True
            self._tasks.start_soon(thread.run)

    # --- afterwards ---

    def _stop_recording(self) -> None:
        for client in self.entities.all(Client):
            client.stop_recording()

    def _disable_fail_points(self) -> None:
        if "onPrimaryTransactionalWrite" in self.fail_points:
            # It closes the connection first and fails the write afterwards, one statement after the other: what it has
            # not failed yet would succeed.
            self.environment.wait_for_writes()
        if self.fail_points:
            self.environment.turn_fail_points_off(dict.fromkeys(self.fail_points))
        self.fail_points.clear()

    def _check_observations(self) -> None:
        for expectation in self._test.get("expectEvents", ()):
            check_events(expectation, self.entities.client(expectation["client"]).events.events, self.matcher)
        for expectation in self._test.get("expectLogMessages", ()):
            check_messages(expectation, self.entities.client(expectation["client"]).logs.messages, self.matcher)
        for expectation in self._test.get("expectTracingMessages", ()):
            spans = self.entities.client(expectation["client"]).spans
            if spans is None:
                raise BadTest(f"the client {expectation['client']!r} observes no tracing messages")
            check_spans(expectation, spans.spans, self.matcher)

    def _check_outcome(self) -> None:
        for data in self._test.get("outcome", ()):
            name = f"{data['databaseName']}.{data['collectionName']}"
            found = self.environment.documents(data["databaseName"], data["collectionName"])
            if found != data["documents"]:
                raise Failed(f"the collection {name}: expected {data['documents']!r}, found {found!r}")

    async def _clear_entities(self) -> None:
        for entity in self.entities:
            if isinstance(entity, AsyncCursor | AsyncCommandCursor):
                with suppress(*DRIVER_ERRORS):
                    await entity.close()
        for session in self.entities.all(Session):
            await session.session.end_session()
        for encryption in self.entities.all(AsyncClientEncryption):
            await encryption.close()
        for client in self.entities.all(Client):
            await client.client.close()


# --- operations of the test runner itself ("Special Test Operations") ---

# A loop ends when somebody ends it; here that is after so many rounds.
_LOOP_ROUNDS: Final = 20


class PendingFailPoint:
    """Sets a fail point when an event is published, from inside the listener: the driver waits meanwhile."""

    def __init__(
        self,
        environment: Environment,
        fail_point: Mapping[str, Any],
        is_awaited: Callable[[Any], bool],
        event: Mapping[str, Any],
    ) -> None:
        self._environment = environment
        self._fail_point = fail_point
        self._is_awaited = is_awaited
        self._event = event
        self._has_reacted = False
        self._failure: Exception | None = None

    def react(self, event: Any) -> None:
        """Set the fail point if this is the event; the driver would log and drop what a listener raises."""
        if self._has_reacted or not self._is_awaited(event):
            return
        self._has_reacted = True
        try:
            self._environment.set_fail_point(self._fail_point)
        except (PyMongoError, OSError) as error:
            self._failure = error

    def check(self) -> None:
        """Check that the fail point was set.

        Raises:
            Failed: it was not.
        """
        if self._failure is not None:
            raise Failed(f"the fail point could not be set: {self._failure}") from self._failure
        if not self._has_reacted:
            raise Failed(f"waited in vain for the event {self._event!r} to set a fail point")


async def _fail_point(run: Run, client: str, failPoint: Mapping[str, Any]) -> None:
    # Before it is set: a command that failed may have been executed.
    run.fail_points.append(failPoint["configureFailPoint"])
    await run.entities.client(client).client.admin.command(dict(failPoint))


async def _fail_point_on_event(run: Run, client: str, event: Mapping[str, Any], failPoint: Mapping[str, Any]) -> None:
    """An extension (spec-tests/EXTENSIONS.md): sets a fail point between a failed attempt and its retry."""
    pending = PendingFailPoint(run.environment, failPoint, lambda found: matches(event, found, run.matcher), event)
    run.fail_points.append(failPoint["configureFailPoint"])
    run.pending_fail_points.append(pending)
    run.entities.client(client).events.reactions.append(pending.react)


async def _wait(run: Run, ms: int) -> None:
    await sleep(ms / 1000)


async def _create_entities(run: Run, entities: list[Mapping[str, Any]]) -> None:
    for definition in entities:
        await run.factory.create(definition)


# --- events ---


def _count(run: Run, client: str, event: Mapping[str, Any]) -> int:
    return sum(matches(event, found, run.matcher) for found in run.entities.client(client).events.events)


async def _wait_for_event(run: Run, client: str, event: Mapping[str, Any], count: int) -> None:
    await run.environment.poll(
        lambda: _count(run, client, event) >= count, run.patience, f"{count} of the event {event!r}"
    )


async def _assert_event_count(run: Run, client: str, event: Mapping[str, Any], count: int) -> None:
    if (found := _count(run, client, event)) != count:
        raise Failed(f"expected {count} of the event {event!r}, found {found}")


async def _assert_number_connections_checked_out(run: Run, client: str, connections: int) -> None:
    if (found := run.entities.client(client).events.connections_checked_out) != connections:
        raise Failed(f"expected {connections} connections checked out, found {found}")


# --- sessions ---


def _last_lsids(run: Run, client: str) -> tuple[Any, Any]:
    started = [event for event in run.entities.client(client).events.events if hasattr(event, "command")]
    if len(started) < 2:
        raise Failed(f"expected two commands, found {len(started)}")
    one, other = (event.command.get("lsid") for event in started[-2:])
    if one is None or other is None:
        raise Failed(f"expected an lsid in both of the last two commands, found {one!r} and {other!r}")
    return one, other


async def _assert_same_lsid(run: Run, client: str) -> None:
    one, other = _last_lsids(run, client)
    if one != other:
        raise Failed(f"expected the same lsid in the last two commands, found {one!r} and {other!r}")


async def _assert_different_lsid(run: Run, client: str) -> None:
    one, other = _last_lsids(run, client)
    if one == other:
        raise Failed(f"expected different lsids in the last two commands, found {one!r} twice")


async def _assert_dirty(is_dirty: bool, run: Run, session: str) -> None:
    # What no method tells; a session that was not used yet has no server session.
    state = run.entities.session(session).session._state.server_session
    if (state is not None and state.is_dirty) is not is_dirty:
        raise Failed(f"expected the session {session!r} to be {'dirty' if is_dirty else 'clean'}")


async def _assert_transaction_state(run: Run, session: str, state: str) -> None:
    transaction = run.entities.session(session).session._state.transaction
    found = "none" if transaction is None else transaction.state.value.replace(" ", "_")
    if found != state:
        raise Failed(f"expected the transaction of {session!r} to be {state}, found {found}")


def _is_pinned(run: Run, session: str) -> bool:
    transaction = run.entities.session(session).session._state.transaction
    return transaction is not None and (transaction.address is not None or transaction.connection is not None)


async def _assert_pinned(is_pinned: bool, run: Run, session: str) -> None:
    if _is_pinned(run, session) is not is_pinned:
        raise Failed(f"expected the session {session!r} to be {'' if is_pinned else 'un'}pinned")


async def _targeted_fail_point(run: Run, session: str, failPoint: Mapping[str, Any]) -> None:
    """Set a fail point on the mongos that the session is pinned to."""
    await _assert_pinned(True, run, session)
    transaction = run.entities.session(session).session._state.transaction
    assert transaction is not None
    if transaction.address is None:
        raise BadTest("behind a load balancer, no mongos has an address of its own")
    run.fail_points.append(failPoint["configureFailPoint"])
    run.environment.command_mongos(transaction.address, failPoint)


# --- collections and indexes ---


async def _assert_collection(exists: bool, run: Run, databaseName: str, collectionName: str) -> None:
    if run.environment.collection_exists(databaseName, collectionName) is not exists:
        raise Failed(f"expected the collection {databaseName}.{collectionName} to exist: {exists}")


async def _assert_index(exists: bool, run: Run, databaseName: str, collectionName: str, indexName: str) -> None:
    if run.environment.index_exists(databaseName, collectionName, indexName) is not exists:
        raise Failed(f"expected the index {indexName} of {databaseName}.{collectionName} to exist: {exists}")


# --- topology ---


async def _record_topology(run: Run, client: str, id: str) -> None:
    run.entities.add(id, run.entities.client(client).client.topology_description)


async def _assert_topology_type(run: Run, topologyDescription: str, topologyType: str) -> None:
    found = run.entities.get(topologyDescription).topology_type_name
    if found != topologyType:
        raise Failed(f"expected the topology {topologyType}, found {found}")


def _primary(description: Any) -> Any:
    servers = description.known_servers
    return next((server.address for server in servers if server.server_type_name == "RSPrimary"), None)


async def _wait_for_primary_change(
    run: Run, client: str, priorTopologyDescription: str, timeoutMS: int | None = None
) -> None:
    before = _primary(run.entities.get(priorTopologyDescription))
    found = run.entities.client(client).client
    await run.environment.poll(
        lambda: _primary(found.topology_description) not in (None, before),
        run.patience if timeoutMS is None else timeoutMS / 1000,
        "another primary",
    )


# --- threads and loops ---


async def _run_on_thread(run: Run, thread: str, operation: Mapping[str, Any]) -> None:
    found = run.entities.thread(thread)
    run.start_thread(found)
    found.add(partial(run.execute, operation))


async def _wait_for_thread(run: Run, thread: str) -> None:
    found = run.entities.thread(thread)
    run.start_thread(found)
    found.complete()
    await run.environment.poll(lambda: found.has_ended, run.patience, f"thread {thread!r}")
    if found.failure is not None:
        raise found.failure


async def _loop(
    run: Run,
    operations: list[Mapping[str, Any]],
    storeIterationsAsEntity: str | None = None,
    storeSuccessesAsEntity: str | None = None,
    storeErrorsAsEntity: str | None = None,
    storeFailuresAsEntity: str | None = None,
) -> None:
    failures: list[dict[str, str]] = []
    errors: list[dict[str, str]] = []
    rounds = successes = 0
    for _ in range(_LOOP_ROUNDS):
        rounds += 1
        try:
            for operation in operations:
                await run.execute(operation)
                successes += 1
        except Exception as error:
            is_failure = isinstance(error, Failed) if storeErrorsAsEntity else bool(storeFailuresAsEntity)
            target = failures if is_failure else errors
            if not (storeFailuresAsEntity or storeErrorsAsEntity):
                raise
            target.append({"error": str(error)})
    for name, value in (
        (storeIterationsAsEntity, rounds),
        (storeSuccessesAsEntity, successes),
        (storeErrorsAsEntity, errors),
        (storeFailuresAsEntity, failures),
    ):
        if name is not None:
            run.entities.add(name, value)


async def _with_deadline(
    run: Run, deadlineMS: int, operations: list[Mapping[str, Any]], expectExceeded: bool = False
) -> None:
    """An extension (spec-tests/EXTENSIONS.md): the caller's own time limit, which the driver can see."""
    with move_on_after(deadlineMS / 1000) as scope:
        for operation in operations:
            await run.execute(operation)
    if scope.cancelled_caught and not expectExceeded:
        raise Failed(f"the operations were not over within the deadline of {deadlineMS} ms")
    if expectExceeded and not scope.cancelled_caught:
        raise Failed(f"the operations were over before the deadline of {deadlineMS} ms")


_OPERATIONS: Final[Mapping[str, Callable[..., Awaitable[None]]]] = {
    "assertCollectionExists": partial(_assert_collection, True),
    "assertCollectionNotExists": partial(_assert_collection, False),
    "assertDifferentLsidOnLastTwoCommands": _assert_different_lsid,
    "assertEventCount": _assert_event_count,
    "assertIndexExists": partial(_assert_index, True),
    "assertIndexNotExists": partial(_assert_index, False),
    "assertNumberConnectionsCheckedOut": _assert_number_connections_checked_out,
    "assertSameLsidOnLastTwoCommands": _assert_same_lsid,
    "assertSessionDirty": partial(_assert_dirty, True),
    "assertSessionNotDirty": partial(_assert_dirty, False),
    "assertSessionPinned": partial(_assert_pinned, True),
    "assertSessionTransactionState": _assert_transaction_state,
    "assertSessionUnpinned": partial(_assert_pinned, False),
    "assertTopologyType": _assert_topology_type,
    "createEntities": _create_entities,
    "failPoint": _fail_point,
    "failPointOnEvent": _fail_point_on_event,
    "loop": _loop,
    "recordTopologyDescription": _record_topology,
    "runOnThread": _run_on_thread,
    "targetedFailPoint": _targeted_fail_point,
    "wait": _wait,
    "waitForEvent": _wait_for_event,
    "waitForPrimaryChange": _wait_for_primary_change,
    "waitForThread": _wait_for_thread,
    "withDeadline": _with_deadline,
}


async def perform(run: Run, name: str, arguments: Mapping[str, Any]) -> None:
    """Perform an operation of the test runner.

    Raises:
        Failed: what it asserts is not so.
        BadTest: there is no such operation, or it has other arguments.
    """
    if name not in _OPERATIONS:
        raise BadTest(f"the test runner has no operation {name!r}")
    try:
        performed = _OPERATIONS[name](run, **arguments)
    except TypeError as error:
        raise BadTest(f"{name} has other arguments: {error}") from error
    await performed
