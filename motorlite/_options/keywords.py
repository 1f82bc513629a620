"""Pure: the types of a client's options as keyword arguments, for type checkers. The rows of `table` check the values.

A test compares both (tests/unit/_options/test_table.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

    from bson.codec_options import DatetimeConversion

    from motorlite._options.tracing import TracingOptions
    from motorlite.driver_info import DriverInfo
    from motorlite.encryption_options import AutoEncryptionOpts
    from motorlite.overload.breaker import CircuitBreaker
    from motorlite.overload.concurrency import ConcurrencyLimit
    from motorlite.overload.rate_limit import RateLimit
    from motorlite.overload.wait_queue import WaitQueue
    from motorlite.read_preferences import ServerMode
    from motorlite.retry import OverloadRetry, RetryBudget, RetryStrategy
    from motorlite.server_api import ServerApi

__all__ = ["ClientKeywords"]


class ClientKeywords(TypedDict, total=False):
    """The options of `AsyncMongoClient` as keyword arguments; docs/options.md describes them.

    For functions that pass them on: ``def connect(**options: Unpack[ClientKeywords])``. Type checkers accept each
    option under its own name and its aliases, the client itself also in any case.
    """

    # Overload
    maxAdaptiveRetries: int
    max_adaptive_retries: int
    retryBudget: RetryBudget | float | bool | str | None
    retry_budget: RetryBudget | float | bool | str | None
    adaptiveRetries: RetryBudget | float | bool | str | None
    adaptive_retries: RetryBudget | float | bool | str | None
    enableOverloadRetargeting: bool
    enable_overload_retargeting: bool
    overload_policy: OverloadRetry | None
    retryStrategy: RetryStrategy | str | None
    retry_strategy: RetryStrategy | str | None
    circuitBreaker: CircuitBreaker | bool | str | None
    circuit_breaker: CircuitBreaker | bool | str | None
    rateLimit: RateLimit | float | str | Mapping[str, RateLimit | float | str] | None
    rate_limit: RateLimit | float | str | Mapping[str, RateLimit | float | str] | None
    concurrencyLimit: ConcurrencyLimit | bool | str | None
    concurrency_limit: ConcurrencyLimit | bool | str | None
    waitQueue: WaitQueue | str | None
    wait_queue: WaitQueue | str | None
    # Time limits
    timeoutMS: float | None
    connectTimeoutMS: float | None
    socketTimeoutMS: float | None
    serverSelectionTimeoutMS: float
    waitQueueTimeoutMS: float | None
    defaultMaxTimeMS: float | None
    default_max_time_ms: float | None
    defaultMaxTimeNamespace: str | None
    default_max_time_namespace: str | None
    killAbandoned: bool
    kill_abandoned: bool
    # Connection pools
    maxPoolSize: int | None
    minPoolSize: int
    maxConnecting: int
    maxIdleTimeMS: float | None
    # Servers
    directConnection: bool
    loadBalanced: bool
    replicaSet: str | None
    srvMaxHosts: int
    srvServiceName: str
    srv_host_validator: Callable[[str], bool] | None
    serverMonitoringMode: Literal["auto", "stream", "poll"]
    heartbeatFrequencyMS: float
    localThresholdMS: float
    server_selector: Callable[[list[Any]], list[Any]] | None
    # Reads and writes
    retryReads: bool
    retryWrites: bool
    readConcernLevel: str | None
    readPreference: ServerMode | Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]
    read_preference: ServerMode | Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]
    readPreferenceTags: str | Mapping[str, str] | Sequence[str | Mapping[str, str]]
    maxStalenessSeconds: int
    w: int | str | None
    wTimeoutMS: int | None
    journal: bool | None
    fsync: bool | None
    # Authentication
    username: str | None
    password: str | None
    authMechanism: Literal[
        "DEFAULT", "GSSAPI", "MONGODB-AWS", "MONGODB-OIDC", "MONGODB-X509", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256"
    ]
    authMechanismProperties: str | Mapping[str, Any]
    authSource: str | None
    scramMaxIterations: int
    # TLS
    tls: bool
    ssl: bool
    tlsInsecure: bool
    tlsAllowInvalidCertificates: bool
    tlsAllowInvalidHostnames: bool
    tlsDisableOCSPEndpointCheck: bool
    tlsDisableCertificateRevocationCheck: bool
    tlsCAFile: str | None
    tlsCertificateKeyFile: str | None
    tlsCertificateKeyFilePassword: str | None
    tlsCRLFile: str | None
    # Proxy
    proxyHost: str | None
    proxyPort: int | None
    proxyUsername: str | None
    proxyPassword: str | None
    # Messages
    appname: str | None
    driver: DriverInfo | None
    server_api: ServerApi | None
    compressors: str | Sequence[str]
    zlibCompressionLevel: int
    # Documents
    tzinfo: datetime.tzinfo | None
    unicode_decode_error_handler: Literal["strict", "replace", "ignore"]
    uuidRepresentation: Literal["unspecified", "standard", "pythonLegacy", "javaLegacy", "csharpLegacy"]
    datetime_conversion: (
        DatetimeConversion | Literal["DATETIME", "DATETIME_CLAMP", "DATETIME_MS", "DATETIME_AUTO"] | None
    )
    pauseGarbageCollector: bool
    pause_garbage_collector: bool
    # The client
    event_listeners: Sequence[Any] | None
    auto_encryption_opts: AutoEncryptionOpts | None
    tracing: TracingOptions | Mapping[str, Any] | None


# Its public module; the body of a TypedDict cannot say it.
ClientKeywords.__module__ = "motorlite.client_options"
