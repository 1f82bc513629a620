"""The prose tests of the command logging and monitoring specification."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._observe.log_documents import LENGTH_VARIABLES
from motorlite.errors import OperationFailure
from tests.support.clients import make_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

ELLIPSIS = "..."


@pytest.fixture(autouse=True)
def debug_logging(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The component "command" at the level of debugging, and no maximum length from outside."""
    for variable in LENGTH_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with caplog.at_level(logging.DEBUG, logger="motorlite.command"):
        yield


def logged(caplog: pytest.LogCaptureFixture, message: str, command: str, field: str) -> str:
    """One field of the newest message about a command."""
    found: list[dict[str, Any]] = [
        record.motorlite  # type: ignore[attr-defined]  # the driver's extra attribute
        for record in caplog.records
        if record.name == "motorlite.command"
    ]
    *_, newest = (fields for fields in found if (fields["message"], fields["commandName"]) == (message, command))
    text = newest[field]
    assert isinstance(text, str)
    return text


async def test_1_default_truncation_limit(
    deployment: LocalServer, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Prose test 1: 1000 code points and an ellipsis."""
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many([{"x": "y"} for _ in range(100)])
        command = logged(caplog, "Command started", "insert", "command")
        assert len(command) == 1000 + len(ELLIPSIS)
        assert command.endswith(ELLIPSIS)
        assert len(logged(caplog, "Command succeeded", "insert", "reply")) <= 1000 + len(ELLIPSIS)
        await collection.find().to_list()
        reply = logged(caplog, "Command succeeded", "find", "reply")
        assert len(reply) == 1000 + len(ELLIPSIS)
        assert reply.endswith(ELLIPSIS)


@pytest.mark.parametrize("variable", LENGTH_VARIABLES)
async def test_2_explicit_truncation_limit(
    deployment: LocalServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Prose test 2: the limit that was set, of commands, replies and what a server says of a failure."""
    monkeypatch.setenv(variable, "5")
    async with make_client(deployment) as client:
        await client.admin.command({"hello": True})
        with pytest.raises(OperationFailure):
            await client.admin.command({"notARealCommand": True})
    assert logged(caplog, "Command started", "hello", "command") == '{"hel' + ELLIPSIS
    assert len(logged(caplog, "Command succeeded", "hello", "reply")) == 5 + len(ELLIPSIS)
    assert len(logged(caplog, "Command failed", "notARealCommand", "failure")) == 5 + len(ELLIPSIS)


@pytest.mark.parametrize("limit", range(43, 53))
async def test_3_truncation_with_multi_byte_codepoints(
    deployment: LocalServer,
    database_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
) -> None:
    """Prose test 3: the unit is the code point, so a character is there or is not."""
    # A command that does not exist, so that its name is in the server's answer; it is cut in the middle of each.
    name = "\N{SNOWMAN}\N{GRINNING FACE}\N{EURO SIGN}" * 20
    texts = []
    for length in (10_000, limit):
        monkeypatch.setenv(LENGTH_VARIABLES[0], str(length))
        async with make_client(deployment) as client:
            collection = client[database_name].c
            await collection.replace_one({"_id": name}, {}, upsert=True)
            await collection.distinct("_id")
            with pytest.raises(OperationFailure):
                await client.admin.command({name: 1})
        texts.append(
            [
                logged(caplog, "Command started", name, "command"),
                logged(caplog, "Command failed", name, "failure"),
                logged(caplog, "Command succeeded", "distinct", "reply"),
            ]
        )
    for whole, cut in zip(*texts, strict=True):
        assert name in whole
        assert cut == whole[:limit] + ELLIPSIS
        assert len(cut.encode()) > len(cut)
