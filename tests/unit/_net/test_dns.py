"""Queries to a DNS server of the test's own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from motorlite._net.current import current_runtime
from motorlite._net.dns import DNSResolver
from motorlite.errors import ConfigurationError
from tests.support.dns_server import Zone, dns_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

NAME = "_mongodb._tcp.cluster.example.com"


class Server:
    """A server and what it knows."""

    def __init__(self, zone: Zone, address: tuple[str, int]) -> None:
        self.zone = zone
        self.address = address

    def resolver(self) -> DNSResolver:
        return DNSResolver(current_runtime(), [self.address])


@pytest.fixture
def server() -> Iterator[Server]:
    zone = Zone(time_to_live=77)
    with dns_server(zone) as address:
        yield Server(zone, address)


def soon(seconds: float = 30.0) -> float:
    return anyio.current_time() + seconds


async def test_srv(server: Server) -> None:
    server.zone.set_srv(NAME, ("a.example.com", 1), ("B.example.com", 2))
    found = await server.resolver().srv(NAME, soon())
    assert sorted(found.hosts) == [("B.example.com", 2), ("a.example.com", 1)]
    assert found.time_to_live == 77
    assert server.zone.queries == [f"SRV {NAME}"]


async def test_an_answer_that_is_too_long_for_udp(server: Server) -> None:
    hosts = [(f"a-long-name-{number}.example.com", number) for number in range(1, 60)]
    server.zone.set_srv(NAME, *hosts)
    found = await server.resolver().srv(NAME, soon())
    assert sorted(found.hosts) == sorted(hosts)
    assert server.zone.queries == [f"SRV {NAME}"] * 2


async def test_txt(server: Server) -> None:
    server.zone.set_txt("one.example.com", ("replicaS", "et=rs"))
    server.zone.set_txt("two.example.com", ("a",), ("b", "c"))
    server.zone.set_srv("none.example.com", ("a.example.com", 1))
    resolver = server.resolver()
    assert [list(record) for record in await resolver.txt("one.example.com", soon())] == [[b"replicaS", b"et=rs"]]
    assert sorted(list(record) for record in await resolver.txt("two.example.com", soon())) == [[b"a"], [b"b", b"c"]]
    # The name has other records; there is no such name.
    assert list(await resolver.txt("none.example.com", soon())) == []
    assert list(await resolver.txt("missing.example.com", soon())) == []


async def test_no_records(server: Server) -> None:
    server.zone.set_txt(NAME, ("x",))
    resolver = server.resolver()
    for name in (NAME, "missing.example.com"):
        with pytest.raises(ConfigurationError, match=f"{name}: the SRV records cannot be looked up: The DNS"):
            await resolver.srv(name, soon())


async def test_a_server_that_fails(server: Server) -> None:
    server.zone.failing.add(NAME)
    resolver = server.resolver()
    with pytest.raises(ConfigurationError, match=r"SRV records cannot be looked up.*SERVFAIL"):
        await resolver.srv(NAME, soon())
    with pytest.raises(ConfigurationError, match=r"TXT records cannot be looked up.*SERVFAIL"):
        await resolver.txt(NAME, soon())


@pytest.mark.parametrize(("seconds", "queries"), [(0.2, [f"SRV {NAME}"]), (-1, [])])
async def test_no_answer_in_time(server: Server, seconds: float, queries: list[str]) -> None:
    server.zone.silent.add(NAME)
    started = anyio.current_time()
    with pytest.raises(ConfigurationError, match="lifetime expired"):
        await server.resolver().srv(NAME, soon(seconds))
    assert max(seconds, 0) <= anyio.current_time() - started < 5
    assert server.zone.queries[:1] == queries


async def test_it_can_be_cancelled(server: Server) -> None:
    server.zone.silent.add(NAME)
    with anyio.move_on_after(0.1) as scope:
        await server.resolver().srv(NAME, soon())
    assert scope.cancelled_caught


@pytest.mark.parametrize("name", ["a..example.com", "x" * 64 + ".example.com", "x." * 128 + "example.com"])
async def test_names_that_cannot_be(server: Server, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be looked up"):
        await server.resolver().srv(name, soon())
    assert server.zone.queries == []


async def test_the_configuration_of_the_system(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from dns import resolver

    server.zone.set_srv(NAME, ("a.example.com", 1))
    host, port = server.address

    def configure(self: resolver.BaseResolver, _: object = None) -> None:
        self.nameservers = [host]
        self.port = port

    monkeypatch.setattr(resolver.BaseResolver, "read_resolv_conf", configure)
    found = await DNSResolver(current_runtime()).srv(NAME, soon())
    assert found.hosts == (("a.example.com", 1),)


async def test_no_configuration_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    from dns import resolver

    def configure(_: object, __: object = None) -> None:
        raise OSError("no nameservers")

    monkeypatch.setattr(resolver.BaseResolver, "read_resolv_conf", configure)
    with pytest.raises(ConfigurationError, match="no nameservers"):
        await DNSResolver(current_runtime()).srv(NAME, soon())


async def test_a_dnspython_that_does_not_know_the_event_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from dns import asyncbackend

    def refuse(_: str) -> None:
        raise ImportError("trio not found or too old")

    monkeypatch.setattr(asyncbackend, "get_backend", refuse)
    with pytest.raises(ConfigurationError, match="too old"):
        await server.resolver().srv(NAME, soon())


def test_dnspython_is_not_imported_before_it_is_needed() -> None:
    script = (
        "import sys, motorlite\n"
        "motorlite.AsyncMongoClient('mongodb+srv://cluster.example.com/')\n"
        "sys.exit('dns' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
