"""Shell: metrics of clients: those of OpenTelemetry's conventions for databases, and motorlite's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import Observation, get_meter

from motorlite import monitoring as events
from motorlite._base.version import __version__
from motorlite.exporters._clients import Clients, snapshot
from motorlite.exporters._measurements import Bounded
from motorlite.exporters._readings import METRICS, label_of, readings
from motorlite.stats import Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from motorlite import AsyncMongoClient
    from motorlite.exporters._readings import Metric

# Seconds; the conventions for databases recommend these.
_BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_UNITS: Final = {"": "1", "seconds": "s", "bytes": "By"}
_POOL: Final = "db.client.connection.pool.name"
# The conventions want a prefix for attributes that they do not define. Unprefixed, `client` and `server` would also be
# the names of namespaces, such as that of `server.address`.
_PREFIX: Final = "motorlite."
_CLIENT: Final = f"{_PREFIX}client"


class OpenTelemetryMetrics(events.OperationListener, events.ConnectionPoolListener):
    """A listener that measures clients, and reads `client.stats()` of each when the metrics are exported.

        metrics = OpenTelemetryMetrics()
        client = AsyncMongoClient(uri, event_listeners=[metrics])
        metrics.observe(client, "orders")

    Make one for all clients. It keeps weak references: what is read from a client vanishes with the client.

    Args:
        meter_provider: An OpenTelemetry MeterProvider; None: the global one.
        collections: Whether the durations of operations have the names of database and collection as attributes, for
            the first hundred collections; more count as ``"other"``.
    """

    __module__ = "motorlite.exporters.opentelemetry"

    def __init__(self, meter_provider: MeterProvider | None = None, *, collections: bool = False) -> None:
        meter = get_meter("motorlite", __version__, meter_provider)
        self._clients: Clients[None] = Clients()
        self._namespaces = Bounded() if collections else None
        self._errors = Bounded()
        self._operations = Bounded()
        self._duration = _histogram(meter, "db.client.operation.duration", "Duration of database client operations.")
        self._wait = _histogram(
            meter, "db.client.connection.wait_time", "The time it took to obtain an open connection from the pool."
        )
        self._create = _histogram(
            meter, "db.client.connection.create_time", "The time it took to create a new connection."
        )
        self._timeouts = meter.create_counter(
            "db.client.connection.timeouts", "{timeout}", "Check-outs that ended because no connection became free."
        )
        self._observe_pools(meter)
        for metric in METRICS.values():
            if metric.kind != "histogram":
                self._observe_metric(meter, metric)

    def observe(self, client: AsyncMongoClient[Any], name: str) -> None:
        """Export what `client.stats()` contains, with the attribute ``motorlite.client="name"``.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: Another client has this name, or the client was added before.
        """
        self._clients.add(client, name, None)

    # --- measured ---

    def operation_succeeded(self, event: events.OperationSucceededEvent) -> None:
        self._duration.record(event.duration, self._attributes(event))

    def operation_failed(self, event: events.OperationFailedEvent) -> None:
        attributes = self._attributes(event)
        attributes["error.type"] = self._errors(type(event.failure).__name__)
        self._duration.record(event.duration, attributes)

    def _attributes(self, event: events.OperationEvent) -> dict[str, str]:
        attributes = {"db.system.name": "mongodb", "db.operation.name": self._operations(event.operation_name)}
        if self._namespaces is not None:
            database, collection = event.database_name, event.collection_name
            name = self._namespaces(database if collection is None else f"{database}.{collection}")
            attributes["db.namespace"], _, rest = name.partition(".")
            if rest:
                attributes["db.collection.name"] = rest
        return attributes

    def connection_checked_out(self, event: events.ConnectionCheckedOutEvent) -> None:
        self._wait.record(event.duration, {_POOL: label_of(event.address)})

    def connection_check_out_failed(self, event: events.ConnectionCheckOutFailedEvent) -> None:
        if event.reason == events.ConnectionCheckOutFailedReason.TIMEOUT:
            self._timeouts.add(1, {_POOL: label_of(event.address)})

    def connection_ready(self, event: events.ConnectionReadyEvent) -> None:
        self._create.record(event.duration, {_POOL: label_of(event.address)})

    # --- observed ---

    def _observe_pools(self, meter: Meter) -> None:
        def pools() -> Iterator[tuple[str, str, Any, int]]:
            for name, client, _ in self._clients.live():
                limit = client.options.max_pool_size
                for address, server in snapshot(client).servers.items():
                    yield name, label_of(address), server, limit

        def count(_: CallbackOptions) -> Iterator[Observation]:
            for name, pool, server, _limit in pools():
                for state, number in (("used", server.in_use), ("idle", server.idle)):
                    yield Observation(number, {_POOL: pool, _CLIENT: name, "db.client.connection.state": state})

        def pending(_: CallbackOptions) -> Iterator[Observation]:
            for name, pool, server, _limit in pools():
                yield Observation(server.waiting, {_POOL: pool, _CLIENT: name})

        def most(_: CallbackOptions) -> Iterator[Observation]:
            for name, pool, _server, limit in pools():
                if limit:
                    yield Observation(limit, {_POOL: pool, _CLIENT: name})

        made: tuple[tuple[str, Callable[[CallbackOptions], Iterable[Observation]], str, str], ...] = (
            ("count", count, "{connection}", "Connections in the state that the attribute describes."),
            ("pending_requests", pending, "{request}", "Operations that wait for an open connection."),
            ("max", most, "{connection}", "The maximum number of connections."),
        )
        for name, callback, unit, meaning in made:
            meter.create_observable_up_down_counter(f"db.client.connection.{name}", [callback], unit, meaning)

    def _observe_metric(self, meter: Meter, metric: Metric) -> None:
        def callback(_: CallbackOptions) -> Iterator[Observation]:
            names = [f"{_PREFIX}{label}" for label in metric.labels]
            for name, client, _own in self._clients.live():
                for reading in readings(snapshot(client)):
                    if reading.name == metric.name and not isinstance(reading.value, Durations):
                        labels = dict(zip(names, reading.labels, strict=True))
                        yield Observation(reading.value, {_CLIENT: name, **labels})

        create = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        create(metric.opentelemetry_name, [callback], _UNITS[metric.unit], metric.meaning)


def _histogram(meter: Meter, name: str, meaning: str) -> Any:
    return meter.create_histogram(name, "s", meaning, explicit_bucket_boundaries_advisory=_BOUNDS)
