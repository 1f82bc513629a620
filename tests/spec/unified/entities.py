"""What tests refer to by name: clients, databases, collections, sessions, cursors, threads, values."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bson.binary import Binary
from bson.code import Code
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from motorlite import (
    AsyncChangeStream,
    AsyncClientSession,
    AsyncCollection,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
    OverloadRetry,
    ServerApi,
    TransactionOptions,
)
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._client.core import Core
from motorlite._client.dependencies import PRODUCTION
from motorlite.gridfs import AsyncGridFSBucket
from motorlite.overload import WaitQueue
from tests.spec.unified.arguments import bucket_options, converted, renamed, selected, transaction_options
from tests.spec.unified.encryption import auto_encryption, client_encryption
from tests.spec.unified.events import EventRecord
from tests.spec.unified.limits import limit_options
from tests.spec.unified.logs import LogRecord
from tests.spec.unified.outcomes import BadTest
from tests.spec.unified.retries import retry_budget, retry_strategy
from tests.spec.unified.threads import Thread
from tests.spec.unified.tracing import SpanRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.client_options import ClientOptions
    from motorlite.retry import RetryBudget
    from tests.spec.unified.environment import Environment

Document = dict[str, Any]

# Backoff is kept short, and a server that failed is looked at again soon: tests check what is retried, not how long
# that takes (tests/sim does). A monitor that waits for an answer from a server that only pretended to fail ("request
# an immediate check": ignored then) waits for the heartbeat frequency; what no option may be set to, a test may.
JITTER: Final = 0.01
MIN_HEARTBEAT_INTERVAL: Final = 0.02
HEARTBEAT_FREQUENCY: Final = 0.1

_SESSION_OPTIONS: Final = renamed(
    "causalConsistency snapshot snapshotTime defaultTransactionOptions defaultTimeoutMS=defaultTimeoutMS"
)

_VALUES: Final = (
    str,
    int,
    float,
    bool,
    bytes,
    list,
    Mapping,
    type(None),
    datetime.datetime,
    Binary,
    Code,
    DBRef,
    Decimal128,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

# What else may be saved.
_OBJECTS: Final = (AsyncCollection, AsyncCursor, AsyncCommandCursor, AsyncChangeStream)

_T = TypeVar("_T")


class Client:
    """A client, and what was observed of it."""

    def __init__(
        self, client: AsyncMongoClient[Document], events: EventRecord, logs: LogRecord, spans: SpanRecord | None
    ) -> None:
        self.client = client
        self.events = events
        self.logs = logs
        # None where a test does not observe them.
        self.spans = spans

    def stop_recording(self) -> None:
        self.events.is_recording = False
        self.logs.is_recording = False
        if self.spans is not None:
            self.spans.stop_recording()


class Session:
    """A session, and its id, which is still asked for when it has ended."""

    def __init__(self, session: AsyncClientSession) -> None:
        self.session = session
        self._lsid: Mapping[str, Any] | None = None

    @property
    def lsid(self) -> Mapping[str, Any]:
        """The session's id."""
        if self._lsid is None:
            self._lsid = self.session.session_id
        return self._lsid

    async def end(self) -> None:
        """End the session; its id stays known."""
        if not self.session.has_ended:
            self._lsid = self.lsid
        await self.session.end_session()


class EntityMap:
    """Entities by name: names are unique, and what is looked up has to be there and of the right kind."""

    def __init__(self) -> None:
        self._entities: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entities.values())

    def add(self, name: str, entity: Any) -> None:
        """Store an entity.

        Raises:
            BadTest: the name is taken.
        """
        if name in self._entities:
            raise BadTest(f"there is an entity {name!r} already")
        self._entities[name] = entity

    def save_result(self, name: str, result: Any) -> None:
        """Store the result of an operation.

        Raises:
            BadTest: the name is taken, or there is no result, or not one that may be stored.
        """
        if not isinstance(result, (*_VALUES, *_OBJECTS)) or result is None:
            raise BadTest(f"a {type(result).__name__} cannot be saved as the entity {name!r}")
        self.add(name, result)

    def get(self, name: str) -> Any:
        """An entity of any kind.

        Raises:
            BadTest: there is none.
        """
        try:
            return self._entities[name]
        except (KeyError, TypeError):
            raise BadTest(f"there is no entity {name!r}") from None

    def _typed(self, name: str, kind: type[_T]) -> _T:
        entity = self.get(name)
        if not isinstance(entity, kind):
            raise BadTest(f"the entity {name!r} is a {type(entity).__name__}, not a {kind.__name__}")
        return entity

    def client(self, name: str) -> Client:
        return self._typed(name, Client)

    def database(self, name: str) -> AsyncDatabase[Document]:
        return self._typed(name, AsyncDatabase)

    def session(self, name: str) -> Session:
        return self._typed(name, Session)

    def thread(self, name: str) -> Thread:
        return self._typed(name, Thread)

    def value(self, name: str) -> Any:
        """A BSON value."""
        entity = self.get(name)
        if not isinstance(entity, _VALUES):
            raise BadTest(f"the entity {name!r} is a {type(entity).__name__}, not a value")
        return entity

    def all(self, kind: type[_T]) -> list[_T]:
        """The entities of one kind."""
        return [entity for entity in self if isinstance(entity, kind)]


class EntityFactory:
    """Creates the entities of a test."""

    def __init__(self, entities: EntityMap, environment: Environment, client_options: Mapping[str, Any]) -> None:
        self._entities = entities
        self._environment = environment
        self._client_options = client_options
        # Budgets that clients share, by name.
        self._budgets: dict[str, RetryBudget] = {}

    async def create(self, definition: Mapping[str, Any]) -> None:
        """Create one entity as `createEntities` describes it.

        Raises:
            BadTest: the description is wrong.
            Skipped: there is no such thing.
        """
        ((kind, fields),) = definition.items()
        made: Any
        if kind == "client":
            made = await self._client(fields)
        elif kind == "database":
            client = self._entities.client(fields["client"]).client
            made = client.get_database(fields["databaseName"], **converted(fields.get("databaseOptions", {})))
        elif kind == "collection":
            database = self._entities.database(fields["database"])
            made = database.get_collection(fields["collectionName"], **converted(fields.get("collectionOptions", {})))
        elif kind == "session":
            made = self._session(fields)
        elif kind == "bucket":
            options = bucket_options(fields.get("bucketOptions", {}))
            made = AsyncGridFSBucket(self._entities.database(fields["database"]), **options)
        elif kind == "thread":
            made = Thread()
        elif kind == "clientEncryption":
            options = fields["clientEncryptionOpts"]
            made = client_encryption(options, self._entities.client(options["keyVaultClient"]).client)
        else:
            raise BadTest(f"unknown kind of entity {kind!r}")
        self._entities.add(fields["id"], made)

    async def _client(self, fields: Mapping[str, Any]) -> Client:
        given = fields.get("uriOptions", {})
        if any(isinstance(value, Mapping) and "$$placeholder" in value for value in given.values()):
            raise BadTest("a $$placeholder that there is no value for")
        options: dict[str, Any] = {**self._client_options, **given}
        if "autoEncryptOpts" in fields:
            options["auto_encryption_opts"] = auto_encryption(fields["autoEncryptOpts"])
        if "serverApi" in fields:
            options["server_api"] = _server_api(fields["serverApi"])
        jitter = JITTER
        if "overloadRetry" in fields:
            policy, jitter = _overload_retry(fields["overloadRetry"], options.get("overload_policy"))
            options["overload_policy"] = policy
            if "tokenCapacity" in fields["overloadRetry"] and "retryBudget" not in given:
                options["retry_budget"] = fields["overloadRetry"]["tokenCapacity"]
        options.update(limit_options(fields.get("limits", {})))
        spans = None
        if "observeTracingMessages" in fields:
            spans = SpanRecord(fields["observeTracingMessages"])
            options["tracing"] = spans.option
        if "retryStrategy" in fields:
            options["retry_strategy"] = retry_strategy(fields["retryStrategy"])
        if "retryBudget" in fields:
            options["retry_budget"] = retry_budget(fields["retryBudget"], self._budgets)
        if "waitQueue" in fields:
            options["wait_queue"] = _wait_queue(fields["waitQueue"])
        events = EventRecord(
            fields.get("observeEvents", ()),
            fields.get("ignoreCommandMonitoringEvents", ()),
            with_sensitive=fields.get("observeSensitiveCommands", False),
        )
        observed_logs = fields.get("observeLogMessages", {})
        logs = LogRecord(observed_logs)
        has_many_mongos = bool(fields.get("useMultipleMongoses"))
        uri = self._environment.uri(is_direct=bool(given.get("directConnection")), has_many_mongos=has_many_mongos)
        with warnings.catch_warnings():
            # The specifications' tests know no limit on the server besides timeoutMS.
            warnings.filterwarnings("ignore", "socketTimeoutMS ends only", UserWarning)
            client: AsyncMongoClient[Document] = AsyncMongoClient(uri, event_listeners=events.listeners(), **options)
        client._core = Core(
            client.options if "heartbeatFrequencyMS" in options else _with_many_checks(client.options),
            PRODUCTION._replace(jitter=lambda: jitter, min_heartbeat_interval=MIN_HEARTBEAT_INTERVAL),
        )
        logs.attach(client)
        made = Client(client, events, logs, spans)
        try:
            await self._start(made, fields)
        except BaseException:
            await client.close()
            raise
        return made

    async def _start(self, made: Client, fields: Mapping[str, Any]) -> None:
        limit = fields.get("awaitMinPoolSizeMS", 0)
        size = made.client.options.min_pool_size
        waits = bool(limit and size)
        made.events.is_recording = made.logs.is_recording = not waits
        await made.client.__aenter__()
        if waits:
            await self._environment.poll(
                lambda: _is_populated(made.client, size), limit / 1000, f"minPoolSize={size} connections"
            )
            made.events.is_recording = made.logs.is_recording = True

    def _session(self, fields: Mapping[str, Any]) -> Session:
        options = fields.get("sessionOptions", {})
        client = self._entities.client(fields["client"]).client
        given = {name: self._session_option(name, value) for name, value in options.items()}
        return Session(client.start_session(**selected(given, _SESSION_OPTIONS, "a session")))

    def _session_option(self, name: str, value: Any) -> Any:
        if name == "defaultTransactionOptions":
            return TransactionOptions(**transaction_options(value))
        return self._entities.value(value) if name == "snapshotTime" else value


def _with_many_checks(options: ClientOptions) -> ClientOptions:
    return replace(options, heartbeat_frequency=HEARTBEAT_FREQUENCY)


def _overload_retry(fields: Mapping[str, Any], policy: OverloadRetry | None) -> tuple[OverloadRetry, float]:
    """An extension (spec-tests/EXTENSIONS.md): the policy with other numbers, and the random factor."""
    numbers = {
        "base_backoff": fields["baseBackoffMS"] / 1000 if "baseBackoffMS" in fields else None,
        "max_backoff": fields["maxBackoffMS"] / 1000 if "maxBackoffMS" in fields else None,
    }
    given = {name: value for name, value in numbers.items() if value is not None}
    return replace(policy or OverloadRetry(), **given), fields.get("jitter", JITTER)


def _wait_queue(fields: Mapping[str, Any]) -> WaitQueue:
    """An extension (spec-tests/EXTENSIONS.md): the queue in which operations wait for a connection."""
    names = {"maxDepth": "max_depth", "memoryLimitBytes": "memory_limit", "overflowStrategy": "overflow_strategy"}
    given = {names.get(name, name): value for name, value in fields.items() if name != "timeoutMS"}
    if "timeoutMS" in fields:
        given["timeout"] = fields["timeoutMS"] / 1000
    return WaitQueue(**given)


def _server_api(fields: Mapping[str, Any]) -> ServerApi:
    try:
        return ServerApi(fields["version"], fields.get("strict"), fields.get("deprecationErrors"))
    except ValueError as error:
        raise BadTest(str(error)) from error


def _is_populated(client: AsyncMongoClient[Document], size: int) -> bool:
    servers = [server for server in client.stats().servers.values() if server.server_type != "Unknown"]
    return bool(servers) and all(server.idle + server.in_use >= size for server in servers)
