"""Each request has a number of its own, in whatever thread it is made."""

from __future__ import annotations

import threading
from types import FunctionType, MethodWrapperType
from typing import TYPE_CHECKING

import pytest

from motorlite._net.host import make_request_ids, next_request_id

if TYPE_CHECKING:
    from collections.abc import Callable


def test_request_ids_differ_and_fit() -> None:
    one, two = next_request_id(), next_request_id()
    assert one != two
    assert 0 <= one < 2**31


@pytest.mark.parametrize("next_id", [next_request_id, make_request_ids(has_gil=False)], ids=["here", "without a GIL"])
def test_request_ids_differ_in_all_threads(next_id: Callable[[], int]) -> None:
    made: list[list[int]] = [[] for _ in range(4)]
    gate = threading.Barrier(len(made))

    def make(ids: list[int]) -> None:
        gate.wait()
        ids += [next_id() for _ in range(20_000)]

    threads = [threading.Thread(target=make, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set().union(*made)) == 80_000


def test_without_a_gil_a_lock_guards_the_ids() -> None:
    assert isinstance(make_request_ids(has_gil=True), MethodWrapperType), "no Python code runs"
    assert isinstance(make_request_ids(has_gil=False), FunctionType)
