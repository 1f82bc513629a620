"""Pure: makes a client's configuration from its connection string and keyword arguments."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from bson.codec_options import CodecOptions

from motorlite._base.hosts import DEFAULT_PORT
from motorlite._base.values import ByFields, format_address
from motorlite._options.rules import check_combination, deprecations, overload_policy
from motorlite._options.table import ALIASES, BY_NAME, OPTIONS, RENAMED, did_you_mean, value_of
from motorlite._options.uri import ParsedURI, hosts_alone, parse_txt_record, read_uri
from motorlite.errors import ConfigurationError, InvalidOptionType, InvalidOptionValue
from motorlite.monitoring import registered
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ServerMode, make_read_preference, read_pref_mode_from_name
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Address
    from motorlite._options.credentials import Credentials
    from motorlite._options.parts import SRV, PoolOptions, ProxyOptions, TLSOptions
    from motorlite._options.tracing import TracingOptions
    from motorlite._options.uri import Note
    from motorlite.driver_info import DriverInfo
    from motorlite.encryption_options import AutoEncryptionOpts
    from motorlite.overload.breaker import CircuitBreaker
    from motorlite.overload.concurrency import ConcurrencyLimit
    from motorlite.overload.rate_limit import RateLimit
    from motorlite.overload.wait_queue import WaitQueue
    from motorlite.retry import OverloadRetry, RetryBudget, RetryStrategy
    from motorlite.server_api import ServerApi

__all__ = [
    "ClientOptions",
    "client_options",
    "with_srv_records",
]


# What events about pools show, where it was set.
_OF_POOLS = ("maxPoolSize", "minPoolSize", "maxConnecting", "maxIdleTimeMS", "waitQueueTimeoutMS")
# Secrets sent unencrypted, by authentication mechanism.
_SENT_AS_IT_IS = {"PLAIN": "the password of PLAIN authentication", "MONGODB-OIDC": "the token of MONGODB-OIDC"}
# Setting one of the files turns TLS on; so does setting one of the switches to False (as in PyMongo).
_TLS_FILES = {
    "tlsCAFile": "ca_file",
    "tlsCertificateKeyFile": "certificate_key_file",
    "tlsCertificateKeyFilePassword": "certificate_key_file_password",
    "tlsCRLFile": "crl_file",
}
_TLS_SWITCHES = {
    "tlsAllowInvalidCertificates": "allow_invalid_certificates",
    "tlsAllowInvalidHostnames": "allow_invalid_hostnames",
    "tlsDisableOCSPEndpointCheck": "disable_ocsp_endpoint_check",
    "tlsDisableCertificateRevocationCheck": "disable_certificate_revocation_check",
}
# Under the same names as in CodecOptions.
_IN_CODEC_OPTIONS = (
    "document_class",
    "tz_aware",
    "unicode_decode_error_handler",
    "tzinfo",
    "type_registry",
    "datetime_conversion",
)
PILE_UP: Final = (
    "socketTimeoutMS ends only the client's wait: the server goes on with the operation, and retries pile up there. "
    "Set timeoutMS, which limits both, or defaultMaxTimeMS for the server, or killAbandoned"
)


# Python would compile a constructor with 53 parameters for a call that has keyword arguments only.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, eq=False, repr=False)
class ClientOptions(ByFields):
    """The configuration of a client. Times are in seconds; None means no limit unless stated otherwise.

    Attributes:
        seeds: The initial servers; empty until the SRV records are known.
        srv: For ``mongodb+srv://``, else None.
        database: The default database, or None.
        direct_connection: None: not set.
        max_pool_size: 0 means no limit.
        timeout: `timeoutMS`; None: not set, 0.0: set to no limit.
        default_max_time: `defaultMaxTimeMS`; None: not set, 0.0: set to no limit.
        default_max_time_namespace: Where the document with the default is looked for; None: nowhere.
        server_selection_timeout: 0.0: use only servers already known.
        tls: None for connections without TLS.
        credentials: None for no authentication.
        wait_queue: What becomes of operations that find all connections taken; None: they wait in an unbounded queue.
        scram_max_iterations: The maximum number of password hash iterations that a server may require; at least 4096.
        connect: Whether to connect before the first operation; None: not set.
        overload_policy: The preset, with `max_adaptive_retries`, ``retry_budget=False`` and
            `enable_overload_retargeting` applied where set.
        retry_budget: The budget from the options; None: the client makes its own, unless the policy has
            ``is_budgeted=False``.
        rate_limit: The limits by namespace; ``"*"`` is the whole client.
        server_selector: The application's own filter of suitable servers, applied before the latency window, but not
            to a direct connection, a load balancer or the server of a cursor. Its exceptions become the cause of a
            ConfigurationError.
        explicit: The documented names of the options that were set explicitly.
        refusals: The errors in TLS and authentication options of the connection string. If there are any, the client
            sends nothing and its operations raise.
    """

    seeds: tuple[Address, ...]
    srv: SRV | None
    database: str | None
    direct_connection: bool | None
    load_balanced: bool
    replica_set: str | None
    app_name: str | None
    driver_info: DriverInfo | None
    max_pool_size: int
    min_pool_size: int
    max_idle_time: float | None
    max_connecting: int
    wait_queue_timeout: float | None
    wait_queue: WaitQueue | None
    connect_timeout: float | None
    socket_timeout: float | None
    server_selection_timeout: float
    heartbeat_frequency: float
    local_threshold: float
    timeout: float | None
    default_max_time: float | None
    default_max_time_namespace: str | None
    kill_abandoned: bool
    server_monitoring_mode: Literal["auto", "stream", "poll"]
    retry_reads: bool
    retry_writes: bool
    max_adaptive_retries: int
    enable_overload_retargeting: bool
    tls: TLSOptions | None
    credentials: Credentials | None
    scram_max_iterations: int
    compressors: tuple[str, ...]
    zlib_compression_level: int
    read_concern: ReadConcern
    write_concern: WriteConcern
    read_preference: ServerMode
    codec_options: CodecOptions[Any]
    pause_garbage_collector: bool
    server_api: ServerApi | None
    event_listeners: tuple[Any, ...]
    tracing: TracingOptions | None
    auto_encryption_opts: AutoEncryptionOpts | None
    server_selector: Callable[[list[Any]], list[Any]] | None
    proxy: ProxyOptions | None
    connect: bool | None
    overload_policy: OverloadRetry
    circuit_breaker: CircuitBreaker | None
    rate_limit: Mapping[str, RateLimit] | None
    concurrency_limit: ConcurrencyLimit | None
    retry_strategy: RetryStrategy
    retry_budget: RetryBudget | None
    explicit: frozenset[str]
    refusals: tuple[str, ...] = ()

    def __init__(self, **values: Any) -> None:
        values = {"refusals": (), **values}
        wrong = sorted(values.keys() ^ self.__slots__)
        if wrong:
            raise TypeError(f"ClientOptions needs each of its fields, and no others: {', '.join(wrong)}")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def adaptive_retries(self) -> bool:
        """Deprecated: whether retries have a budget; use ``overload_policy.is_budgeted``."""
        warnings.warn("adaptive_retries is deprecated, use overload_policy.is_budgeted", DeprecationWarning, 2)
        return self.overload_policy.is_budgeted

    # --- under PyMongo's names ---

    @property
    def replica_set_name(self) -> str | None:
        """The same as `replica_set`."""
        return self.replica_set

    @property
    def local_threshold_ms(self) -> int:
        """`local_threshold` in milliseconds."""
        return round(self.local_threshold * 1000)

    @property
    def pool_options(self) -> PoolOptions:
        """The options of each connection pool."""
        from motorlite._options.parts import PoolOptions

        return PoolOptions(
            max_pool_size=self.max_pool_size,
            min_pool_size=self.min_pool_size,
            max_connecting=self.max_connecting,
            max_idle_time_seconds=self.max_idle_time,
            connect_timeout=self.connect_timeout,
            socket_timeout=self.socket_timeout,
            wait_queue_timeout=self.wait_queue_timeout,
            tls_allow_invalid_hostnames=self.tls is not None and self.tls.allow_invalid_hostnames,
            appname=self.app_name,
            driver=self.driver_info,
            server_api=self.server_api,
            load_balanced=self.load_balanced,
            non_default_options=given_to_pools(self),
        )


ClientOptions.__module__ = "motorlite.client_options"


def client_options(uri_or_hosts: str | Sequence[str] | None = None, /, **keyword_arguments: Any) -> ClientOptions:
    """Make the configuration from a connection string (or hosts) and keyword arguments.

    Keyword arguments have the names of connection string options, in any case, plus a few that take objects; `host` and
    `port` are PyMongo's. They override the connection string. Unknown options and invalid values in a connection string
    are ignored with a warning; in keyword arguments they raise. A client with an invalid TLS or authentication option
    in its connection string sends nothing: its operations raise ConfigurationError.

    Args:
        uri_or_hosts: A connection string, ``"host[:port],..."``, or a list of hosts. None means localhost.
        keyword_arguments: Options.

    Raises:
        InvalidURI: The connection string is malformed.
        ConfigurationError: A keyword argument is unknown or invalid (then also a TypeError or ValueError), or
            options conflict.
    """
    host = keyword_arguments.pop("host", None)
    if host is not None and uri_or_hosts is not None:
        raise ConfigurationError("the hosts are passed twice: as the first argument and as host")
    settings, notes = _hosts(uri_or_hosts if host is None else host, keyword_arguments.pop("port", None))
    for note in notes:
        # Warn first: an ignored option may explain a later conflict. The warning points at the constructor's caller.
        warnings.warn(note.text, note.category, stacklevel=3)
    for text in deprecations(keyword_arguments):
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    given = _keyword_options(keyword_arguments)
    if registered():
        given["event_listeners"] = (*registered(), *value_of("event_listeners", given))
    options = {**_without_overridden(settings.options, given), **given}
    refusals = {name: problem for name, problem in settings.refusals.items() if name not in given}
    return _build(replace(settings, options=options, refusals=refusals))


def shown_secret(options: ClientOptions) -> str | None:
    """Name the secret that the client would send in plaintext over a network, or return None."""
    if options.credentials is None or options.tls is not None:
        return None
    # Unix domain sockets are not a network. Hosts in SRV records are not known yet.
    if options.seeds and all(port is None for _, port in options.seeds):
        return None
    return _SENT_AS_IT_IS.get(options.credentials.mechanism or "")


def given_to_pools(options: ClientOptions) -> dict[str, int]:
    """Return the options of the pool that were set explicitly, by their documented names and in their units."""
    rows = [BY_NAME[name.lower()] for name in _OF_POOLS if name in options.explicit]
    given = [(row, getattr(options, row.field)) for row in rows]
    # None is no limit: 0 in milliseconds.
    return {row.name: round((value or 0) * 1000) if row.unit else value for row, value in given}


def may_pile_up(options: ClientOptions) -> bool:
    """Whether the client leaves operations that nothing ends on the server (`PILE_UP`)."""
    is_limited = options.timeout or options.default_max_time or options.default_max_time_namespace is not None
    return options.socket_timeout is not None and not is_limited and not options.kill_abandoned


def with_srv_records(options: ClientOptions, hosts: Sequence[Address], txt_record: str | None = None) -> ClientOptions:
    """Return the configuration after the DNS lookup of `options.srv`.

    The connection string and the keyword arguments override options of the TXT record. As in a connection string,
    invalid values in the record are ignored with a `UserWarning`.

    Args:
        options: From a ``mongodb+srv://`` connection string.
        hosts: The servers of the SRV records, already verified and at most `max_hosts`.
        txt_record: The strings of the TXT record, joined, or None.

    Raises:
        ConfigurationError: The TXT record is invalid, or the hosts or its options conflict with the other options.
    """
    if options.srv is None:
        raise ConfigurationError("only a mongodb+srv:// connection string has SRV records")
    settings = options.srv._settings
    found, notes = parse_txt_record(txt_record) if txt_record else ({}, [])
    for note in notes:
        text = f"TXT record of {options.srv.host_name}, a part of the connection string: {note.text}"
        warnings.warn(text, note.category, stacklevel=2)
    merged = {**found, **settings.options}
    return _build(replace(settings, hosts=tuple(hosts), options=merged))


def _hosts(uri_or_hosts: object, port: object) -> tuple[ParsedURI, list[Note]]:
    if port is None:
        port = DEFAULT_PORT
    if not isinstance(port, int) or isinstance(port, bool):
        raise InvalidOptionType(f"port must be an integer from 1 to 65535, not {port!r}")
    if not 0 < port <= 65535:
        raise InvalidOptionValue(f"port must be an integer from 1 to 65535, not {port!r}")
    if uri_or_hosts is None:
        uri_or_hosts = "localhost"
    texts = [uri_or_hosts] if isinstance(uri_or_hosts, str) else uri_or_hosts
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        # Without the value, which may contain a password.
        found = f"the type {type(uri_or_hosts).__name__}" if not isinstance(texts, list) or texts else "an empty list"
        wrong = [type(text).__name__ for text in texts if not isinstance(text, str)] if isinstance(texts, list) else []
        found = f"a list with the type {wrong[0]}" if wrong else found
        if isinstance(texts, tuple) and [type(each) for each in texts] == [str, int]:
            found = "a pair of host and port: pass them as two arguments"
        raise InvalidOptionType(
            f"the hosts must be a connection string, 'host[:port],...' or a list of hosts, not {found}"
        )
    if "://" not in "".join(texts):
        return ParsedURI(hosts_alone(",".join(texts), port)), []
    if len(texts) > 1:
        raise InvalidOptionValue("a list of hosts must not contain connection strings; name all hosts in one")
    parsed, notes = read_uri(texts[0], port)
    options = dict(parsed.options)
    if parsed.username is not None:
        options |= {"username": parsed.username, "password": parsed.password}
    return replace(parsed, options=options), notes


def _keyword_options(keyword_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check the keyword arguments and return them by their documented names."""
    options: dict[str, Any] = {}
    for given_name, value in keyword_arguments.items():
        lower = given_name.lower()
        option = BY_NAME.get(ALIASES.get(lower) or RENAMED.get(lower, lower))
        if option is None:
            raise ConfigurationError(f"unknown option {given_name!r}{did_you_mean(given_name)}")
        parsed = option.parse(value)
        if options.setdefault(option.name, parsed) != parsed:
            raise ConfigurationError(f"{option.name} is passed twice, under two spellings, with different values")
    return options


def _without_overridden(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection string's options without parts of an option that a keyword argument replaces as a whole."""
    gone: set[str] = set()
    if isinstance(given.get("readPreference"), ServerMode):
        gone = {"readPreferenceTags", "maxStalenessSeconds"}
    return {name: value for name, value in options.items() if name not in gone}


def _build(settings: ParsedURI) -> ClientOptions:
    """Apply the defaults. Fields of one option come from its row, the others are made here."""
    options = settings.options
    is_srv = settings.srv_host is not None
    check_combination(options, host_count=len(settings.hosts), is_srv=is_srv)
    get = options.get
    policy = overload_policy(options)
    return ClientOptions(
        **{option.field: option.setting(options) for option in OPTIONS if option.field},
        seeds=settings.hosts,
        srv=_srv(settings),
        database=settings.database,
        max_adaptive_retries=policy.max_retries,
        retry_budget=None if isinstance(get("retry_budget"), bool) else get("retry_budget"),
        enable_overload_retargeting=policy.retargets,
        tls=_tls(options, is_srv=is_srv),
        credentials=_credentials(settings.database, options),
        compressors=tuple(value_of("compressors", options)),
        read_concern=ReadConcern(get("readConcernLevel")),
        write_concern=WriteConcern(get("w"), get("wTimeoutMS"), get("journal"), get("fsync")),
        read_preference=_read_preference(options),
        codec_options=_codec_options(options),
        proxy=_proxy(options),
        overload_policy=policy,
        explicit=frozenset(options),
        refusals=tuple(settings.refusals.values()),
    )


def _credentials(database: str | None, options: Mapping[str, Any]) -> Credentials | None:
    username, password = options.get("username"), options.get("password")
    if username is None and password is None and options.get("authMechanism") is None:
        return None
    from motorlite._options.credentials import build_credentials

    return build_credentials(username, password, database, options)


def _srv(settings: ParsedURI) -> SRV | None:
    if settings.srv_host is None:
        return None
    from motorlite._options.parts import SRV

    return SRV(
        settings.srv_host,
        value_of("srvServiceName", settings.options),
        value_of("srvMaxHosts", settings.options),
        settings.options.get("srv_host_validator"),
        settings,
    )


def _tls(options: Mapping[str, Any], *, is_srv: bool) -> TLSOptions | None:
    """Return the TLS options. TLS is on with `tls`, with mongodb+srv, and with options that are useless without it."""
    implied = [name for name in _TLS_FILES if options.get(name)]
    implied += [name for name in ("tlsInsecure", *_TLS_SWITCHES) if options.get(name) is False]
    is_on = options.get("tls", is_srv or bool(implied))
    if implied and not is_on:
        raise ConfigurationError(f"{' and '.join(implied)} cannot be combined with tls=False")
    if not is_on:
        return None
    from motorlite._options.parts import TLSOptions

    is_insecure = value_of("tlsInsecure", options)
    arguments: dict[str, Any] = {field: options.get(name) for name, field in _TLS_FILES.items()}
    arguments |= {field: options.get(name, is_insecure) for name, field in _TLS_SWITCHES.items()}
    return TLSOptions(**arguments)


def _proxy(options: Mapping[str, Any]) -> ProxyOptions | None:
    host = options.get("proxyHost")
    if host is None:
        return None
    from motorlite._options.parts import ProxyOptions

    return ProxyOptions(
        host, value_of("proxyPort", options), options.get("proxyUsername"), options.get("proxyPassword")
    )


def _read_preference(options: Mapping[str, Any]) -> ServerMode:
    preference = value_of("readPreference", options)
    tags, max_staleness = options.get("readPreferenceTags"), value_of("maxStalenessSeconds", options)
    if not isinstance(preference, ServerMode):
        return make_read_preference(read_pref_mode_from_name(preference), tags, max_staleness)
    if tags is not None or max_staleness != value_of("maxStalenessSeconds", {}):
        raise ConfigurationError(
            f"readPreference={preference!r} has its own tag sets and max_staleness: it cannot be combined "
            "with readPreferenceTags or maxStalenessSeconds"
        )
    return preference


def _codec_options(options: Mapping[str, Any]) -> CodecOptions[Any]:
    arguments = {name: value_of(name, options) for name in _IN_CODEC_OPTIONS}
    arguments["uuid_representation"] = value_of("uuidRepresentation", options)
    try:
        return CodecOptions(**{name: value for name, value in arguments.items() if value is not None})
    except TypeError as error:
        raise InvalidOptionType(_with_value(str(error), arguments)) from None
    except ValueError as error:
        raise InvalidOptionValue(_with_value(str(error), arguments)) from None


def _with_value(text: str, arguments: Mapping[str, Any]) -> str:
    """Add the value to a message of `bson`, which begins with the name of the option but does not always have it."""
    name = text.partition(" ")[0]
    return text if name not in arguments or ", not " in text else f"{text}, not {arguments[name]!r}"


# A client's configuration in its repr: the options that were set, without secrets.


def shown(options: ClientOptions) -> str:
    """Return the arguments of a constructor: the hosts, and the simple options that were set; ``...`` for others."""
    seeds = options.srv.host_name if options.srv else ",".join(map(format_address, options.seeds))
    parts = [repr(f"mongodb+srv://{seeds}" if options.srv else seeds)]
    has_others = False
    for name in sorted(options.explicit):
        option = BY_NAME[name.lower()]
        value = getattr(options, option.field) if option.field and not option.is_secret else None
        if not isinstance(value, bool | int | float | str):
            has_others = True
            continue
        parts.append(f"{name}={value * 1000:.15g}" if option.unit == "ms" else f"{name}={value!r}")
    return ", ".join([*parts, "..."] if has_others else parts)
