"""Pure: parses connection strings (connection string and initial DNS seedlist discovery specifications)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from motorlite._base.hosts import DEFAULT_PORT, ipv6_host, is_ip_address, is_name, parse_port
from motorlite._base.values import ByFields, cut, is_encodable
from motorlite._options.row import COMPRESSORS
from motorlite._options.rules import check_tls_names
from motorlite._options.table import ALIASES, BY_NAME, DEPRECATED, did_you_mean
from motorlite.errors import ConfigurationError, InvalidOptionType, InvalidOptionValue, InvalidURI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address

_SCHEME = "mongodb://"
_SRV_SCHEME = "mongodb+srv://"
_EXAMPLE = "mongodb://localhost:27017"
# Compiled when they are needed, which is rare.
_BARE_PERCENT = "%(?![0-9A-Fa-f]{2})"
_NOT_IN_DATABASE = r'[/\\ "$\x00]'
_ENCODE = "; username and password must be percent-encoded, for example with urllib.parse.quote(password, safe='')"
# SOCKS5 specification: options that must not be repeated, since the intended proxy would be ambiguous.
_ONCE_ONLY = {"proxyhost", "proxyport", "proxyusername", "proxypassword"}
# SOCKS5 specification: an empty string is ignored; it means "no user".
_EMPTY_IS_UNSET = {"proxyusername", "proxypassword"}
# Options of TLS and authentication: ignoring an invalid one would make a client less secure than configured.
_NOT_TO_BE_IGNORED = ("tls", "auth")
# Characters of a TXT record that messages show. It comes from a name server, which may send 64 KiB.
_SHOWN = 200
_IN_TXT_RECORDS = ("authSource", "replicaSet", "loadBalanced")


class Note(NamedTuple):
    """A warning about an ignored or deprecated part of a connection string, for `warnings.warn`."""

    text: str
    category: type[Warning] = UserWarning


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ParsedURI(ByFields):
    """A parsed connection string.

    Attributes:
        hosts: The servers, host names in lower case; empty for ``mongodb+srv``.
        srv_host: The name whose SRV records are looked up, or None.
        username: The decoded username, or None.
        password: The decoded password, or None.
        database: The default database, which is also the default of `authSource`, or None.
        collection: The part after a dot in the database part, or None.
        options: The options by their documented names, in the units of the connection string.
        refusals: The errors in TLS and authentication options, by the options' documented names. A client must not
            ignore them: it would continue in plaintext or without authenticating.
    """

    hosts: tuple[Address, ...]
    srv_host: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str | None = None
    collection: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    refusals: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_uri(uri: str, default_port: int = DEFAULT_PORT) -> tuple[ParsedURI, list[Note]]:
    """Parse a connection string without any DNS lookup or file access, and return it with its warnings.

    Unknown options and invalid values are ignored with a warning, deprecated names get one (connection string
    specification, "Keys" and "Values"). A client whose connection string has an invalid value for a TLS or
    authentication option sends nothing (`refusals`). Percent-encoding is decoded everywhere; a plus sign stays a plus
    sign. The options are not checked against each other and against the hosts (`check_combination`).

    Args:
        uri: ``mongodb://...`` or ``mongodb+srv://...``.
        default_port: The port of hosts without one.

    Raises:
        InvalidURI: The connection string is malformed.
        ConfigurationError: TLS options exclude each other.
    """
    if not is_encodable(uri):
        raise InvalidURI("the connection string cannot be encoded as UTF-8")
    # Files with secrets often end in a line break. After a single option, PyMongo ignores it, so programs work with it.
    if "?" in uri:
        uri = uri.rstrip()
    if uri != uri.strip():
        raise InvalidURI("white space precedes or follows the connection string: remove it, for example with .strip()")
    is_srv = uri.startswith(_SRV_SCHEME)
    if not is_srv and not uri.startswith(_SCHEME):
        scheme, separator, _ = uri.partition("://")
        # Anything but a plain word may be a piece of a password.
        other = f", not with {scheme}{separator}" if separator and re.fullmatch("[A-Za-z][A-Za-z0-9+]*", scheme) else ""
        raise InvalidURI(f"a connection string begins with {_SCHEME} or {_SRV_SCHEME}{other}")
    rest, _, query = uri.partition("://")[2].partition("?")
    authority, _, path = rest.partition("/")
    userinfo, at_sign, host_list = authority.rpartition("@")
    username, password = _userinfo(userinfo) if at_sign else (None, None)
    # The rest of a password that was not encoded may look like a host, a port or a database.
    hint = _ENCODE if "@" in uri else ""
    if not host_list:
        # An absolute path in the place of a host, whose slashes are not percent-encoded.
        socket = "; the path of a socket must be percent-encoded" if ".sock" in path else ""
        scheme, example = (_SRV_SCHEME, "mongodb+srv://cluster.example.com") if is_srv else (_SCHEME, _EXAMPLE)
        raise InvalidURI(f"the connection string names no host after {scheme}: write one, as in {example}{socket}")
    srv_host = _srv_host(host_list, hint) if is_srv else None
    hosts = () if is_srv else parse_hosts(host_list, default_port, hint)
    database, collection = _database(path, hint)
    found = _read_options(*_raw_options(query)) if query else _Found()
    return ParsedURI(hosts, srv_host, username, password, database, collection, found.options, found.refusals), (
        found.notes
    )


def parse_hosts(host_list: str, default_port: int, hint: str = "") -> tuple[Address, ...]:
    """Return the addresses in ``host[:port],...``, without duplicates. `hint` ends the error about a malformed one.

    Raises:
        InvalidURI: A host is malformed. The message does not repeat it: pieces of a password that was not encoded look
            like hosts.
    """
    parsed = (_host(text, position, default_port, hint) for position, text in enumerate(host_list.split(","), start=1))
    return tuple(dict.fromkeys(parsed))


def hosts_alone(host_list: str, default_port: int) -> tuple[Address, ...]:
    """Return the addresses in a text without a scheme, which can only be ``host[:port],...``. Raises InvalidURI."""
    if not host_list.strip():  # often that of an environment variable
        raise InvalidURI(f"the connection string is empty: write one such as {_EXAMPLE!r}")
    try:
        return parse_hosts(host_list, default_port)
    except InvalidURI:
        if not re.search("[/@?]", host_list):
            raise
    raise InvalidURI(
        f"the connection string has no scheme: it begins with {_SCHEME} or {_SRV_SCHEME} "
        "(only hosts, 'host[:port],...', need none)"
    )


def parse_txt_record(record: str) -> tuple[dict[str, Any], list[Note]]:
    """Return the options of a TXT record (initial DNS seedlist discovery specification) and its warnings.

    Raises:
        InvalidURI: The record is malformed.
        ConfigurationError: The record has an option that is not allowed there.
    """
    shown = cut(repr(record), _SHOWN)
    try:
        raw, found = _raw_options(record)
    except InvalidURI as error:
        raise InvalidURI(f"the TXT record {shown} is malformed: {error}") from None
    if raw.keys() - {name.lower() for name in _IN_TXT_RECORDS}:
        raise ConfigurationError(
            f"a TXT record may only have the options {', '.join(_IN_TXT_RECORDS)}, but it is {shown}"
        )
    if found.notes:
        # A malformed option must not be ignored: another option may depend on it.
        raise InvalidURI(f"the TXT record {shown} is malformed: {found.notes[0].text}")
    try:
        _read_options(raw, found)
    except InvalidURI as error:
        raise InvalidURI(f"the TXT record {shown} cannot be used: {error}") from None
    for problem in found.refusals.values():
        raise ConfigurationError(f"the TXT record {shown} cannot be used: {problem}")
    return found.options, found.notes


def _userinfo(userinfo: str) -> tuple[str, str | None]:
    if "@" in userinfo or userinfo.count(":") > 1 or re.search(_BARE_PERCENT, userinfo):
        raise InvalidURI(f"the user information in the connection string is malformed{_ENCODE}")
    username, colon, password = userinfo.partition(":")
    if not username:
        raise InvalidURI("the username in the connection string is empty; omit the @ for no user")
    return _decode(username, "username"), _decode(password, "password") if colon else None


def _database(path: str, hint: str) -> tuple[str | None, str | None]:
    if not path:
        return None, None
    name = _decode(path, "database")
    database, _, collection = name.partition(".")
    if not database or re.search(_NOT_IN_DATABASE, name):
        # The message does not repeat the name: after a slash in an unencoded password it is the rest of the password.
        problem = 'is empty or has one of / \\ " $ space'
        raise InvalidURI(f"the name of the database in the connection string {problem}{hint}")
    return database, collection or None


def _srv_host(host_list: str, hint: str) -> str:
    if "," in host_list:
        raise InvalidURI(f"{_SRV_SCHEME} needs exactly one host name, not a list")
    if ":" in host_list:
        raise InvalidURI(
            f"{_SRV_SCHEME} takes a host name without a port, because SRV records have the ports: remove it, or use "
            f"{_SCHEME}{hint}"
        )
    host, port = _host(host_list, 1, DEFAULT_PORT, hint)
    if port is None or is_ip_address(host):
        raise InvalidURI(f"{_SRV_SCHEME} takes a host name, not an address; did you mean {_SCHEME}?")
    return host


def _host(text: str, position: int, default_port: int, hint: str) -> Address:
    where = f"host number {position}"
    if not text:
        raise InvalidURI(f"{where} is empty: remove it, and its comma in a connection string")
    decoded = text if "/" in text else _decode(text, where)
    if "/" in decoded:
        if not decoded.endswith(".sock") or "\0" in decoded:
            raise InvalidURI(f"{where} is a path, but does not end in .sock, or contains a NUL")
        return decoded, None
    if text.startswith("["):
        literal, bracket, port = text[1:].partition("]")
        # The zone of a link-local address is separated by %25 (RFC 6874).
        address = ipv6_host(_decode(literal, where))
        if address is None:
            raise InvalidURI(f"{where} is not an IPv6 address in brackets")
        if not bracket or (port and not port.startswith(":")):
            raise InvalidURI(f"{where} is not an IPv6 address in brackets, followed by a port or nothing")
        return address, _port(port[1:], where, hint) if port else default_port
    name, colon, port = text.partition(":")
    # The connection string specification refers to RFC 3986, whose names may be percent-encoded. PyMongo refuses those.
    host = _decode(name, where)
    if not is_name(host) or ":" in port:
        raise InvalidURI(f"{where} is malformed, or an IPv6 address without brackets{hint}")
    # DNS ignores case (RFC 4343), and servers are compared by name.
    return host.lower(), _port(port, where, hint) if colon else default_port


def _port(text: str, where: str, hint: str) -> int:
    port = parse_port(text)
    if port is None:
        raise InvalidURI(
            f"the port of {where} (not shown: it may be a piece of a password) is not a number from 1 to 65535{hint}"
        )
    return port


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, errors="strict")


def _decode(text: str, what: str) -> str:
    try:
        return _unquoted(text)
    except UnicodeDecodeError:
        raise InvalidURI(f"the percent-encoding of the {what} is not UTF-8") from None


class _Found:
    """The options read from a connection string or a TXT record."""

    __slots__ = ("notes", "options", "refusals")

    def __init__(self) -> None:
        # Options by their documented names.
        self.options: dict[str, Any] = {}
        # Warnings to issue.
        self.notes: list[Note] = []
        # As in `ParsedURI`.
        self.refusals: dict[str, str] = {}

    def ignore(self, name: str, problem: str) -> None:
        """Skip the option `name`, whose value is invalid."""
        if name.lower().startswith(_NOT_TO_BE_IGNORED):
            self.refusals[name] = problem
            consequence = "a client with this connection string sends nothing"
        else:
            consequence = "it is ignored in the connection string"
        self.notes.append(Note(f"{problem}; {consequence}"))


def _elsewhere(key: str) -> str:
    """Return a clause that says where to write an option that connection strings do not have under its name."""
    if key in ("username", "password"):
        return "; write mongodb://username:password@host, or pass it to AsyncMongoClient as an argument"
    return "; pass it to AsyncMongoClient as an argument"


def _read_options(raw: Mapping[str, list[str]], found: _Found) -> _Found:
    """Parse the options in `raw` and add them to `found`."""
    check_tls_names(raw)
    for key, texts in raw.items():
        option = BY_NAME.get(key)
        if option is None or not option.is_in_uri:
            hint = did_you_mean(key) if option is None else _elsewhere(key)
            found.notes.append(Note(f"unknown option {key!r} in the connection string is ignored{hint}"))
            continue
        value: str | list[str] = texts if key == "readpreferencetags" else _single(option.name, texts, found.notes)
        if value == "":
            if key == "authsource":
                raise InvalidURI("authSource must not be empty")
            if key not in _EMPTY_IS_UNSET:
                found.ignore(option.name, f"{option.name} has no value")
            continue
        if key == "compressors" and isinstance(value, str):
            value = _known_compressors(value, found.notes)
            if not value:
                continue
        try:
            found.options[option.name] = option.parse(value)
        except (InvalidOptionType, InvalidOptionValue) as error:
            found.ignore(option.name, str(error))
    return found


def _known_compressors(value: str, notes: list[Note]) -> str:
    """Remove unknown compressors from `value`: they must not invalidate the others (wire compression)."""
    names = [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name not in COMPRESSORS]
    if unknown:
        words = ", ".join(map(repr, unknown))
        known = ", ".join(map(repr, COMPRESSORS))
        notes.append(Note(f"compressors must be among {known}, not {words}; ignored in the connection string"))
    return ",".join(name for name in names if name not in unknown)


def _raw_options(query: str) -> tuple[dict[str, list[str]], _Found]:
    """Return the decoded texts by their current names in lower case, and the problems of other options."""
    if "&" in query and ";" in query:
        raise InvalidURI("options are separated by & (or all by ;), and an & or ; in a value must be encoded")
    raw: dict[str, list[str]] = {}
    found = _Found()
    for pair in query.split(";" if ";" in query else "&"):
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InvalidURI("options in a connection string have the form name=value, separated by &")
        key = ALIASES.get(key.lower(), key.lower())
        try:
            value = _unquoted(text)
        except UnicodeDecodeError:
            option = BY_NAME.get(key)
            name = key if option is None else option.name
            found.ignore(name, f"the percent-encoding of {name!r} is not UTF-8")
            continue
        raw.setdefault(key, []).append(value)
    for old, new in DEPRECATED.items():
        texts = raw.pop(old, None)
        if texts is None:
            continue
        name = BY_NAME[new].name
        if new in raw:
            text = f"deprecated option {old!r} in the connection string is ignored in favour of {name}"
        else:
            text = f"option {old!r} in the connection string is deprecated, use {name}"
            raw[new] = texts
        found.notes.append(Note(text, DeprecationWarning))
    return raw, found


def _single(name: str, texts: list[str], notes: list[Note]) -> str:
    if len(texts) > 1:
        if name.lower() in _ONCE_ONLY:
            raise InvalidURI(f"{name} appears more than once")
        if name == "tls":
            # Repeating tls and ssl is allowed, contradicting values are not (URI options specification).
            if len(set(texts)) > 1:
                raise InvalidURI("tls and ssl appear more than once, with different values")
        else:
            notes.append(Note(f"{name} appears more than once in the connection string; the last one is used"))
    return texts[-1]
