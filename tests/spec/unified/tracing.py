"""Records a client's spans, and compares them with those that a test expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from tests.spec.unified.matching import Matcher

# Commands are compared, so they must be whole.
_MAX_LENGTH: Final = 1_000_000


class SpanRecord:
    """The spans of one client, in the order in which they began."""

    def __init__(self, observed: Mapping[str, Any]) -> None:
        self._with_payload = bool(observed.get("enableCommandPayload", False))
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def option(self) -> Mapping[str, Any]:
        """The client option that records."""
        return {
            "enabled": True,
            "query_text_max_length": _MAX_LENGTH if self._with_payload else 0,
            "tracer_provider": self._provider,
        }

    def stop_recording(self) -> None:
        """Ignore what ends from now on."""
        self._exporter.shutdown()

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """The spans that ended."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def check_spans(expectation: Mapping[str, Any], observed: Sequence[ReadableSpan], matcher: Matcher) -> None:
    """Compare the spans of a client with one entry of `expectTracingMessages`.

    Raises:
        Failed: They do not match.
    """
    listed = "".join(f"\n    {span.name} {dict(span.attributes or {})}" for span in observed)
    try:
        _check(expectation["spans"], None, observed, matcher, expectation.get("ignoreExtraSpans", False))
    except Failed as failure:
        raise Failed(f"{failure}; spans:{listed}") from None


def _check(
    expected: Sequence[Mapping[str, Any]],
    parent: int | None,
    observed: Sequence[ReadableSpan],
    matcher: Matcher,
    ignore_extra: bool,
) -> None:
    """Compare the spans below `parent`, one after the other."""
    found = [span for span in observed if (span.parent.span_id if span.parent else None) == parent]
    if not ignore_extra and len(found) != len(expected):
        names = [one["name"] for one in expected]
        raise Failed(f"expected the spans {names}, found {[span.name for span in found]}")
    left = iter(found)
    for one in expected:
        reasons = []
        for span in left:
            try:
                _check_span(one, span, observed, matcher, ignore_extra)
                break
            except Failed as failure:
                reasons.append(str(failure))
                if not ignore_extra:
                    raise
        else:
            raise Failed(f"expected the span {one['name']!r}, found none that matches: {reasons}")


def _check_span(
    expected: Mapping[str, Any],
    span: ReadableSpan,
    observed: Sequence[ReadableSpan],
    matcher: Matcher,
    ignore_extra: bool,
) -> None:
    name = expected["name"]
    if span.name != name:
        raise Failed(f"expected the span {name!r}, found {span.name!r}")
    # OpenTelemetry's integers have 64 bits.
    attributes = {key: Int64(value) if type(value) is int else value for key, value in (span.attributes or {}).items()}
    matcher.match(expected["attributes"], attributes, f"the attributes of {name!r}", is_root=True)
    assert span.context is not None
    _check(expected.get("nested", ()), span.context.span_id, observed, matcher, ignore_extra)
