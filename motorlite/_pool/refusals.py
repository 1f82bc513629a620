"""Pure: the errors of operations that get no connection from a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._base.values import format_address
from motorlite.errors import CircuitBreakerOpenError, PoolClearedError, PoolClosedError, WaitQueueTimeoutError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address


def closed(address: Address) -> PoolClosedError:
    """Return the error of an operation whose client was closed."""
    return PoolClosedError(f"the connection pool of {format_address(address)} is closed")


def server_left(address: Address) -> PoolClearedError:
    """Return the error of an operation whose server left the deployment."""
    return PoolClearedError(f"{format_address(address)} has left the deployment")


def cleared(address: Address, because: str) -> PoolClearedError:
    """Return the error of an operation whose pool was cleared; `because` may be empty."""
    reason = f": {because}" if because else ""
    return PoolClearedError(f"the connection pool of {format_address(address)} was cleared{reason}")


def breaker_opened(address: Address, waited: float, retry_after: float) -> CircuitBreakerOpenError:
    """Return the error of an operation that waited for a connection when the breaker of its server opened."""
    error = CircuitBreakerOpenError(
        f"the circuit breaker of {format_address(address)} opened while the operation waited for a connection: "
        "too many operations failed there"
    )
    error.address, error.wait_time, error.retry_after = address, waited, retry_after
    return error


def timed_out(
    address: Address, phase: str, waited: float, numbers: Mapping[str, int], cause: str = ""
) -> WaitQueueTimeoutError:
    """Return the error of an operation that got no connection within `waited` seconds.

    `numbers` describe the pool. `cause` is what they do not say.
    """
    # The text is quoted from the load balancer specification ("Connection Tracking"), except most numbers.
    shown = ", ".join(f"{name}: {number}" for name, number in numbers.items())
    error = WaitQueueTimeoutError(
        f"Timeout waiting for connection from the connection pool. {shown}, "
        f"waited for {format_address(address)}: {waited:.3f} s{cause and '; '}{cause}"
    )
    error.phase, error.address, error.wait_time = phase, address, waited
    return error
