"""The servers of the floods, and the bounds of what a flood may cost."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from benchmarks.processes import serving
from motorlite.testing.server.mongod_processes import free_port
from tests.floods.child import CASES, Figures

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bytes of the process for each operation, the task and the coroutines of the caller included.
MEMORY: Final = 16_384
FEWEST: Final = 5_000
# Milliseconds of the processor: for a step, without the collector; and for an operation, retries included.
STEP: Final = 50.0
CPU: Final = 5.0
# Seconds after the time limit of the operations until the last one has ended, on a machine that does other things too.
LATE: Final = 60.0


@contextmanager
def uri_of(case: str) -> Iterator[str]:
    """A server that behaves in this way."""
    if case == "refusing":
        yield f"mongodb://127.0.0.1:{free_port()}"
    elif case == "black hole":
        # One connection is made and never accepted, further ones not even that.
        with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
            yield f"mongodb://127.0.0.1:{listener.getsockname()[1]}"
    else:
        with serving("tests.support.faulty_server") as port:
            yield f"mongodb://127.0.0.1:{port}/?replicaSet=rs"


def complaints(case: str, operations: int, found: Figures) -> Iterator[str]:
    """The bounds that are broken."""
    _, options = CASES[case]
    limit = (options.get("timeoutMS") or options["serverSelectionTimeoutMS"]) / 1000 + LATE
    # In a small flood, what the process needs anyway counts for most.
    if found.memory > MEMORY and operations >= FEWEST:
        yield f"{found.memory:,.0f} bytes for each operation, not {MEMORY:,}"
    if found.step_without_collector * 1000 > STEP:
        yield f"a step of {found.step_without_collector * 1000:.0f} ms, not {STEP:.0f}"
    if found.cpu / operations * 1000 > CPU:
        yield f"{found.cpu / operations * 1000:.1f} ms of the processor for each operation, not {CPU:.0f}"
    if found.seconds > limit:
        yield f"the last operation ended after {found.seconds:.1f} s, not {limit:.0f}"
    if found.unexpected or sum(found.outcomes.values()) != operations:
        yield f"{operations - sum(found.outcomes.values())} undocumented errors: {found.unexpected}"
    if found.unrest:
        yield f"not at rest afterwards: {found.unrest}"
