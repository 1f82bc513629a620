"""What people write: connection strings, and programs that `motorlite.port` reads."""

from __future__ import annotations

import ast
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from motorlite._base.hosts import is_ip_address, is_name, is_port
from motorlite._options.options import client_options
from motorlite._options.uri import hosts_alone, parse_txt_record, read_uri
from motorlite.errors import ConfigurationError, InvalidURI
from motorlite.port._files import read_table
from motorlite.port._finding import Mark
from motorlite.port._scan import Scan, Unreadable, parse, scan
from tests.fuzz.target import Form, Limit, Target

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._options.uri import ParsedURI

# --- connection strings ---


def uri(data: bytes) -> None:
    """A connection string, bytes that are not UTF-8 as lone surrogates. The first byte makes it that of a TXT record.

    Raises nothing but InvalidURI and ConfigurationError. Written again, it is read as before; an error shows no
    password.
    """
    if not data:
        return
    text = data[1:].decode(errors="surrogateescape")
    if data[0] & 1:
        _txt_record(text)
        return
    try:
        parsed, notes = read_uri(text)
    except InvalidURI:
        _alone(text)
        return
    except ConfigurationError:
        return
    assert all(note.text for note in notes)
    assert parsed.hosts or parsed.srv_host
    assert not (parsed.hosts and parsed.srv_host)
    _check_hosts(parsed.hosts)
    again, _ = read_uri(_written(parsed))
    assert (again.hosts, again.srv_host) == (parsed.hosts, parsed.srv_host)
    assert (again.username, again.password) == (parsed.username, parsed.password)
    assert (again.database, again.collection) == (parsed.database, parsed.collection)
    assert parsed.password is None or len(parsed.password) < 8 or parsed.password not in repr(parsed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            options = client_options(text)
        except ConfigurationError as error:
            assert str(error)
            return
    assert options.seeds == parsed.hosts
    assert repr(options)


def _txt_record(text: str) -> None:
    try:
        options, _ = parse_txt_record(text)
    except ConfigurationError as error:
        assert len(str(error)) < 2_000
        return
    assert set(options) <= {"authSource", "replicaSet", "loadBalanced"}


def _alone(text: str) -> None:
    try:
        _check_hosts(hosts_alone(text, 27017))
    except InvalidURI as error:
        assert str(error)


def _check_hosts(hosts: tuple[Address, ...]) -> None:
    assert len(set(hosts)) == len(hosts)
    for host, port in hosts:
        if port is None:
            assert host.endswith(".sock")
        else:
            assert is_port(port)
            assert is_name(host) or is_ip_address(host)
            assert host == host.lower()


def _written(parsed: ParsedURI) -> str:
    """Return a connection string with the same hosts, user and database."""
    quoted = [quote(text, safe="") for text in (parsed.username, parsed.password) if text is not None]
    user = ":".join(quoted) + "@" if quoted else ""
    name = ".".join(quote(text, safe=".") for text in (parsed.database, parsed.collection) if text is not None)
    if parsed.srv_host is not None:
        return f"mongodb+srv://{user}{quote(parsed.srv_host, safe='')}/{name}"
    return f"mongodb://{user}{','.join(map(_written_host, parsed.hosts))}/{name}"


def _written_host(address: Address) -> str:
    host, port = address
    if port is None:
        return quote(host, safe="")
    return f"[{quote(host, safe=':')}]:{port}" if ":" in host else f"{quote(host, safe='')}:{port}"


_URIS: Final = (
    "mongodb://localhost",
    "mongodb://u%40x:p%2Fw+x@Host,[::1]:1,%2Ftmp%2FA.sock/db.coll.x?w=2&appname=a%26b",
    "mongodb+srv://u:p@Cluster.Example.com/?srvServiceName=my-mongo&srvMaxHosts=3&tls=true",
    "mongodb://[fe80::1%25eth0]:9,a:1/?replicaSet=rs&readPreference=secondary&readPreferenceTags=dc:ny,rack:1&"
    "readPreferenceTags=&maxStalenessSeconds=120&compressors=zstd,zlib&zlibCompressionLevel=9",
    "mongodb://u@h/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:azure,TOKEN_RESOURCE:x&"
    "tlsAllowInvalidCertificates=yes&ssl=true",
    "mongodb://h/?directConnection=true&timeoutMS=100&maxPoolSize=5&minPoolSize=9&retryWrites=false&w=majority&j=true&"
    "wTimeoutMS=5&proxyHost=p&proxyPort=1080&uuidRepresentation=standard",
    "mongodb://h/?loadBalanced=true;serverSelectionTimeoutMS=x;unknown=1",
    "a,b:1,/tmp/x.sock",
)
_RECORDS: Final = ("authSource=db&replicaSet=rs", "loadBalanced=true", "tls=false", "authSource=")
_URI_SEEDS: Final = [b"\0" + text.encode() for text in _URIS] + [b"\1" + text.encode() for text in _RECORDS]

# --- programs ---


def port(data: bytes) -> None:
    """A Python file. It is ported or unreadable, and no exception.

    What is written can be parsed if the file could, and needs no further change.
    """
    found = _ported(data)
    if found is None or found.changed is None:
        return
    assert any(finding.mark is Mark.WRITE for finding in found.findings)
    if not _is_python(data):
        return
    assert _is_python(found.changed), found.changed
    again = _ported(found.changed)
    assert again is None or again.changed is None, again.changed


def _ported(data: bytes) -> Scan | None:
    source = parse("program.py", ("program",), data)
    if source is None or isinstance(source, Unreadable):
        return None
    (found,) = scan({"program.py": source}, read_table(), write=True)
    if isinstance(found, Unreadable):
        return None
    assert all(finding.text("program.py") for finding in found.findings)
    assert found.content == data
    return found


def _is_python(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError):
            return False
    return True


_PROJECTS: Final = Path(__file__).resolve().parents[2] / "port_projects"
_PROGRAM: Final = b"""\
import pymongo
from motor.motor_asyncio import AsyncIOMotorClient as Client
from pymongo import AsyncMongoClient, ASCENDING, errors
from pymongo.errors import DuplicateKeyError
import gridfs.asynchronous

async def main(db: "pymongo.asynchronous.database.AsyncDatabase") -> None:
    client = Client(io_loop=None)
    async with AsyncMongoClient() as other:
        with await other.start_session() as session, pymongo.timeout(5):
            await db.coll.insert_one({}, session=session)
    cursor = db.coll.find()
    while await cursor.fetch_next:
        print(cursor.next_object())
    client.close()
    patch("pymongo.AsyncMongoClient")  # port: keep
"""


@cache
def _programs() -> tuple[bytes, ...]:
    files = sorted(_PROJECTS.rglob("*.py"))
    return (_PROGRAM, *(content for path in files if 0 < len(content := path.read_bytes()) < 2_048))


TARGETS: Final = (
    Target(
        "uri",
        uri,
        _URI_SEEDS,
        ("_options.uri", "_options.table", "_options.row", "_options.rules", "_base.hosts"),
        weight=200,
        prefix=1,
        steps=Limit(10_000, 200),
        memory=Limit(512 * 1024, 400),
    ),
    # LibCST takes milliseconds; its tree has some kilobytes for each byte.
    Target(
        "port",
        port,
        _programs(),
        (
            "port._names",
            "port._kinds",
            "port._scan",
            "port._source",
            "port._report",
            "port._rules.imports",
            "port._rules.loops",
            "port._rules.mentions",
            "port._rules.texts",
            "port._rules.uses",
        ),
        weight=1,
        form=Form.LINES,
        steps=Limit(500_000, 5_000),
        memory=Limit(2**24, 2**14),
    ),
)
