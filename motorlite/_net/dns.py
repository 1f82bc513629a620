"""Net: looks up SRV and TXT records with dnspython's asynchronous resolver, on either event loop.

The first query imports dnspython: a client without ``mongodb+srv://`` does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from motorlite._options.srv import SRVRecords
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dns.asyncresolver import Resolver as DNSPythonResolver

    from motorlite._net.runtime import Runtime


class Resolver(Protocol):
    """Looks up DNS records before the loop time `until`. Raises ConfigurationError on failure and on timeout."""

    async def srv(self, name: str, until: float) -> SRVRecords:
        """The SRV records of a name; raises when there are none."""

    async def txt(self, name: str, until: float) -> Sequence[Sequence[bytes]]:
        """The strings of each TXT record of a name; empty when there are no records."""


class DNSResolver:
    """A resolver with the operating system's configuration, or with the name servers passed in."""

    def __init__(self, runtime: Runtime, nameservers: Sequence[tuple[str, int]] = ()) -> None:
        self._runtime = runtime
        # Addresses and ports. When empty, every query reads /etc/resolv.conf.
        self._nameservers = nameservers

    async def srv(self, name: str, until: float) -> SRVRecords:
        answer = await self._query(name, "SRV", until, none_is_error=True)
        hosts = tuple((record.target.to_text(omit_final_dot=True), record.port) for record in answer)
        return SRVRecords(hosts, answer.rrset.ttl)

    async def txt(self, name: str, until: float) -> Sequence[Sequence[bytes]]:
        answer = await self._query(name, "TXT", until, none_is_error=False)
        return [] if answer is None else [record.strings for record in answer]

    async def _query(self, name: str, kind: str, until: float, *, none_is_error: bool) -> Any:
        """Return dnspython's answer, or None if there is no record and `none_is_error` is false."""
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
        except (DNSException, OSError, ImportError) as error:  # ImportError: trio is too old for dnspython
            raise _failed(name, kind, error) from error

    def _make(self) -> tuple[Any, DNSPythonResolver]:
        from dns.asyncbackend import get_backend
        from dns.asyncresolver import Resolver
        from dns.nameserver import Do53Nameserver

        # Named explicitly: dnspython needs sniffio to detect the backend.
        backend = get_backend("trio" if self._runtime.name == "trio" else "asyncio")
        resolver = Resolver(configure=not self._nameservers)
        if self._nameservers:
            resolver.nameservers = [Do53Nameserver(host, port) for host, port in self._nameservers]
        return backend, resolver


def _failed(name: str, kind: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{name}: the {kind} records cannot be looked up: {error}")
