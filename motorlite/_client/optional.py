"""Shell: the parts that most clients do not use. Each is imported with the first client that has it.

`import motorlite` thus loads neither TLS, compression, authentication, DNS nor tracing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._client.dependencies import Dependencies
    from motorlite._client.limits import Limits
    from motorlite._connection.authenticate import Authenticator
    from motorlite._execution.encrypting import Encryption
    from motorlite._net.runtime import Host, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.options import ClientOptions
    from motorlite._wire.compression import Compressor
    from motorlite.monitoring import CircuitBreakerEvent

_EXPORTER: Final = "motorlite.exporters.opentelemetry._tracing:tracing_listeners"
_ENCRYPTION: Final = "motorlite._encryption.automatic:AutomaticEncryption"
_MISSING: Final = "tracing needs the package opentelemetry-api: pip install 'motorlite[opentelemetry]'"


def check_credentials(options: ClientOptions) -> None:
    """Raise ConfigurationError if the credentials are for a mechanism that is not supported, or lacks its package."""
    if options.credentials is None:
        return
    from motorlite._connection.auth.mechanisms import check_mechanism

    check_mechanism(options.credentials)
    if options.credentials.mechanism == "GSSAPI":
        from motorlite._net import kerberos

        kerberos.require()


def tls_context(options: ClientOptions) -> TLSContext | None:
    """Return the context of the client's connections; None without TLS.

    Raises:
        ConfigurationError: A file cannot be read or has the wrong content.
    """
    if options.tls is None:
        return None
    from motorlite._net.tls import make_context

    return make_context(options.tls)


def encryption(options: ClientOptions, world: Dependencies) -> Encryption | None:
    """Return what encrypts the client's commands and decrypts their replies; None without `auto_encryption_opts`.

    Raises:
        ConfigurationError: The library for it is not installed.
        EncryptionError: It refuses the options.
    """
    if options.auto_encryption_opts is None:
        return None
    from pkgutil import resolve_name

    # It has clients of its own, so it stands above the client, as a plug-in.
    encryption: Encryption = resolve_name(_ENCRYPTION)(options, world)
    return encryption


def compressors(options: ClientOptions) -> tuple[Compressor, ...]:
    """Return the client's compressors. Warns of those whose library is not installed."""
    if not options.compressors:
        return ()
    import motorlite._connection.compressed_stream  # noqa: F401  # connections need it, perhaps without a free file
    from motorlite._wire.compression import make_compressors

    found, missing = make_compressors(options.compressors, options.zlib_compression_level)
    for name in missing:
        # Points at the caller of the client's constructor, two calls above this function's caller.
        warnings.warn(f"compressor {name!r} is ignored: it needs motorlite[{name}]", stacklevel=4)
    return found


def prepare_kills(options: ClientOptions) -> None:
    """Import what kills abandoned operations, if the client does that: the first operation must not fail for it."""
    if options.kill_abandoned:
        import motorlite._client.abandoned_operations  # noqa: F401


def tracing_listeners(options: ClientOptions, environment: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the listeners that trace the client; none without tracing. `environment`: the variables that are set.

    Raises:
        ConfigurationError: The options enable tracing, and OpenTelemetry is not installed. (A warning, if the
            environment enables it.)
    """
    if options.tracing is None and not environment:
        return ()
    from importlib.util import find_spec
    from pkgutil import resolve_name

    from motorlite._options.tracing import TracingOptions

    effective = (options.tracing or TracingOptions()).with_environment(environment)
    if not effective.enabled:
        return ()
    if find_spec("opentelemetry") is None:
        if options.tracing is not None and options.tracing.enabled:
            raise ConfigurationError(_MISSING)
        warnings.warn(_MISSING, stacklevel=4)
        return ()
    # The exporter stands above the driver, which therefore does not import it: it is a plug-in, named here, and loaded
    # for clients that trace. It hears the client's events like any listener.
    listeners: tuple[Any, ...] = resolve_name(_EXPORTER)(effective)
    return listeners


def limits(options: ClientOptions, publish: Callable[[CircuitBreakerEvent], None] | None) -> Limits | None:
    """Return rate limits, breakers and concurrency limits of the client; None if none is configured."""
    if not (options.rate_limit or options.circuit_breaker or options.concurrency_limit):
        return None
    from motorlite._client.limits import Limits

    return Limits(options, publish)


def authenticator(options: ClientOptions, world: Dependencies, runtime: Runtime, host: Host) -> Authenticator | None:
    """Return what authenticates the client's connections; None without credentials."""
    if options.credentials is None:
        return None
    from motorlite._connection.authenticate import Authenticator

    return Authenticator(
        options.credentials,
        world.nonce,
        runtime=runtime,
        host=host,
        http=world.http(runtime),
        server_api=options.server_api,
        connect_timeout=options.connect_timeout or 0.0,
        max_iterations=options.scram_max_iterations,
        date=world.date,
    )
