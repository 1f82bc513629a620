"""What people do wrong (`wrong_uses.toml`), and what the message says: what, its value, and what to write instead."""

from __future__ import annotations

import asyncio
import builtins
import datetime
import enum
import re
import socket
import textwrap
import threading
import tomllib
import uuid
import warnings
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import pytest
from bson import ObjectId

import motorlite
from motorlite import AsyncMongoClient, errors
from motorlite._base.values import format_address
from tests.live import users

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

PASSWORD: Final = "correct-horse"
# The part whose uses need servers of their own.
SERVERS: Final = "servers"


class Colour(enum.Enum):
    """An application's enumeration."""

    RED = "red"


# What the code may name, besides the handles that a test makes.
NAMES: Final[dict[str, Any]] = {
    **vars(motorlite),
    "Colour": Colour,
    "Decimal": Decimal,
    "ObjectId": ObjectId,
    "anyio": anyio,
    "asyncio": asyncio,
    "datetime": datetime,
    "motorlite": motorlite,
    "uuid": uuid,
}


class Use(NamedTuple):
    """A row of the table."""

    code: str
    error: str
    what: str
    value: str
    instead: str


def read_table() -> dict[str, list[Use]]:
    parts = tomllib.loads((Path(__file__).parent / "wrong_uses.toml").read_text(encoding="utf-8"))
    return {name: [Use(code, *row) for code, row in rows.items()] for name, rows in parts.items()}


TABLE: Final = read_table()

# What a server says to a client that speaks another protocol, before it closes the connection.
HTTP_REFUSAL: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
TLS_REFUSAL: Final = b"\x15\x03\x03\x00\x02\x02\x46"


@contextmanager
def stranger(refusal: bytes) -> Iterator[str]:
    """The address of a server that answers everything with `refusal`."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(refusal)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield format_address(listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


async def said(code: str, names: dict[str, Any]) -> tuple[type[Exception], str] | None:
    """The exception, or the warning, that `code` ends with: its class and its message."""
    namespace = {**NAMES, **names}
    exec(f"async def use():\n{textwrap.indent(code, '    ')}", namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Some uses forget to await a coroutine.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            await namespace["use"]()
        except Exception as error:
            return type(error), str(error)
    return None


def missing(use: Use, found: tuple[type[Exception], str] | None, names: dict[str, Any]) -> list[str]:
    """What the message lacks, with the message."""
    kind, text = found or (type(None), "")
    wanted = [re.sub(r"\{(\w+)\}", lambda match: str(names.get(match[1], match[0])), words) for words in use[2:]]
    lacking = [words for words in wanted if words not in text]
    if not issubclass(kind, getattr(errors, use.error, None) or getattr(builtins, use.error)):
        lacking.append(f"the class {use.error}")
    if PASSWORD in text:
        lacking.append("discretion")
    return [f"{use.code}: {lacking} in {kind.__name__}: {text}"] if lacking else []


def test_there_are_many() -> None:
    assert sum(map(len, TABLE.values())) >= 100


@pytest.mark.anyio
@pytest.mark.parametrize("part", [name for name in TABLE if name != SERVERS])
async def test_wrong_uses(replica_set: LocalServer, database_name: str, part: str) -> None:
    closed: AsyncMongoClient = AsyncMongoClient(replica_set.uri)
    await closed.close()
    async with AsyncMongoClient(replica_set.uri) as client, AsyncMongoClient(replica_set.uri) as other:
        db = client[database_name]
        await db.movies.insert_one({"title": "Alien"})
        names: dict[str, Any] = {"client": client, "db": db, "movies": db.movies, "other": other, "closed": closed}
        names["limit"] = motorlite.timeout(5)
        assert [line for use in TABLE[part] for line in missing(use, await said(use.code, names), names)] == []


@pytest.mark.anyio
async def test_wrong_servers(replica_set: LocalServer, secured: LocalServer) -> None:
    users.add_user(secured, "app")

    async def ping(uri: str) -> None:
        async with AsyncMongoClient(uri, serverSelectionTimeoutMS=300) as client:
            await client.admin.command("ping")

    async def log_in(name: str, source: str, mechanism: str) -> None:
        options = {"username": name, "password": PASSWORD, "authSource": source, "authMechanism": mechanism}
        async with users.client(secured, **options) as client:
            await client.admin.command("ping")

    with stranger(HTTP_REFUSAL) as web, stranger(TLS_REFUSAL) as alert, socket.create_server(("127.0.0.1", 0)) as free:
        names: dict[str, Any] = {"ping": ping, "log_in": log_in, "web": web, "alert": alert}
        names["nothing"] = format_address(free.getsockname())
        free.close()
        names |= {"plain": format_address(replica_set.addresses[0]), "secure": format_address(secured.addresses[0])}
        names["name"] = replica_set.replica_set
        assert [line for use in TABLE[SERVERS] for line in missing(use, await said(use.code, names), names)] == []
