"""Compression with a real server, whose counters tell whether it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.clients import numbered
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

NAMES = ("snappy", "zlib", "zstd")
EACH = pytest.mark.parametrize("name", NAMES)
TEXT = "a text that can be compressed, " * 100


def counters(server: LocalServer, name: str) -> dict[str, int]:
    """What the server has decompressed and compressed, in bytes of the messages as they were on the wire and are."""
    found = server.command({"serverStatus": 1})["network"]["compression"][name]
    received, sent = found["decompressor"], found["compressor"]
    return {
        "received": received["bytesIn"],
        "received unpacked": received["bytesOut"],
        "sent": sent["bytesOut"],
        "sent unpacked": sent["bytesIn"],
    }


def growth(server: LocalServer, before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: {key: value - before[name][key] for key, value in counters(server, name).items()} for name in NAMES}


def all_counters(server: LocalServer) -> dict[str, dict[str, int]]:
    return {name: counters(server, name) for name in NAMES}


@EACH
async def test_the_first_that_the_server_knows_is_used(name: str, standalone: LocalServer, database_name: str) -> None:
    before = all_counters(standalone)
    others = [other for other in NAMES if other != name]
    async with make_client(standalone, compressors=[name, *others]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(500, text=TEXT))
        assert [document["text"] for document in await collection.find().to_list()] == [TEXT] * 500
    grown = growth(standalone, before)
    size = 500 * len(TEXT)
    assert grown[name]["received unpacked"] > size
    assert grown[name]["received"] < size / 5
    assert grown[name]["sent unpacked"] > size
    assert grown[name]["sent"] < size / 5
    for other in others:
        assert not any(grown[other].values())


async def test_without_compressors_nothing_is_compressed(standalone: LocalServer, database_name: str) -> None:
    before = all_counters(standalone)
    async with make_client(standalone) as client:
        await client[database_name].c.insert_one({"text": TEXT})
    with pytest.warns(UserWarning, match="compressors must be among .*, not 'snoopy'"):
        async with make_client(standalone.uri + "?compressors=snoopy") as client:
            assert await client.admin.command("ping")
    assert not any(value for grown in growth(standalone, before).values() for value in grown.values())
