"""Pure: exporters of figures: `motorlite.exporters.prometheus` and `motorlite.exporters.opentelemetry`.

Each needs the extra of its name: ``pip install 'motorlite[prometheus]'``. docs/metrics.md lists all metrics and spans.
"""

from __future__ import annotations

__all__ = []
