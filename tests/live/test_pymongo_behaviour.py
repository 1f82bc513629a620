"""Programs behave as with PyMongo, as the installed version does on the same server, or `behaviour.toml` says why not.

`tests/test_public_api.py` compares names and parameters, `test_exceptions.py` the exceptions of misuse.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import textwrap
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bson
import gridfs
import pymongo
import pytest
from bson import ObjectId

import motorlite
import motorlite.gridfs
from tests.live.oracle import OWN_WORDS, collect_what_pymongo_lost, names, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

TABLE: Final[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "behaviour.toml").read_text(encoding="utf-8"))
SAME: Final[list[dict[str, str]]] = TABLE["same"]
DIFFERENT: Final[list[dict[str, str]]] = TABLE["different"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


def shown(value: Any) -> Any:
    """`value` in a form that is equal for both libraries, with long text and bytes as their length."""
    if isinstance(value, str | bytes) and len(value) > 1000:
        return f"{len(value)} of {type(value).__name__}"
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return value


def kind(error: BaseException) -> str:
    """The most special class of an exception that PyMongo has too, or that is Python's or bson's own."""
    known = {**vars(builtins), **vars(pymongo.errors), **vars(bson.errors), **vars(gridfs.errors)}
    return next(each.__name__ for each in type(error).__mro__ if each.__name__ in known)


async def outcome(code: str, library: Any, grid: Any, uri: str) -> str:
    """What a program returns or raises, as text."""
    given = names(library, grid)
    events: list[tuple[str, Any]] = []

    base: Any = given["CommandListener"]

    class Listener(base):  # type: ignore[misc]  # the library's own
        def started(self, event: Any) -> None:
            events.append(("started", event))

        def succeeded(self, event: Any) -> None:
            events.append(("succeeded", event))

        def failed(self, event: Any) -> None:
            events.append(("failed", event))

    name = f"motorlite_test_{ObjectId()}"
    async with library.AsyncMongoClient(uri, event_listeners=[Listener()]) as client:
        given |= {"client": client, "db": client[name], "coll": client[name].coll, "events": events, "uri": uri}
        exec(f"async def use():\n{textwrap.indent(code, '    ')}", given)
        try:
            return repr(shown(plain(await given["use"]())))
        except Exception as error:
            details = getattr(error, "details", None)
            kept = {key: shown(plain(each)) for key, each in (details or {}).items() if key not in OWN_WORDS}
            return f"{kind(error)} {getattr(error, 'code', None)} {kept}"


class Answers:
    """What PyMongo does. Each program runs once, for all backends."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._known: dict[str, str] = {}

    def ask(self, code: str) -> str:
        if code not in self._known:
            # In a thread of its own, since the test's has an event loop already.
            with ThreadPoolExecutor(1) as threads:
                program = outcome(code, pymongo, gridfs, self.uri)
                self._known[code] = threads.submit(asyncio.run, program).result()
        return self._known[code]


@pytest.fixture(scope="module")
def theirs(replica_set: LocalServer) -> Iterator[Answers]:
    yield Answers(replica_set.uri)
    collect_what_pymongo_lost()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Programs may do what both libraries warn of."""
    logging.getLogger("motorlite").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.getLogger("motorlite").setLevel(logging.NOTSET)


async def ours(code: str, uri: str) -> str:
    return await outcome(code, motorlite, motorlite.gridfs, uri)


def with_ids(rows: list[dict[str, str]]) -> list[Any]:
    return [pytest.param(row, id=row["what"]) for row in rows]


@pytest.mark.parametrize("row", with_ids(SAME))
async def test_as_pymongo(row: dict[str, str], theirs: Answers) -> None:
    # The program itself is right.
    assert not theirs.ask(row["code"]).startswith(("NameError", "UnboundLocalError", "AttributeError", "SyntaxError"))
    assert await ours(row["code"], theirs.uri) == theirs.ask(row["code"])


@pytest.mark.parametrize("row", with_ids(DIFFERENT))
async def test_as_pymongo_but_for_a_reason(row: dict[str, str], theirs: Answers) -> None:
    found = {"theirs": theirs.ask(row["code"]), "ours": await ours(row["code"], theirs.uri)}
    assert found == {name: row[name] for name in found}
    assert row["why"]
    assert row["theirs"] != row["ours"]


async def test_every_program_has_a_name_of_its_own() -> None:
    known = [row["what"] for row in (*SAME, *DIFFERENT)]
    assert len(known) == len(set(known)) > 100
