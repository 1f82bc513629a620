"""Shell: samples what the processor works on in this process, and which layer of the driver that belongs to.

A timer of processor time interrupts the program every few milliseconds (the kernel's tick). Unlike a profiler it costs
nothing per call. The handler runs as soon as the current C function has returned, in the frame that called it, so a
call into `bson`, a socket or the selector counts for its caller. What a function does right before it calls another one
may count for that one.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

EVERY = 0.001

# The layer of a frame: the first row applies that begins its module and, unless empty, has its function.
LAYERS: Final = (
    ("bson", ("encode",), "encode"),
    ("bson", (), "decode"),
    ("motorlite._api", (), "method: arguments, operation, call"),
    ("motorlite._client", (), "method: arguments, operation, call"),
    ("motorlite._operations", (), "build: command and session"),
    ("motorlite._sessions", (), "build: command and session"),
    ("motorlite._execution.building", (), "build: command and session"),
    ("motorlite._execution.sender", (), "send: limits, events, cluster time"),
    ("motorlite._execution", (), "execute: run, attempt, parse"),
    ("motorlite._retry", (), "execute: run, attempt, parse"),
    ("motorlite._connection.messages", (), "encode"),
    ("motorlite._wire.documents", ("encode",), "encode"),
    ("motorlite._wire.documents", (), "decode"),
    ("motorlite._wire.op_msg", ("encode",), "encode"),
    ("motorlite._wire", (), "round_trip: frames, parse, check"),
    ("motorlite._connection", (), "round_trip: frames, parse, check"),
    ("motorlite._pool", (), "selection and check-out"),
    ("motorlite._admission", (), "selection and check-out"),
    ("motorlite._topology", (), "selection and check-out"),
    ("motorlite._net", (), "stream and future"),
    ("motorlite", (), "other"),
    ("asyncio.selector_events", ("write", "writelines", "_write_ready"), "socket: send"),
    ("asyncio.selector_events", ("_read_ready", "_read_ready__get_buffer"), "socket: receive"),
    ("asyncio.sslproto", (), "TLS"),
    ("selectors", ("select",), "select"),
    ("trio._socket", (), "socket: send and receive"),
    ("trio", (), "event loop"),
    ("asyncio", (), "event loop"),
    ("selectors", (), "event loop"),
    ("benchmarks.arms", (), "bare protocol"),
    ("benchmarks", (), "benchmark"),
)
OTHER: Final = "other"


def layer_of(module: str, function: str) -> str | None:
    """The layer of a function; None if it says nothing, and its caller decides."""
    for start, functions, layer in LAYERS:
        if (module == start or module.startswith(f"{start}.")) and (not functions or function in functions):
            return layer
    return None


class Sampler:
    """Counts samples by layer while it is entered. The main thread must enter it, and wait for nothing else."""

    def __init__(self) -> None:
        self.layers: Counter[str] = Counter()
        self._before: Any = None

    def __enter__(self) -> Sampler:
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _sample(self, _signal: int, frame: FrameType | None) -> None:
        layer = None
        while frame is not None and layer is None:
            layer = layer_of(frame.f_globals.get("__name__", ""), frame.f_code.co_name)
            frame = frame.f_back
        self.layers[layer or OTHER] += 1
