from __future__ import annotations

from motorlite._wire.frames import HEADER, HEADER_SIZE, OP_COMPRESSED, OP_MSG


def test_a_header_is_four_little_endian_signed_integers() -> None:
    assert HEADER_SIZE == 16
    assert HEADER.pack(16, 1, -1, OP_MSG) == bytes.fromhex("10000000 01000000 ffffffff dd070000")
    assert OP_COMPRESSED == 2012
