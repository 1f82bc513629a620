"""Shell: finds the exporter that traces a client's operations.

The exporter stands above the driver, which therefore does not import it: it is a plug-in, named here, and loaded for
clients that trace. It hears the client's events like any listener.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from motorlite._options.tracing import TracingOptions
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXPORTER: Final = "motorlite.exporters.opentelemetry._tracing:tracing_listeners"
_MISSING: Final = "tracing needs the package opentelemetry-api: pip install 'motorlite[opentelemetry]'"


def tracing_listeners(options: TracingOptions | None, environment: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the listeners that trace the client; none without tracing.

    Raises:
        ConfigurationError: The options enable tracing, and OpenTelemetry is not installed. (A warning, if the
            environment enables it.)
    """
    effective = (options or TracingOptions()).with_environment(environment)
    if not effective.enabled:
        return ()
    if find_spec("opentelemetry") is None:
        if options is not None and options.enabled:
            raise ConfigurationError(_MISSING)
        warnings.warn(_MISSING, stacklevel=5)
        return ()
    make: Callable[[TracingOptions], tuple[Any, ...]] = resolve_name(_EXPORTER)
    return make(effective)
