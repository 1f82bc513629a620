"""What is left of a chunk."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from motorlite._gridfs.downloads.piece import Piece


def test_taking() -> None:
    piece = Piece(b"abcdef")
    assert (piece.take(2), len(piece)) == (b"ab", 4)
    assert (piece.take(0), len(piece)) == (b"", 4)
    assert (piece.take(9), len(piece)) == (b"cdef", 0)
    assert piece.take(1) == b""


def test_the_whole_chunk_is_not_copied() -> None:
    data = b"abcdef"
    assert Piece(data).take(6) is data


def test_lines() -> None:
    piece = Piece(b"a\nbc\n\nd")
    assert piece.line_size(100) == 2
    assert piece.line_size(1) == 1
    piece.take(2)
    assert piece.line_size(2) == 2
    assert piece.line_size(3) == 3
    piece.take(3)
    assert piece.line_size(100) == 1
    piece.take(1)
    assert piece.line_size(100) == 1


def test_moving() -> None:
    piece = Piece(b"abcdef")
    assert piece.move(4)
    assert not piece.move(3)
    assert not piece.move(-5)
    assert piece.move(2)
    assert len(piece) == 0
    assert piece.move(-6)
    assert piece.take(6) == b"abcdef"
    assert not Piece().move(1)


@given(st.binary(max_size=30).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(1, 9)))
def test_lines_are_those_of_a_file(data: bytes, sizes: list[int]) -> None:
    piece, file = Piece(data), io.BytesIO(data)
    for size in sizes:
        assert piece.take(piece.line_size(size)) == file.readline(size)
