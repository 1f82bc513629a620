"""Net: queries for SRV and TXT records, by dnspython's asynchronous resolver on either event loop.

dnspython is imported by the first query: a client without ``mongodb+srv://`` does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from motorlite.errors import ConfigurationError
from motorlite.srv import SRVRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dns.asyncresolver import Resolver as DNSPythonResolver

    from motorlite._net.runtime import Runtime


class Resolver(Protocol):
    """Asks for records, before the loop time `until`. Raises ConfigurationError when that fails, also by time."""

    async def srv(self, name: str, until: float) -> SRVRecords:
        """The SRV records of a name; that there are none is an error."""
        ...

    async def txt(self, name: str, until: float) -> Sequence[Sequence[bytes]]:
        """The strings of each TXT record of a name; none when there is no such record."""
        ...


class DNSResolver:
    """The resolver that the operating system is configured with, or one that asks the given servers."""

    def __init__(self, runtime: Runtime, nameservers: Sequence[tuple[str, int]] = ()) -> None:
        self._runtime = runtime
        # Addresses and ports; empty: as in /etc/resolv.conf, which is read by every query.
        self._nameservers = nameservers

    async def srv(self, name: str, until: float) -> SRVRecords:
        answer = await self._query(name, "SRV", until, none_is_error=True)
        hosts = tuple((record.target.to_text(omit_final_dot=True), record.port) for record in answer)
        return SRVRecords(hosts, answer.rrset.ttl)

    async def txt(self, name: str, until: float) -> Sequence[Sequence[bytes]]:
        answer = await self._query(name, "TXT", until, none_is_error=False)
        return [] if answer is None else [record.strings for record in answer]

    async def _query(self, name: str, kind: str, until: float, *, none_is_error: bool) -> Any:
        """What dnspython answers; None where there is no such record and that is no error."""
        from dns.exception import DNSException
        from dns.resolver import NXDOMAIN, NoAnswer

        try:
            backend, resolver = self._make()
            lifetime = until - self._runtime.now()
            return await resolver.resolve(name, kind, search=False, lifetime=lifetime, backend=backend)
        except (NXDOMAIN, NoAnswer) as error:
            if none_is_error:
                raise _failed(name, kind, error) from error
            return None
        except (DNSException, OSError, ImportError) as error:  # the last: of trio, when it is too old for dnspython
            raise _failed(name, kind, error) from error

    def _make(self) -> tuple[Any, DNSPythonResolver]:
        from dns.asyncbackend import get_backend
        from dns.asyncresolver import Resolver
        from dns.nameserver import Do53Nameserver

        # Named, not guessed: dnspython would need sniffio for that.
        backend = get_backend("trio" if self._runtime.name == "trio" else "asyncio")
        resolver = Resolver(configure=not self._nameservers)
        if self._nameservers:
            resolver.nameservers = [Do53Nameserver(host, port) for host, port in self._nameservers]
        return backend, resolver


def _failed(name: str, kind: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{name}: the {kind} records cannot be looked up: {error}")
