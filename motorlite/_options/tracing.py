"""Pure: the client option `tracing`, and the environment variables for it (OpenTelemetry specification)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from motorlite._options.row import ENABLED_VARIABLE, LENGTH_VARIABLE, Unusable

_YES: Final = frozenset({"1", "true", "yes"})


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """How a client traces its operations.

    Attributes:
        enabled: Whether it does; None: as the environment says, else not.
        query_text_max_length: The maximum length of the attribute ``db.query.text``, in characters; 0: no such
            attribute; None: as the environment says, else 0.
        phases: Whether attempts, server selection, check-outs and backoff have spans of their own, which the
            specification does not know.
        with_transaction: Whether a call of `with_transaction` gets a span around its transactions, which the text of
            the specification has, but its tests lack.
        tracer_provider: An OpenTelemetry TracerProvider; None: the global one.
    """

    enabled: bool | None = None
    query_text_max_length: int | None = None
    phases: bool = False
    with_transaction: bool = False
    tracer_provider: Any = None

    def with_environment(self, environment: Mapping[str, str]) -> TracingOptions:
        """Return the options with everything that is None taken from environment variables; wrong ones are ignored."""
        enabled, length = self.enabled, self.query_text_max_length
        if enabled is None:
            enabled = environment.get(ENABLED_VARIABLE, "").strip().lower() in _YES
        if length is None:
            text = environment.get(LENGTH_VARIABLE, "").strip()
            length = int(text) if text.isascii() and text.isdigit() else 0
        return replace(self, enabled=enabled, query_text_max_length=length)


TracingOptions.__module__ = "motorlite.client_options"


def tracing_options(value: object) -> TracingOptions:
    """Parse a mapping of options."""
    if isinstance(value, TracingOptions):
        return value
    if not isinstance(value, Mapping):
        raise TypeError
    known = TracingOptions.__slots__
    for name in value:
        if name not in known:
            raise Unusable(f"has the unknown key {name!r}; known are {', '.join(known)}")
    for name in ("enabled", "phases", "with_transaction"):
        if not isinstance(value.get(name, False), bool | None):
            raise Unusable(f"must have True or False for {name!r}, not {value[name]!r}")
    length = value.get("query_text_max_length")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
        raise Unusable(f"must have a non-negative integer for 'query_text_max_length', not {length!r}")
    provider = value.get("tracer_provider")
    if provider is not None and not callable(getattr(provider, "get_tracer", None)):
        raise Unusable(f"must have a TracerProvider for 'tracer_provider', not {provider!r}")
    phases, with_transaction = bool(value.get("phases")), bool(value.get("with_transaction"))
    return TracingOptions(value.get("enabled"), length, phases, with_transaction, provider)
