"""A DNS server for tests, on the loopback interface, over UDP and TCP."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS: Final = "127.0.0.1"
# The maximum length of an answer over UDP without extensions (EDNS).
MAX_UDP_ANSWER: Final = 512


class Zone:
    """Records by name and type; they can be changed while a server uses them."""

    def __init__(self, time_to_live: int = 60) -> None:
        self.time_to_live = time_to_live
        self._records: dict[tuple[str, str], dns.rrset.RRset] = {}
        # Names that get no answer, and names that get SERVFAIL.
        self.silent: set[str] = set()
        self.failing: set[str] = set()
        # The queries, as "SRV name".
        self.queries: list[str] = []

    def set_srv(self, name: str, *hosts: tuple[str, int]) -> None:
        """Replace the SRV records of a name."""
        self._set(name, "SRV", *(f"0 5 {port} {target}." for target, port in hosts))

    def set_txt(self, name: str, *records: tuple[str, ...]) -> None:
        """Replace the TXT records of a name; each consists of strings."""
        self._set(name, "TXT", *(" ".join(f'"{text}"' for text in record) for record in records))

    def _set(self, name: str, kind: str, *texts: str) -> None:
        if texts:
            self._records[name, kind] = dns.rrset.from_text_list(f"{name}.", self.time_to_live, "IN", kind, texts)
        else:
            self._records.pop((name, kind), None)

    def answer(self, wire: bytes) -> dns.message.Message | None:
        """The reply to a query, or None for no reply."""
        query = dns.message.from_wire(wire)
        (question,) = query.question
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        self.queries.append(f"{kind} {name}")
        reply = dns.message.make_response(query, recursion_available=True)
        if name in self.silent:
            return None
        if name in self.failing:
            reply.set_rcode(dns.rcode.SERVFAIL)
        elif (name, kind) in self._records:
            reply.answer.append(self._records[name, kind])
        elif not any(known == name for known, _ in self._records):
            reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply


class _UDPServer(socketserver.UDPServer):
    zone: Zone


class _TCPServer(socketserver.TCPServer):
    zone: Zone


class _UDPHandler(socketserver.BaseRequestHandler):
    server: _UDPServer

    def handle(self) -> None:
        wire, socket = self.request
        reply = self.server.zone.answer(wire)
        if reply is None:
            return
        found = reply.to_wire()
        if len(found) > MAX_UDP_ANSWER:
            reply.answer.clear()
            reply.flags |= dns.flags.TC
            found = reply.to_wire()
        socket.sendto(found, self.client_address)


class _TCPHandler(socketserver.StreamRequestHandler):
    server: _TCPServer

    def handle(self) -> None:
        length = int.from_bytes(self.rfile.read(2), "big")
        reply = self.server.zone.answer(self.rfile.read(length))
        if reply is not None:
            found = reply.to_wire()
            self.wfile.write(len(found).to_bytes(2, "big") + found)


def _bound() -> tuple[_UDPServer, _TCPServer]:
    """Two servers on one port; which ports are free differs between UDP and TCP."""
    while True:
        tcp = _TCPServer((ADDRESS, 0), _TCPHandler)
        try:
            return _UDPServer((ADDRESS, tcp.server_address[1]), _UDPHandler), tcp
        except OSError:
            tcp.server_close()


@contextmanager
def dns_server(zone: Zone) -> Iterator[tuple[str, int]]:
    """Serve `zone` in threads and yield the server's address."""
    udp, tcp = _bound()
    udp.zone = tcp.zone = zone
    servers = (udp, tcp)
    with udp, tcp:
        threads = [threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True) for server in servers]
        for thread in threads:
            thread.start()
        try:
            yield ADDRESS, udp.server_address[1]
        finally:
            for server in servers:
                server.shutdown()
            for thread in threads:
                thread.join()
