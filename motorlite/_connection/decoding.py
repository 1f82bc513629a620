"""Shell: decodes large replies so that neither the event loop nor the garbage collector suffers.

Decoding creates many objects and drops none, so Python's repeated search for reference cycles finds nothing.
So the collector pauses meanwhile, but never while other tasks run.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from motorlite._wire.documents import decode_reply
from motorlite._wire.slices import SLICE, decode_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document

P = ParamSpec("P")
T = TypeVar("T")

# Bytes. Decoding smaller replies creates fewer objects than the collector waits for.
LARGE: Final = 16 * 1024


class Decoder:
    """Decodes the large replies of one client.

    Args:
        sleep: That of the event loop.
        pauses_collector: Whether decoding pauses the cyclic garbage collector.
    """

    __slots__ = ("_pauses_collector", "_sleep")

    def __init__(self, sleep: Callable[[float], Awaitable[None]], *, pauses_collector: bool) -> None:
        self._sleep = sleep
        self._pauses_collector = pauses_collector

    async def decode(
        self,
        body: bytes | bytearray | memoryview,
        codec_options: CodecOptions[Any],
        fields: Mapping[str, Any] | None,
        unfinished: Callable[[Document], None],
    ) -> Document:
        """Decode a reply as `decode_reply` does, in slices between which other tasks run.

        If that is cancelled, `unfinished` is called with the reply without its documents, where it has any.
        """
        call = without_collector if self._pauses_collector else _call
        if len(body) <= SLICE:
            return call(decode_reply, body, codec_options, fields)
        slices: Generator[Document, None, Document] = decode_in_slices(memoryview(body), codec_options, fields)
        try:
            while True:
                reply = call(next, slices)
                try:
                    await self._sleep(0)
                except BaseException:
                    unfinished(reply)
                    raise
        except StopIteration as end:
            decoded: Document = end.value
            return decoded


def without_collector(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` while the process makes no cyclic garbage collections.

    Leaves the collector off if it was off. Threads may do this at the same time: each of them that found the collector
    on turns it on again, so the first one to finish ends the pause of all.
    """
    if not gc.isenabled():
        return function(*args, **kwargs)
    try:
        gc.disable()
        return function(*args, **kwargs)
    finally:
        gc.enable()


def _call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)
