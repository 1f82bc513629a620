"""Pure: parses the URI for an attached `LocalServer`, and tells which addresses are local."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from motorlite._base.hosts import DEFAULT_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address

SCHEME: Final = "mongodb://"
TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class Deployment:
    """The parts of a URI needed to send single commands to a deployment; option names are in lower case."""

    addresses: tuple[Address, ...]
    username: str | None
    password: str | None
    source: str
    options: Mapping[str, str]

    @property
    def tls(self) -> bool:
        """Whether the connections are encrypted."""
        return TRUE in (self.options.get("tls"), self.options.get("ssl"))

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is verified."""
        names = ("tlsinsecure", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames")
        return not any(self.options.get(name) == TRUE for name in names)

    @property
    def is_local(self) -> bool:
        """Whether every address is a loopback address or a Unix domain socket."""
        return all(port is None or _is_loopback(host) for host, port in self.addresses)


def read_uri(uri: str, source: str = "MONGODB_URI") -> Deployment:
    """Read a ``mongodb://`` URI; `source` says in messages where it is from.

    Raises:
        ValueError: `uri` is invalid. ``mongodb+srv://`` is not accepted, because its addresses are not in the URI.
    """
    if not uri.startswith(SCHEME):
        raise ValueError(f"{source} must start with {SCHEME}, and name the addresses of the servers")
    authority, _, rest = uri.removeprefix(SCHEME).partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    username, colon, password = userinfo.partition(":")
    tail = urlsplit("/" + rest)
    options = {name.lower(): value for name, value in parse_qsl(tail.query)}
    return Deployment(
        addresses=tuple(_address(host, source) for host in hosts.split(",")),
        username=unquote(username) if at else None,
        password=unquote(password) if colon else None,
        source=options.get("authsource") or unquote(tail.path.strip("/")) or "admin",
        options=options,
    )


def _address(text: str, source: str) -> Address:
    host = unquote(text)
    if host.endswith(".sock"):
        return host, None
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = host.partition(":")
    if not host or not (port or str(DEFAULT_PORT)).isdecimal():
        raise ValueError(f"{source} contains {text!r}, which is not a host and port")
    return host.lower(), int(port or DEFAULT_PORT)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
