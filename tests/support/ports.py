"""Ports of the loopback interface for servers whose ports follow each other."""

from __future__ import annotations

from contextlib import suppress

from motorlite.testing.server.mongod_processes import PortUnavailable, check_port, free_port


def two_free_ports() -> int:
    """Return the first of two adjacent ports that are free."""
    while True:
        port = free_port()
        with suppress(PortUnavailable):
            check_port(port + 1)
            return port
