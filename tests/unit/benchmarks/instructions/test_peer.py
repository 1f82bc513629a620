from __future__ import annotations

import asyncio
import time
from typing import Any

import bson
import pymongo
import pytest

from benchmarks.documents import HEADER, OP_QUERY, message
from benchmarks.instructions.peer import Peer, hello_of, replies
from benchmarks.instructions.workloads import uri
from benchmarks.processes import serving


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)


def answers(transport: Transport) -> list[tuple[int, dict[str, Any]]]:
    """The ids that the replies answer, and their bodies."""
    found, data = [], transport.written
    while data:
        length, _, responds_to, _ = HEADER.unpack_from(data)
        found.append((responds_to, bson.decode(data[21:length])))
        data = data[length:]
    return found


def connected(documents: int = 2) -> tuple[Peer, Transport]:
    peer, transport = Peer(replies(documents)), Transport()
    peer.connection_made(transport)
    return peer, transport


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_each_request_has_its_reply_however_the_bytes_arrive(size: int) -> None:
    peer, transport = connected()
    data = message({"find": "c", "$db": "d"}, 5) + message({"insert": "c", "$db": "d"}, 6) + message({"ping": 1}, 7)
    for at in range(0, len(data), size):
        peer.data_received(data[at : at + size])
    (first, found), (second, inserted), (third, other) = answers(transport)
    assert (first, second, third) == (5, 6, 7)
    assert [one["_id"] for one in found["cursor"]["firstBatch"]] == [0, 1]
    assert inserted == {"n": 2, "ok": 1}
    assert other == {"ok": 1}


def test_an_unacknowledged_command_has_no_reply() -> None:
    peer, transport = connected()
    data = bytearray(message({"insert": "c", "$db": "d"}, 5))
    data[16] = 2  # moreToCome
    peer.data_received(bytes(data))
    assert transport.written == b""


def test_the_first_hello_of_other_drivers_is_answered_in_kind() -> None:
    peer, transport = connected()
    body = bson.encode({"ismaster": 1})
    query = bytes(4) + b"admin.$cmd\0" + bytes(4) + b"\xff\xff\xff\xff" + body
    peer.data_received(HEADER.pack(16 + len(query), 9, 0, OP_QUERY) + query)
    assert HEADER.unpack_from(transport.written)[2:] == (9, 1)
    assert bson.decode(transport.written[36:])["isWritablePrimary"] is True


def test_the_first_member_of_a_replica_set_is_the_primary() -> None:
    first, second = (hello_of(port, [5, 7]) for port in (5, 7))
    assert first["hosts"] == second["hosts"] == ["127.0.0.1:5", "127.0.0.1:7"]
    assert (first["isWritablePrimary"], first["secondary"], first["me"]) == (True, False, "127.0.0.1:5")
    assert (second["isWritablePrimary"], second["secondary"], second["me"]) == (False, True, "127.0.0.1:7")


@pytest.mark.parametrize("members", [0, 3])
def test_a_client_discovers_all_members(members: int) -> None:
    with (
        serving("benchmarks.instructions.peer", "1", "--members", str(members)) as port,
        pymongo.MongoClient[dict[str, Any]](uri(port, members)) as client,
    ):
        client.admin.command("ping")
        deadline = time.monotonic() + 10
        while len(client.nodes) < members and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(client.nodes) == max(1, members)
        assert client.topology_description.replica_set_name == ("rs0" if members else None)
