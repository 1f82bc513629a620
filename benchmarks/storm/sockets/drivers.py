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
import importlib.util
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.documents import COLLECTION, DATABASE
from benchmarks.storm.policies import client_options, shared_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario

OVERLOADED: Final = "SystemOverloadedError"
REJECTED: Final = 462
WARM_SECONDS: Final = 60
"""The time limit of the requests with which connections are opened before a run."""
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

    package = ""

    def __init__(self, uri: str, arm: Arm, scenario: Scenario) -> None:
        self.arm = arm
        self.patience = scenario.load.patience
        self.surprises: Counter[str] = Counter()
        self.uri = _with_options(uri, scenario)
        self.clients: list[Any] = []
        self.collections: list[Any] = []

    async def open(self, clients: int) -> None:
        """Make the clients."""
        raise NotImplementedError

    async def find(self, client: int, number: int) -> None:
        """Read the document with that number.

        Raises:
            ValueError: The server answered with something else.
        """
        await self.read(client, number)

    def unhurried(self) -> AbstractContextManager[object]:
        """A block in which requests have much time, instead of the application's patience."""
        return contextlib.nullcontext()

    async def read(self, client: int, number: int) -> None:
        """Read the document with that number, without the application's patience."""
        found = await self.collections[client].find_one({"_id": number})
        if found is None or found["_id"] != number:
            raise ValueError(f"asked for document {number}, got {found!r}")

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
        return importlib.import_module("pymongo.errors").PyMongoError

    def tokens(self) -> float | None:
        """The tokens that are left, mean of all clients; None where the driver shows none."""
        return None

    def waiting(self) -> float | None:
        """The operations of all clients that wait for a connection; None where the driver does not say."""
        return None

    async def close(self) -> None:
        """Close the clients."""
        raise NotImplementedError

    def version(self) -> dict[str, str]:
        """The versions of the driver and of Python."""
        return {self.package: importlib.metadata.version(self.package), "python": platform.python_version()}


class Motorlite(Driver):
    """motorlite with the policy of the arm."""

    package = "motorlite"

    async def open(self, clients: int) -> None:
        motorlite = importlib.import_module("motorlite")
        budget = shared_budget(self.arm)
        limit = {} if self.patience is None else {"timeoutMS": self.patience * 1000}
        self.clients = [
            motorlite.AsyncMongoClient(self.uri, **client_options(self.arm, budget), **limit) for _ in range(clients)
        ]
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    def errors(self) -> Any:
        return importlib.import_module("motorlite.errors").PyMongoError

    def unhurried(self) -> AbstractContextManager[object]:
        found: AbstractContextManager[object] = importlib.import_module("motorlite").timeout(WARM_SECONDS)
        return found

    def tokens(self) -> float | None:
        if self.arm.budget == "none":
            return None
        sample = [client.stats() for client in self.clients[:_SAMPLE]]
        return float(sum(stats.tokens for stats in sample) / len(sample))

    def waiting(self) -> float | None:
        sample = [client.stats() for client in self.clients[:_SAMPLE]]
        waiting: int = sum(server.waiting for stats in sample for server in stats.servers.values())
        return waiting * len(self.clients) / len(sample)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    def version(self) -> dict[str, str]:
        return {"motorlite": importlib.import_module("motorlite").__version__, "python": platform.python_version()}


class PyMongo(Driver):
    """PyMongo Async."""

    package = "pymongo"

    async def open(self, clients: int) -> None:
        make = importlib.import_module("pymongo").AsyncMongoClient
        limit = {} if self.patience is None else {"timeoutMS": self.patience * 1000}
        self.clients = [make(self.uri, **limit) for _ in range(clients)]
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    def unhurried(self) -> AbstractContextManager[object]:
        return pymongo_timeout()

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


class Motor(Driver):
    """Motor."""

    package = "motor"

    async def open(self, clients: int) -> None:
        make = importlib.import_module("motor.motor_asyncio").AsyncIOMotorClient
        limit = {} if self.patience is None else {"timeoutMS": self.patience * 1000}
        self.clients = [make(self.uri, **limit) for _ in range(clients)]
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    def unhurried(self) -> AbstractContextManager[object]:
        return pymongo_timeout()

    async def close(self) -> None:
        for client in self.clients:
            client.close()

    def version(self) -> dict[str, str]:
        return {**super().version(), "pymongo": importlib.metadata.version("pymongo")}


class Mongojet(Driver):
    """mongojet."""

    package = "mongojet"

    async def open(self, clients: int) -> None:
        make = importlib.import_module("mongojet").create_client
        self.clients = [await make(self.uri) for _ in range(clients)]
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    async def find(self, client: int, number: int) -> None:
        async with asyncio.timeout(self.patience):
            await self.read(client, number)

    def errors(self) -> Any:
        return importlib.import_module("mongojet").PyMongoError

    def outcome(self, error: Exception) -> str:
        # Its errors have neither labels nor a code, but texts.
        if isinstance(error, self.errors()):
            text = str(error)
            if OVERLOADED in text or f"Error code {REJECTED}" in text:
                return "rejected"
            return "timed_out" if "timeout" in text.lower() else "failed"
        return super().outcome(error)

    async def close(self) -> None:
        for client in self.clients:
            with contextlib.suppress(self.errors()):
                await client.close()


def pymongo_timeout() -> AbstractContextManager[object]:
    """PyMongo's time limit for a block, which Motor passes on to its threads."""
    found: AbstractContextManager[object] = importlib.import_module("pymongo").timeout(WARM_SECONDS)
    return found


DRIVERS: Final[dict[str, type[Driver]]] = {
    "motorlite": Motorlite,
    "pymongo": PyMongo,
    "motor": Motor,
    "mongojet": Mongojet,
}


def _with_options(uri: str, scenario: Scenario) -> str:
    if len(scenario.servers) == 1:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}readPreference={scenario.read_preference}"


def missing(arms: Sequence[Arm], is_there: Callable[[str], object] | None = None) -> list[str]:
    """The drivers of these arms that are not installed."""
    find = is_there or importlib.util.find_spec
    return sorted({arm.driver for arm in arms if find(arm.driver) is None})
