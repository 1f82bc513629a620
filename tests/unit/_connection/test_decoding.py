"""Large replies: the collector's state, slices and the loop, and what is left of a reply when its caller leaves."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest
from anyio.lowlevel import checkpoint
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import InvalidBSON

from motorlite._connection.decoding import LARGE, Decoder, without_collector
from motorlite._wire.slices import SLICE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._base.values import Document

pytestmark = pytest.mark.anyio

FIRST = {"cursor": {"firstBatch": 1}}


async def sleep(seconds: float) -> None:
    assert seconds == 0
    assert gc.isenabled(), "other tasks run with the collector"
    await checkpoint()


class Look(TypeDecoder):
    """Notes the state of the collector while a document is decoded."""

    bson_type = int

    def __init__(self) -> None:
        self.seen: set[bool] = set()

    def transform_bson(self, value: Any) -> Any:
        self.seen.add(gc.isenabled())
        if value < 0:
            raise ZeroDivisionError
        return value

    @property
    def options(self) -> CodecOptions[Any]:
        return CodecOptions(type_registry=TypeRegistry([self]))


def reply(size: int, *, number: int = 1) -> memoryview:
    """A reply with documents of about `size` bytes in all."""
    documents = [{"n": number, "text": "x" * 1000} for _ in range(size // 1000)]
    return memoryview(bson.encode({"cursor": {"firstBatch": documents, "id": 5, "ns": "a.b"}, "ok": 1}))


def unfinished(reply: Document) -> None:
    raise AssertionError("not cancelled")


async def decode(
    body: memoryview, options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS, *, pauses_collector: bool = True
) -> Document:
    decoder = Decoder(sleep, pauses_collector=pauses_collector)
    return await decoder.decode(body, options, FIRST, unfinished)


@contextmanager
def collector(*, is_on: bool) -> Iterator[None]:
    assert gc.isenabled()
    if not is_on:
        gc.disable()
    try:
        yield
        assert gc.isenabled() is is_on
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [LARGE * 2, SLICE * 4], ids=["whole", "slices"])
@pytest.mark.parametrize("number", [1, -1], ids=["decoded", "rejected"])
async def test_the_collector_pauses_and_goes_on(size: int, number: int) -> None:
    look = Look()
    with collector(is_on=True):
        if number > 0:
            assert len((await decode(reply(size), look.options))["cursor"]["firstBatch"]) == size // 1000
        else:
            with pytest.raises(InvalidBSON):
                await decode(reply(size, number=number), look.options)
    assert look.seen == {False}


@pytest.mark.parametrize("size", [LARGE * 2, SLICE * 4], ids=["whole", "slices"])
async def test_the_option_leaves_the_collector_on(size: int) -> None:
    look = Look()
    with collector(is_on=True):
        await decode(reply(size), look.options, pauses_collector=False)
    assert look.seen == {True}


async def test_a_collector_that_is_off_stays_off() -> None:
    look = Look()

    async def careless(seconds: float) -> None:
        assert not gc.isenabled()

    with collector(is_on=False):
        await Decoder(careless, pauses_collector=True).decode(reply(SLICE * 4), look.options, FIRST, unfinished)
    assert look.seen == {False}


class Stopped(BaseException):
    """Like KeyboardInterrupt."""


def test_the_collector_goes_on_after_any_exception() -> None:
    def stop() -> None:
        assert not gc.isenabled()
        raise Stopped

    with collector(is_on=True), pytest.raises(Stopped):
        without_collector(stop)


def test_a_pause_within_a_pause_changes_nothing() -> None:
    def outer() -> bool:
        without_collector(int)
        return gc.isenabled()

    with collector(is_on=True):
        assert without_collector(outer) is False


@pytest.mark.parametrize("first", [0, 1])
def test_two_threads_that_pause_the_collector_leave_it_on(first: int) -> None:
    # Both are in their pause, then one after the other ends it.
    entered, leaves = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def pause(number: int) -> None:
        def wait() -> None:
            entered[number].set()
            assert leaves[number].wait(10)

        without_collector(wait)

    with collector(is_on=True):
        threads = [threading.Thread(target=pause, args=(number,)) for number in (0, 1)]
        for thread, event in zip(threads, entered, strict=True):
            thread.start()
            assert event.wait(10)
        assert not gc.isenabled()
        for number in (first, 1 - first):
            leaves[number].set()
            threads[number].join(10)


def test_threads_that_both_found_the_collector_on_leave_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both look before either of them turns it off.
    barrier = threading.Barrier(2, timeout=10)
    is_enabled = gc.isenabled

    def looked() -> bool:
        found = is_enabled()
        barrier.wait()
        return found

    with collector(is_on=True):
        monkeypatch.setattr(gc, "isenabled", looked)
        threads = [threading.Thread(target=without_collector, args=(int,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        monkeypatch.undo()


async def test_other_tasks_run_between_slices() -> None:
    turns, is_done = 0, False

    async def count() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await decode(reply(SLICE * 8))
        is_done = True
    assert 8 <= turns <= 12


async def test_up_to_the_limit_a_reply_is_one_call() -> None:
    async def never(seconds: float) -> None:
        raise AssertionError("suspended")

    body = reply(SLICE - 100_000)
    assert len(body) < SLICE
    await Decoder(never, pauses_collector=True).decode(body, DEFAULT_CODEC_OPTIONS, FIRST, unfinished)


@pytest.mark.parametrize("slices", [0, 1, 3])
async def test_a_cancelled_decoding_leaves_the_cursor(slices: int) -> None:
    left: list[Document] = []
    turns = 0

    async def cancelled(seconds: float) -> None:
        nonlocal turns
        if turns == slices:
            raise Stopped
        turns += 1

    with collector(is_on=True), pytest.raises(Stopped):
        await Decoder(cancelled, pauses_collector=True).decode(
            reply(SLICE * 4), DEFAULT_CODEC_OPTIONS, FIRST, left.append
        )
    assert [(item["cursor"]["id"], item["cursor"]["ns"]) for item in left] == [(5, "a.b")]
