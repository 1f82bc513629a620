"""The extension `limits` (spec-tests/EXTENSIONS.md): breakers, rate limits and concurrency limits of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite.overload import CircuitBreaker, ConcurrencyLimit, RateLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

# The fields of documents, and those of the driver's values; times in milliseconds and in seconds.
_NAMES: Final = {
    "failureRate": "failure_rate",
    "minOperations": "min_operations",
    "windowMS": "window",
    "openMS": "open_for",
    "gatesFirstAttempts": "gates_first_attempts",
    "timeoutMS": "timeout",
}


def limit_options(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The client options for the document `limits`."""
    options: dict[str, Any] = {}
    if "circuitBreaker" in limits:
        options["circuit_breaker"] = CircuitBreaker(**_fields(limits["circuitBreaker"]))
    if "rateLimits" in limits:
        options["rate_limit"] = {name: RateLimit(**_fields(fields)) for name, fields in limits["rateLimits"].items()}
    if "concurrencyLimit" in limits:
        options["concurrency_limit"] = ConcurrencyLimit(**_fields(limits["concurrencyLimit"]))
    return options


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value / 1000 if name.endswith("MS") else value for name, value in document.items()}
