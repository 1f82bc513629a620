"""Net: the clients of one arm, each driver with the same request and the time limit that it has.

The application's patience is `timeoutMS` of motorlite, of PyMongo Async, and of Motor, whose PyMongo honours it.
mongojet has no time limit for operations, so `asyncio.timeout` is around its calls. All other options of the peers have
their defaults.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.arms import LIBRARIES, load, settled, version
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

    Attributes:
        surprises: Errors that no server and no time limit explains; the run is not valid with them.
    """

    def __init__(self, uri: str, arm: Arm, scenario: Scenario) -> None:
        self.arm = arm
        self.library = LIBRARIES[arm.driver]
        self.patience = scenario.load.patience
        self.surprises: Counter[str] = Counter()
        preference = f"{'&' if '?' in uri else '?'}readPreference={scenario.read_preference}"
        self.uri = uri if len(scenario.servers) == 1 else uri + preference
        self.clients: list[Any] = []
        self.collections: list[Any] = []

    async def open(self, clients: int) -> None:
        self.clients = [await settled(self.make()) for _ in range(clients)]
        self.collections = [client[DATABASE][COLLECTION] for client in self.clients]

    def make(self) -> Any:
        """A client, or a coroutine that returns one."""
        return load(self.library.client)(self.uri, **self.options())

    def options(self) -> dict[str, Any]:
        return {} if self.patience is None else {"timeoutMS": self.patience * 1000}

    async def find(self, client: int, number: int) -> None:
        await self.read(client, number)

    async def read(self, client: int, number: int) -> None:
        """Read the document with that number, without the application's patience."""
        found = await self.collections[client].find_one({"_id": number})
        if found is None or found["_id"] != number:
            raise ValueError(f"asked for document {number}, got {found!r}")

    async def warm_up(self, wanted: Load) -> None:
        """Let each client find its servers and open its connections, while the ingress holds back its requests."""
        each = min(wanted.warm, self.arm.max_pool_size)
        with self.unhurried():
            await asyncio.gather(
                *(self.read(client, number % DOCUMENTS) for client in range(wanted.clients) for number in range(each))
            )

    def unhurried(self) -> AbstractContextManager[Any]:
        """A block in which requests have much time, instead of the application's patience."""
        found: AbstractContextManager[Any] = load(self.library.timeout).timeout(WARM_SECONDS)
        return found

    def outcome(self, error: Exception) -> str:
        """What became of a request that ended with this error (results.OUTCOMES)."""
        if isinstance(error, self.errors()):
            return self.meaning(error)
        if isinstance(error, TimeoutError):
            return "timed_out"
        self.surprises[f"{type(error).__name__}: {error}"] += 1
        return "failed"

    def meaning(self, error: Any) -> str:
        """The outcome for an error of the driver."""
        if getattr(error, "code", None) == REJECTED:
            return "rejected"
        if error.timeout:  # also of a handshake, which has the label of an overload, too
            return "timed_out"
        return "rejected" if error.has_error_label(OVERLOADED) else "failed"

    def errors(self) -> Any:
        return load(self.library.errors).PyMongoError

    def figures(self) -> dict[str, float]:
        """The values of the series `tokens` and `client_queue`, where the driver shows them."""
        return {}

    async def close(self) -> None:
        for client in self.clients:
            with contextlib.suppress(self.errors()):
                await settled(client.close())

    def version(self) -> dict[str, str]:
        packages = ("motor", "pymongo") if self.arm.driver == "motor" else (self.arm.driver,)
        found = {package: version(package) for package in packages}
        return {**found, "python": platform.python_version()}


class Motorlite(Driver):
    """motorlite with the policy of the arm."""

    def __init__(self, uri: str, arm: Arm, scenario: Scenario) -> None:
        super().__init__(uri, arm, scenario)
        self._budget = shared_budget(arm)

    def options(self) -> dict[str, Any]:
        return {**super().options(), **client_options(self.arm, self._budget)}

    def figures(self) -> dict[str, float]:
        sample = [client.stats() for client in self.clients[:_SAMPLE]]
        waiting = sum(server.waiting for stats in sample for server in stats.servers.values())
        found = {"client_queue": waiting * len(self.clients) / len(sample)}
        if self.arm.budget != "none":
            found["tokens"] = sum(stats.tokens for stats in sample) / len(sample)
        return found


class Mongojet(Driver):
    """mongojet."""

    def options(self) -> dict[str, Any]:
        return {}

    async def find(self, client: int, number: int) -> None:
        async with asyncio.timeout(self.patience):
            await self.read(client, number)

    def unhurried(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def meaning(self, error: Any) -> str:
        # Its errors have neither labels nor a code, but texts.
        text = str(error)
        if OVERLOADED in text or f"Error code {REJECTED}" in text:
            return "rejected"
        return "timed_out" if "timeout" in text.lower() else "failed"


DRIVERS: Final[dict[str, type[Driver]]] = {
    "motorlite": Motorlite,
    "pymongo": Driver,
    "motor": Driver,
    "mongojet": Mongojet,
}
