"""Pure: exporters of figures: `live` for ``python -m motorlite.top``, and for Prometheus and OpenTelemetry.

`motorlite.exporters.prometheus` and `motorlite.exporters.opentelemetry` each need the extra of their name:
``pip install 'motorlite[prometheus]'``. docs/metrics.md lists all metrics and spans, and docs/top.md is about `live`.
"""

from __future__ import annotations

from motorlite.exporters._live import Live, live

__all__ = ["Live", "live"]
