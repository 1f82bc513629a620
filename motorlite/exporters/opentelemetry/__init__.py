"""Pure: traces and metrics for OpenTelemetry (extra ``opentelemetry``). docs/metrics.md lists spans and metrics.

Traces need no import: ``AsyncMongoClient(tracing={"enabled": True})``. Metrics need `OpenTelemetryMetrics`.
"""

from __future__ import annotations

from motorlite.exporters.opentelemetry._metrics import OpenTelemetryMetrics

__all__ = ["OpenTelemetryMetrics"]
