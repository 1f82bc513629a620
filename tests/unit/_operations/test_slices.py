from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
from bson.raw_bson import RawBSONDocument

from motorlite._operations.bulk import MOST
from motorlite._operations.slices import ITEMS, MAX_SIZE, all_at_once, is_slice, release, slice_length

if TYPE_CHECKING:
    from motorlite._operations.slices import Slices


def test_all_at_once() -> None:
    seen: list[int] = []

    def counted() -> Slices[str]:
        for number in range(3):
            seen.append(number)
            yield
        return "done"

    assert all_at_once(counted()) == "done"
    assert seen == [0, 1, 2]


def test_release() -> None:
    items: list[Any] = list(range(ITEMS * 2 + 1))
    assert [len(items) for _ in release(items)] == [ITEMS + 1, 1]
    assert items == []
    assert list(release([])) == []


def lengths(statements: list[Any]) -> list[int]:
    """How many statements each slice has, if all of its statements are encoded."""
    found, position, average = list[int](), 0, 0
    while position < len(statements):
        length = min(slice_length(statements, position, average), len(statements) - position)
        encoded = list(map(bson.encode, statements[position : position + length]))
        average = sum(map(len, encoded)) // len(encoded)
        found.append(length)
        position += length
    return found


def document(size: int) -> dict[str, Any]:
    return {"b": b"x" * size}


def test_slices_of_small_statements() -> None:
    assert set(lengths([{}] * 1000)[:-1]) <= set(range(MOST - 2, MOST + 1))
    assert max(lengths([{}] * 1000)) <= MOST
    assert set(lengths([document(1000)] * 100)) <= set(range(30, 33)) | {100 % 32, 100 % 31}


def test_large_statements_are_slices_by_themselves() -> None:
    assert lengths([document(100_000)] * 5) == [1] * 5
    assert lengths([document(20_000_000)]) == [1]


def test_statements_that_become_larger() -> None:
    found = lengths([document(100)] * 200 + [document(1_000_000)] * 20)
    # The slice in which they do may have some of them, but not its last one.
    assert found[-19:] == [1] * 19


def test_statements_that_become_smaller() -> None:
    assert max(lengths([document(100_000)] * 3 + [document(10)] * 500)[4:]) > 50


def test_only_plain_statements_are_estimated() -> None:
    raw = RawBSONDocument(bson.encode(document(1_000_000)))
    assert slice_length([raw] * 10, 0, 0) == MOST, "what encodes them one by one ends with `is_slice`"
    assert slice_length([document(1_000_000)] * 10, 9, 0) == 1, "the last one needs no estimate"
    assert slice_length([raw] * 10, 0, 10**9) == 1
    assert is_slice(1_000_000)
    assert not is_slice(1000)


def test_the_slices_of_a_batch_fit_into_it() -> None:
    assert MAX_SIZE > 100 * MOST * 1024
