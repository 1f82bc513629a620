"""Pure: valid names and addresses of servers, in connection strings, server replies and DNS records.

All parts of the driver use these functions, so that the host that one part checks is the same text that another part
connects to. ``getaddrinfo`` for example stops at a NUL, so a host with a NUL must never reach it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from motorlite._base.values import Address

DEFAULT_PORT: Final = 27017
# Characters of a name, including the dots (RFC 1035).
_MAX_NAME: Final = 255
_NOT_IN_NAME: Final = frozenset(" /\\@:?#%[],")
# Compiled when they are needed, which is rare.
_DNS_NAME: Final = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
_ZONE: Final = r"[A-Za-z0-9_.~-]+"
_MAX_PORT: Final = 65535
# Characters of an invalid host that an error message repeats.
_MAX_SHOWN: Final = 100


def parse_host(text: str) -> Address:
    """Parse an address written as ``host``, ``host:port`` or ``[IPv6]:port``; names become lower case.

    Raises:
        ValueError: `text` is not an address; the message repeats it.
    """
    if text.startswith("["):
        literal, _, rest = text[1:].partition("]")
        host, colon, port = ipv6_host(literal) if "]" in text else None, rest[:1], rest[1:]
    else:
        name, colon, port = text.partition(":")
        host = name.lower() if is_name(name) else None
    number = parse_port(port) if colon else DEFAULT_PORT
    if host is None or colon not in ("", ":") or number is None:
        raise ValueError(f"{text[:_MAX_SHOWN]!r} is not a host and a port")
    return host, number


def is_name(text: str) -> bool:
    """Whether `text` can be a host name, possibly internationalised, or an IPv4 address."""
    return (
        len(text) <= _MAX_NAME
        and text.isprintable()
        and _NOT_IN_NAME.isdisjoint(text)
        # A label must follow every dot, except the dot at the end of an absolute name.
        and "" not in text.removesuffix(".").split(".")
    )


def is_dns_name(text: str) -> bool:
    """Whether `text` is a DNS host name (letters, digits, hyphens and underscores) or an IPv4 address."""
    return len(text) <= _MAX_NAME and re.fullmatch(_DNS_NAME, text) is not None


def is_ip_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address, the latter without brackets."""
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ipv6_host(literal: str) -> str | None:
    """Normalize the IPv6 address between the brackets, with or without a zone. None if it is not an IPv6 address."""
    import ipaddress

    try:
        address = ipaddress.IPv6Address(literal)
    except ValueError:
        return None
    zone = address.scope_id
    # Python accepts any text as a zone, and writes the rest in lower case. In a zone, the name of a network interface,
    # case matters.
    return str(address) if zone is None or re.fullmatch(_ZONE, zone) else None


def certified(host: str) -> str:
    """Return the name of `host` in certificates: without a zone (RFC 6874, section 4) and a final dot (RFC 6066)."""
    return host.partition("%")[0].removesuffix(".")


def parse_port(text: str) -> int | None:
    """Return the port, or None if `text` is not a number from 1 to 65535."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT):
        return None
    return int(text)


def is_port(number: int) -> bool:
    """Whether `number` is a valid port of a server."""
    return 0 < number <= _MAX_PORT
