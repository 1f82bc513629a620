"""Pure: what may be the name or the address of a server, in a connection string and in what servers and DNS say.

One place for all of them: a host that one part of the driver checks and another part connects to must be the same text
for both. ``getaddrinfo`` for example stops at a NUL, so that nothing with one in it may come so far.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from motorlite.values import Address

DEFAULT_PORT: Final = 27017
# RFC 1035: of a name, with the dots.
_MAX_NAME: Final = 255
_NOT_IN_NAME: Final = re.compile(r"[\s\x00-\x1f\x7f/\\@:?#%\[\],]")
_DNS_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_ZONE: Final = re.compile(r"[A-Za-z0-9_.~-]+")
_MAX_PORT: Final = 65535
# Characters of something that is no host, as much of it as an error repeats.
_MAX_SHOWN: Final = 100


def parse_host(text: str) -> Address:
    """The address that is written as ``host``, ``host:port`` or ``[IPv6]:port``; names in lower case.

    Raises:
        ValueError: It is none; the text says so and repeats it.
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
    """Whether `text` may be a host name, perhaps an internationalised one, or an IPv4 address."""
    return (
        len(text) <= _MAX_NAME
        and text.isprintable()
        and not _NOT_IN_NAME.search(text)
        # The dot at the end of an absolute name is the only one that nothing has to follow.
        and "" not in text.removesuffix(".").split(".")
    )


def is_dns_name(text: str) -> bool:
    """Whether `text` is a host name as DNS has it: letters, digits, hyphens and underscores; or an IPv4 address."""
    return len(text) <= _MAX_NAME and _DNS_NAME.fullmatch(text) is not None


def is_ip_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address, the latter without brackets."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ipv6_host(literal: str) -> str | None:
    """The usual form of the IPv6 address that stands between brackets, perhaps with a zone; None: it is none."""
    try:
        address = ipaddress.IPv6Address(literal)
    except ValueError:
        return None
    zone = address.scope_id
    # Python takes everything for a zone.
    return str(address).lower() if zone is None or _ZONE.fullmatch(zone) else None


def parse_port(text: str) -> int | None:
    """The port, or None when it is not a number from 1 to 65535."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT):
        return None
    return int(text)


def is_port(number: int) -> bool:
    """Whether a server can listen there."""
    return 0 < number <= _MAX_PORT
