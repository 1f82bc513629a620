"""Pure: traces and metrics for OpenTelemetry (extra ``opentelemetry``). docs/metrics.md lists spans and metrics.

Traces need no import: ``AsyncMongoClient(tracing={"enabled": True})``. Metrics need `OpenTelemetryMetrics`.
"""

from __future__ import annotations

from motorlite.exporters.opentelemetry._metrics import OpenTelemetryMetrics
from motorlite.exporters.opentelemetry._tracing import tracing_listeners

__all__ = ["OpenTelemetryMetrics", "tracing_listeners"]
