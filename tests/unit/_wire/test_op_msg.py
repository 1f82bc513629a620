"""OP_MSG specification: whatever a peer sends is either a message or a ProtocolError."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motorlite._wire import op_msg
from motorlite._wire.frames import FrameReader
from motorlite._wire.op_msg import crc32c
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY = bson.encode({})
BODY = bson.encode({"insert": "coll", "$db": "db"})

documents = st.builds(
    bson.encode, st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.text(max_size=9), max_size=3)
)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
sequences = st.dictionaries(names, st.lists(documents, max_size=4), max_size=3).map(lambda d: list(d.items()))


def message(*sections: bytes, flags: int = 0, op_code: int = 2013, request_id: int = 7, to: int = 3) -> bytes:
    content = b"".join(sections)
    return struct.pack("<iiiiI", 20 + len(content), request_id, to, op_code, flags) + content


def body(document: bytes = BODY) -> bytes:
    return b"\0" + document


def sequence(name: bytes, *items: bytes, size: int | None = None) -> bytes:
    payload = name + b"\0" + b"".join(items)
    return b"\1" + struct.pack("<i", 4 + len(payload) if size is None else size) + payload


def with_checksum(plain: bytes, checksum: int | None = None) -> bytes:
    """`plain`, which has the flag already, with its length corrected and the checksum at its end."""
    longer = struct.pack("<i", len(plain) + 4) + plain[4:]
    return longer + struct.pack("<I", crc32c(longer) if checksum is None else checksum)


def copied(parsed: op_msg.Message) -> dict[str, list[bytes]]:
    return {name: [bytes(item) for item in items] for name, items in (parsed.sequences or {}).items()}


@settings(deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    documents,
    sequences,
    st.sampled_from([0, op_msg.MORE_TO_COME, op_msg.EXHAUST_ALLOWED, 1 << 31]),
)
def test_round_trip(request_id: int, document: bytes, parts: Sequence[tuple[str, Sequence[bytes]]], flags: int) -> None:
    encoded = op_msg.encode(request_id, document, parts, flags)
    assert struct.unpack_from("<iiii", encoded) == (len(encoded), request_id, 0, 2013)
    sizes = (6 + len(name.encode()) + sum(map(len, items)) for name, items in parts)
    assert len(encoded) == 21 + len(document) + sum(sizes)
    parsed = op_msg.parse(encoded)
    assert (parsed.request_id, parsed.response_to, bytes(parsed.body)) == (request_id, 0, document)
    assert parsed.more_to_come is bool(flags & op_msg.MORE_TO_COME)
    assert copied(parsed) == dict(parts)


def test_the_encoded_bytes() -> None:
    encoded = op_msg.encode(7, BODY, [("documents", [EMPTY, EMPTY]), ("ü", [])], op_msg.EXHAUST_ALLOWED)
    expected = message(
        body(),
        sequence(b"documents", EMPTY, EMPTY),
        sequence("ü".encode()),
        flags=1 << 16,
        to=0,
    )
    assert encoded == expected


def test_sections_may_come_in_any_order() -> None:
    parsed = op_msg.parse(message(sequence(b"a", EMPTY), body(), sequence(b"b")))
    assert (parsed.request_id, parsed.response_to) == (7, 3)
    assert parsed.body == BODY
    assert copied(parsed) == {"a": [EMPTY], "b": []}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_checksums(data: bytes, expected: int) -> None:
    assert crc32c(data) == crc32c(memoryview(data)) == expected


@pytest.mark.parametrize("flags", [1, 1 | op_msg.MORE_TO_COME, 1 | 1 << 16, 1 | 1 << 30])
def test_a_right_checksum(flags: int) -> None:
    for sections in ([body()], [body(), sequence(b"a", EMPTY)]):
        parsed = op_msg.parse(with_checksum(message(*sections, flags=flags)))
        assert parsed.body == BODY
        assert parsed.more_to_come is bool(flags & op_msg.MORE_TO_COME)


def test_every_bit_is_covered_by_the_checksum() -> None:
    good = with_checksum(message(body(EMPTY), flags=1))
    # Not the length, which the frame reader has believed, nor the flag that announces the checksum.
    for bit in (*range(32, 8 * 16), *range(8 * 16 + 16, 8 * len(good))):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            op_msg.parse(bad)


@pytest.mark.parametrize("bit", range(2, 16))
def test_unknown_required_bits(bit: int) -> None:
    with pytest.raises(ProtocolError, match="unknown required flag bits"):
        op_msg.parse(message(body(), flags=1 << bit))


@pytest.mark.parametrize("bit", range(16, 32))
def test_unknown_optional_bits_are_ignored(bit: int) -> None:
    assert op_msg.parse(message(body(), flags=1 << bit)).body == BODY


MALFORMED = {
    "nothing": (b"", "too short"),
    "header only": (message()[:16], "too short"),
    "no sections": (message(), "too short"),
    "other opcode": (message(body(), op_code=1), "opcode 1"),
    "compressed": (message(body(), op_code=2012), "opcode 2012"),
    "document cut off": (message(body(BODY[:-1])), "announces"),
    "document without its size": (message(b"\0\5\0"), "cut off"),
    "document of size 4": (message(b"\0\4\0\0\0"), "cannot have"),
    "document of size 0": (message(b"\0\0\0\0\0\0"), "announces 0 bytes"),
    "document of size -1": (message(b"\0\xff\xff\xff\xff\0"), "announces -1 bytes"),
    "bytes behind the document": (message(body(), b"\0"), "cut off"),
    "two bodies": (message(body(), body()), "more than one section of kind 0"),
    "no body": (message(sequence(b"a", EMPTY)), "no section of kind 0"),
    "unknown kind": (message(body(), b"\2", EMPTY), "unknown kind 2"),
    "unknown kind first": (message(b"\xff", EMPTY), "unknown kind 255"),
    "sequence twice": (message(body(), sequence(b"a"), sequence(b"a")), "repeats"),
    "sequence too long": (message(body(), sequence(b"a", size=100)), "announces 100 bytes"),
    "sequence of size 3": (message(body(), sequence(b"a", size=3)), "announces 3 bytes"),
    "sequence without a name": (message(body(), b"\1" + struct.pack("<i", 5) + b"a"), "no identifier"),
    "sequence of nothing": (message(body(), b"\1" + struct.pack("<i", 4)), "no identifier"),
    "name not in UTF-8": (message(body(), sequence(b"\xff")), "not UTF-8"),
    "sequence with half a document": (message(body(), sequence(b"a", EMPTY, EMPTY[:3])), "cut off"),
    "sequence with a small document": (message(body(), sequence(b"a", b"\4\0\0\0")), "cannot have"),
    "sequence with a long document": (message(body(), sequence(b"a", b"\6\0\0\0\0")), "announces 6"),
    "wrong checksum": (with_checksum(message(body(), flags=1), 0), "checksum"),
    "no room for the checksum": (message(b"\0", flags=1), "checksum"),
    "nothing but the checksum": (with_checksum(message(flags=1)), "no section of kind 0"),
}


@pytest.mark.parametrize(("data", "text"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        op_msg.parse(data)


def outcome(data: bytes) -> None:
    """Cut and parse as a connection does: messages come out, more data is wanted, or a ProtocolError."""
    try:
        for frame in FrameReader().feed(data):
            parsed = op_msg.parse(frame)
            assert len(parsed.body) >= 5
            assert struct.unpack_from("<i", parsed.body)[0] == len(parsed.body)
            for items in (parsed.sequences or {}).values():
                assert all(struct.unpack_from("<i", item)[0] == len(item) for item in items)
    except ProtocolError:
        pass


@settings(deadline=None)
@given(st.binary(max_size=100), st.sampled_from([0, 1, 2, 3, 1 << 16]))
def test_arbitrary_sections(content: bytes, flags: int) -> None:
    outcome(message(content, flags=flags))
    outcome(with_checksum(message(content, flags=flags | 1)))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Valid messages with a few bytes changed, cut out or put in."""
    data = bytearray(op_msg.encode(1, draw(documents), draw(sequences)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    if draw(st.booleans()):  # else the frame reader already refuses most of them
        data[:4] = struct.pack("<i", len(data))
    return bytes(data)


@settings(deadline=None)
@given(mutated())
def test_mutated_messages(data: bytes) -> None:
    outcome(data)


@pytest.mark.parametrize("size", [5, 100, 8 * 1024 - 1, 8 * 1024, 70_000])
def test_the_body_of_a_usual_reply(size: int) -> None:
    document = bson.encode({} if size == 5 else {"x": b"y" * (size - 13)})
    assert len(document) == size
    frame = message(body(document), to=3)
    found = op_msg.sole_body(frame, 3)
    assert found is not None
    assert bytes(found) == document == bytes(op_msg.parse(frame).body)
    assert op_msg.sole_body(bytearray(frame), 3) == found


@pytest.mark.parametrize(
    "frame",
    [
        message(body(), to=4),
        message(body(), op_code=2012),
        message(body(), flags=op_msg.MORE_TO_COME),
        message(body(), flags=1 << 31),
        message(sequence(b"a", BODY)),
        message(body(), sequence(b"a", BODY)),
        message(body(BODY + b"\0")),
        message(body(BODY[:-1])),
        message(body(b"\4\0\0\0")),
        message(b""),
        b"\x10\0\0\0" + bytes(12),
        b"",
    ],
)
def test_only_a_usual_reply_has_a_sole_body(frame: bytes) -> None:
    assert op_msg.sole_body(frame, 3) is None
    assert op_msg.sole_body(bytearray(frame), 3) is None


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_a_sole_body_is_what_parsing_finds(content: bytes, flags: int) -> None:
    frame = message(content, flags=flags)
    found = op_msg.sole_body(frame, 3)
    if found is not None:
        parsed = op_msg.parse(frame)
        assert (bytes(parsed.body), parsed.response_to, parsed.more_to_come) == (bytes(found), 3, False)
        assert not parsed.sequences
