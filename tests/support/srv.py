"""Scripted SRV and TXT records, and a client that takes its seeds from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._options.srv import SRVRecords
from motorlite.errors import ConfigurationError
from tests.support.core import driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from motorlite._base.values import Address
    from motorlite._net.runtime import Runtime
    from motorlite.testing.scripted import ScriptedDeployment
    from tests.support.core import Driver


SRV_URI: Final = "mongodb+srv://cluster.example.com/"


class Records:
    """The answer for every name; tests change it over time."""

    def __init__(self, *hosts: str, time_to_live: float = 60.0, texts: Iterable[str] = ()) -> None:
        self.hosts: list[Address] = []
        self.set(*hosts)
        self.time_to_live = time_to_live
        # The TXT records, each with a single string.
        self.texts = list(texts)
        # Errors to raise, by kind of query.
        self.failures: dict[str, Exception] = {}
        # Seconds that each query takes.
        self.delay: float = 0.0
        # The loop time, kind and name of every query.
        self.queries: list[tuple[float, str, str]] = []
        self._runtime: Runtime | None = None

    def set(self, *hosts: str) -> None:
        """Replace the targets and ports of the SRV records."""
        parts = (host.rpartition(":") for host in hosts)
        self.hosts = [(name, int(port)) for name, _, port in parts]

    def resolver(self, runtime: Runtime) -> Records:
        """A resolver with the signature of `Dependencies.resolver`."""
        self._runtime = runtime
        return self

    def times(self, kind: str = "SRV") -> list[float]:
        """The times of the queries for one kind of record."""
        return [time for time, asked, _ in self.queries if asked == kind]

    async def srv(self, name: str, until: float) -> SRVRecords:
        await self._answer("SRV", name, until)
        return SRVRecords(tuple(self.hosts), self.time_to_live)

    async def txt(self, name: str, until: float) -> Sequence[Sequence[bytes]]:
        await self._answer("TXT", name, until)
        return [[text.encode()] for text in self.texts]

    async def _answer(self, kind: str, name: str, until: float) -> None:
        assert self._runtime is not None
        now = self._runtime.now()
        self.queries.append((now, kind, name))
        await self._runtime.sleep(min(self.delay, until - now))
        if self.delay > until - now:
            raise ConfigurationError(f"{name}: the {kind} records cannot be looked up: timed out (scripted)")
        if kind in self.failures:
            raise self.failures[kind]


def srv_client(
    records: Records,
    deployment: ScriptedDeployment,
    uri: str = SRV_URI,
    *,
    world: dict[str, Any] | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[Driver]:
    """A client that has not looked up any records yet; closed at the end."""
    return driver(deployment, world={"resolver": records.resolver} | (world or {}), uri=uri, connect=False, **options)
