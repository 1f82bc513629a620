"""Pure: reads names, issuer and validity of an X.509 certificate (RFC 5280) in DER.

Python's ssl module decodes only certificates that it trusts, and those that it refuses are the interesting ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bson.datetime_ms import DatetimeMS

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_DNS_NAME: Final = 0x82
_IP_ADDRESS: Final = 0x87
_OCTETS: Final = 0x04
# Object identifiers, as they are encoded.
_COMMON_NAME: Final = b"\x55\x04\x03"
_ORGANIZATION: Final = b"\x55\x04\x0a"
_ALTERNATIVE_NAMES: Final = b"\x55\x1d\x11"
_DAYS_TO_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate.

    Attributes:
        subject: The common name and organization of its holder.
        issuer: Those of the authority that signed it.
        names: The host names and IP addresses that it is for.
        not_before: The start of its validity, seconds since 1970.
        not_after: The end of its validity.
        is_self_signed: Whether its holder signed it.
    """

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: float
    not_after: float
    is_self_signed: bool


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate.

    Raises:
        ValueError: It is not one.
    """
    try:
        ((_, outer),) = _elements(der)
        (_, body), *_ = _elements(outer)
        fields = list(_elements(body))
        if fields[0][0] == _VERSION:
            del fields[0]
        _, _, (_, issuer), (_, validity), (_, subject), *rest = fields
        (begin_tag, begin), (end_tag, end) = _elements(validity)
        return Certificate(
            _name(subject),
            _name(issuer),
            tuple(_alternative_names(rest)),
            _seconds(begin_tag, begin),
            _seconds(end_tag, end),
            subject == issuer,
        )
    except (IndexError, ValueError) as error:  # a UnicodeDecodeError is a ValueError
        raise ValueError(f"not a certificate: {error}") from None


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of elements that follow each other."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size])
            at += size
        if at + length > len(data):
            raise ValueError("it ends early")
        yield tag, data[at : at + length]
        at += length


def _name(data: bytes) -> str:
    """The common name, and the organization if it says something else."""
    found: dict[bytes, str] = {}
    for _, part in _elements(data):
        for _, pair in _elements(part):
            (_, kind), (_, text) = _elements(pair)
            found[kind] = text.decode("utf-8", "replace")
    common, organization = found.get(_COMMON_NAME), found.get(_ORGANIZATION)
    if common and organization and organization != common:
        return f"{common} ({organization})"
    return common or organization or "unnamed"


def _alternative_names(fields: list[tuple[int, bytes]]) -> Iterator[str]:
    for tag, content in fields:
        if tag != _EXTENSIONS:
            continue
        ((_, extensions),) = _elements(content)
        for _, extension in _elements(extensions):
            parts = list(_elements(extension))
            if parts[0][1] != _ALTERNATIVE_NAMES or parts[-1][0] != _OCTETS:
                continue
            ((_, names),) = _elements(parts[-1][1])
            for kind, name in _elements(names):
                if kind == _DNS_NAME:
                    yield name.decode("ascii", "replace")
                elif kind == _IP_ADDRESS:
                    yield _ip(name)


def _ip(packed: bytes) -> str:
    if len(packed) == 4:
        return ".".join(map(str, packed))
    from ipaddress import IPv6Address

    return str(IPv6Address(packed))


def _seconds(tag: int, data: bytes) -> float:
    """Read UTCTime (two digits of the year) or GeneralizedTime, both in UTC with a Z (RFC 5280, 4.1.2.5)."""
    text = data.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    year, month, day, hour, minute, second = (int(text[:4]), *(int(text[at : at + 2]) for at in range(4, 14, 2)))
    leap = year - (month <= 2)
    days = (year - 1970) * 365 + _DAYS_TO_MONTH[month - 1] + day - 1
    days += (leap // 4 - leap // 100 + leap // 400) - (1969 // 4 - 1969 // 100 + 1969 // 400)
    return float(((days * 24 + hour) * 60 + minute) * 60 + second)


def shown_date(seconds: float) -> str:
    """A date for messages."""
    return f"{DatetimeMS(int(seconds * 1000)).as_datetime():%Y-%m-%d}"
