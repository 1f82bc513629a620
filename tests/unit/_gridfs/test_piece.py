"""What is left of a chunk, and lines."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from motorlite._gridfs.files import Lines, Piece


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


@given(st.lists(st.sampled_from([b"a", b"\n", b"b\n", b"\n\nc", b"long\r\nlines\n"]), max_size=12))
def test_lines_of_pieces(pieces: list[bytes]) -> None:
    lines = Lines(-1)
    assert [lines.add(piece) for piece in pieces] == list(map(len, pieces))
    assert lines.all() == io.BytesIO(b"".join(pieces)).readlines()
    assert not lines.are_enough


@given(st.lists(st.sampled_from([b"a", b"\n", b"b\n", b"\n\nc"]), max_size=12), st.integers(1, 20))
def test_enough_lines(pieces: list[bytes], enough: int) -> None:
    content, taken, lines = b"".join(pieces), 0, Lines(enough)
    for piece in pieces:
        taken += lines.add(piece)
        if lines.are_enough:
            break
    expected: list[bytes] = []
    for line in io.BytesIO(content):
        expected.append(line)
        if sum(map(len, expected)) > enough:
            break
    assert lines.all() == expected
    assert taken == sum(map(len, expected))
