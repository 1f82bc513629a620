"""Net: the clients of one arm, each driver with the same request and the time limit that it has.

| driver | the application's patience |
| --- | --- |
| motorlite | `timeoutMS` |
| PyMongo Async | `timeoutMS` |
| Motor | `timeoutMS`, which the PyMongo below it honours |
| mongojet | `asyncio.timeout` around the call: the driver has no time limit for operations |

All other options of the peers have their defaults.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import inspect
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.documents import COLLECTION, DATABASE
from benchmarks.storm.arms import client_options, shared_budget

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Load, Scenario

OVERLOADED: Final = "SystemOverloadedError"
REJECTED: Final = 462
WARM_SECONDS: Final = 60
"""The time limit of the requests with which connections are opened before a run."""
DOCUMENTS: Final = 1000
# The clients whose figures are read in each step: reading those of a thousand would be a load of its own.
_SAMPLE: Final = 20


class Driver:
    """The clients of one arm in one run.

    Args:
        uri: The deployment.
        arm: The driver and its policy.
        scenario: For patience and read preference.

    Attributes:
        surprises: Errors that no server and no time limit explains; the run is not valid with them.
    """

    packages: tuple[str, ...] = ()
    # "module:name" of the class or function that makes a client; the modules with errors and with the time limit.
    maker = errors_module = timeout_module = ""

    def __init__(self, uri: str, arm: Arm, scenario: Scenario) -> None:
        self.arm = arm
        self.patience = scenario.load.patience
        self.surprises: Counter[str] = Counter()
        preference = f"{'&' if '?' in uri else '?'}readPreference={scenario.read_preference}"
        self.uri = uri if len(scenario.servers) == 1 else uri + preference
        self.clients: list[Any] = []
        self.collections: list[Any] = []

    async def open(self, clients: int) -> None:
        """Make the clients."""
        for _ in range(clients):
            client = self.make()
            self.clients.append(await client if inspect.iscoroutine(client) else client)
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    def make(self) -> Any:
        """Return a client, or a coroutine that does."""
        module, _, name = self.maker.partition(":")
        limit = {} if self.patience is None else {"timeoutMS": self.patience * 1000}
        return getattr(importlib.import_module(module), name)(self.uri, **self.options(), **limit)

    def options(self) -> dict[str, Any]:
        """The options of a client, besides its time limit."""
        return {}

    async def find(self, client: int, number: int) -> None:
        """Read the document with that number.

        Raises:
            ValueError: The server answered with something else.
        """
        await self.read(client, number)

    async def read(self, client: int, number: int) -> None:
        """Read the document with that number, without the application's patience."""
        found = await self.collections[client].find_one({"_id": number})
        if found is None or found["_id"] != number:
            raise ValueError(f"asked for document {number}, got {found!r}")

    async def warm_up(self, load: Load) -> None:
        """Let each client find its servers and open its connections, while the ingress holds back its requests."""
        each = min(load.warm, self.arm.max_pool_size)
        with self.unhurried():
            await asyncio.gather(
                *(self.read(client, number % DOCUMENTS) for client in range(load.clients) for number in range(each))
            )

    def unhurried(self) -> AbstractContextManager[object]:
        """A block in which requests have much time, instead of the application's patience."""
        found: AbstractContextManager[object] = importlib.import_module(self.timeout_module).timeout(WARM_SECONDS)
        return found

    def outcome(self, error: Exception) -> str:
        """What became of a request that ended with this error (results.OUTCOMES)."""
        if isinstance(error, self.errors()):
            if getattr(error, "code", None) == REJECTED:
                return "rejected"
            if error.timeout:  # also of a handshake, which has the label of an overload, too
                return "timed_out"
            return "rejected" if error.has_error_label(OVERLOADED) else "failed"
        if isinstance(error, TimeoutError):
            return "timed_out"
        self.surprises[f"{type(error).__name__}: {error}"] += 1
        return "failed"

    def errors(self) -> Any:
        """The base class of the driver's errors."""
        return importlib.import_module(self.errors_module).PyMongoError

    def figures(self) -> dict[str, float]:
        """The values of the series `tokens` and `client_queue`, where the driver shows them."""
        return {}

    async def close(self) -> None:
        """Close the clients."""
        for client in self.clients:
            with contextlib.suppress(self.errors()):
                closing = client.close()
                if closing is not None:
                    await closing

    def version(self) -> dict[str, str]:
        """The versions of the driver and of Python."""
        found = {package: importlib.metadata.version(package) for package in self.packages}
        return {**found, "python": platform.python_version()}


class Motorlite(Driver):
    """motorlite with the policy of the arm."""

    maker, errors_module, timeout_module = "motorlite:AsyncMongoClient", "motorlite.errors", "motorlite"

    def __init__(self, uri: str, arm: Arm, scenario: Scenario) -> None:
        super().__init__(uri, arm, scenario)
        self._budget = shared_budget(arm)

    def options(self) -> dict[str, Any]:
        return client_options(self.arm, self._budget)

    def figures(self) -> dict[str, float]:
        sample = [client.stats() for client in self.clients[:_SAMPLE]]
        waiting = sum(server.waiting for stats in sample for server in stats.servers.values())
        found = {"client_queue": waiting * len(self.clients) / len(sample)}
        if self.arm.budget != "none":
            found["tokens"] = sum(stats.tokens for stats in sample) / len(sample)
        return found

    def version(self) -> dict[str, str]:
        return {"motorlite": importlib.import_module("motorlite").__version__, **super().version()}


class PyMongo(Driver):
    """PyMongo Async."""

    packages = ("pymongo",)
    maker, errors_module, timeout_module = "pymongo:AsyncMongoClient", "pymongo.errors", "pymongo"


class Motor(Driver):
    """Motor, whose threads run PyMongo."""

    packages = ("motor", "pymongo")
    maker, errors_module, timeout_module = "motor.motor_asyncio:AsyncIOMotorClient", "pymongo.errors", "pymongo"


class Mongojet(Driver):
    """mongojet."""

    packages = ("mongojet",)
    errors_module = "mongojet"

    def make(self) -> Any:
        return importlib.import_module("mongojet").create_client(self.uri)

    async def find(self, client: int, number: int) -> None:
        async with asyncio.timeout(self.patience):
            await self.read(client, number)

    def unhurried(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def outcome(self, error: Exception) -> str:
        # Its errors have neither labels nor a code, but texts.
        if isinstance(error, self.errors()):
            text = str(error)
            if OVERLOADED in text or f"Error code {REJECTED}" in text:
                return "rejected"
            return "timed_out" if "timeout" in text.lower() else "failed"
        return super().outcome(error)


DRIVERS: Final[dict[str, type[Driver]]] = {
    "motorlite": Motorlite,
    "pymongo": PyMongo,
    "motor": Motor,
    "mongojet": Mongojet,
}
