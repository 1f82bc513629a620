"""Shell: metrics for Prometheus (extra ``prometheus``).

    collector = PrometheusCollector()
    REGISTRY.register(collector)
    measurements = Measurements()
    client = AsyncMongoClient(uri, event_listeners=[measurements])
    collector.add(client, "orders", measurements)

docs/metrics.md lists the metrics. Most are read from `client.stats()` when Prometheus asks, and cost nothing before.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from motorlite._base.arguments import wrong
from motorlite.exporters._clients import Clients, snapshot
from motorlite.exporters._measurements import Measurements, measured
from motorlite.exporters._readings import MEASURED, METRICS, Metric, readings
from motorlite.stats import Durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite import AsyncMongoClient
    from motorlite.exporters._readings import Reading

__all__ = ["Measurements", "PrometheusCollector"]

_ALL = {**METRICS, **MEASURED}


class PrometheusCollector(Collector):
    """Collects the metrics of clients. Register one with a registry, and add each client to it.

    It keeps weak references: the metrics of a client that is dropped vanish, and those of a closed one stay until then.
    A registry may collect in any thread.
    """

    def __init__(self) -> None:
        self._clients: Clients[Measurements | None] = Clients()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {[name for name, *_ in self._clients.live()]!r}>"

    def add(self, client: AsyncMongoClient[Any], name: str, measurements: Measurements | None = None) -> None:
        """Collect the metrics of a client, with ``client="name"`` as a label.

        Args:
            client: The client.
            name: Its name; unique among the clients of this collector that were not dropped.
            measurements: The listener that the client was made with, for durations and errors of operations, waits and
                handshakes.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: Another client has this name, or the client was added before.
        """
        if measurements is not None and not isinstance(measurements, Measurements):
            raise TypeError(wrong("measurements", measurements, "the Measurements among the client's event_listeners"))
        self._clients.add(client, name, measurements)

    def remove(self, client: AsyncMongoClient[Any]) -> None:
        """Stop collecting the metrics of a client.

        Raises:
            ValueError: It was not added.
        """
        self._clients.remove(client)

    def describe(self) -> Iterator[Family]:
        """Return every metric without values, so that a registry notices duplicates."""
        return (_family(metric) for metric in _ALL.values())

    def collect(self) -> Iterator[Family]:
        """Return every metric with the values of this moment."""
        families = {name: _family(metric) for name, metric in _ALL.items()}
        for name, client, measurements in self._clients.live():
            stats = snapshot(client)
            found = list(readings(stats))
            if measurements is not None:
                has_queue = any(server.queue is not None for server in stats.servers.values())
                found += measured(measurements, has_queue=has_queue)
            for reading in found:
                _add(families[reading.name], name, reading)
        return (family for family in families.values() if family.samples)


def _family(metric: Metric) -> Any:
    labels = ("client", *metric.labels)
    name = metric.prometheus_name
    if metric.kind == "counter":
        return CounterMetricFamily(name.removesuffix("_total"), metric.meaning, labels=labels)
    if metric.kind == "gauge":
        return GaugeMetricFamily(name, metric.meaning, labels=labels)
    return HistogramMetricFamily(name, metric.meaning, labels=labels)


def _add(family: Any, client: str, reading: Reading) -> None:
    labels, value = (client, *reading.labels), reading.value
    if isinstance(value, Durations):
        buckets = [("+Inf" if bound == inf else repr(bound), float(count)) for bound, count in value.buckets.items()]
        if not buckets or buckets[-1][0] != "+Inf":
            buckets.append(("+Inf", float(value.count)))
        family.add_metric(labels, buckets, value.total)
    else:
        family.add_metric(labels, float(value))
