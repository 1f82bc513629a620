"""Runs one test (Unified Test Format, "Executing a Test")."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from anyio import create_task_group, get_cancelled_exc_class, sleep

from motorlite import AsyncCommandCursor, AsyncCursor
from tests.spec.unified import operations, requirements, special
from tests.spec.unified.entities import Client, EntityFactory, EntityMap, Session
from tests.spec.unified.errors import DRIVER_ERRORS, check_error, describe
from tests.spec.unified.events import check_events
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
        self.pending_fail_points: list[special.PendingFailPoint] = []
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
            await special.perform(self, name, arguments)
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
        for client in self.entities.all(Client):
            await client.client.close()
