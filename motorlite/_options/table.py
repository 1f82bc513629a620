"""Pure: one row per client option, also for a new one (URI options specification and motorlite's own).

Connection strings, layers that need a default, and docs/options.md read the rows. An option also needs a field in
`ClientOptions` (`options`) and a key in `ClientKeywords` (`keywords`); tests compare both with the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion, TypeRegistry

from motorlite._options.mechanisms import RULES
from motorlite._options.overload import OVERLOAD
from motorlite._options.row import (
    COMPRESSORS,
    MAX_APP_NAME_BYTES,
    MAX_PROXY_CREDENTIAL_BYTES,
    Option,
    Values,
    any_text,
    app_name,
    auto_encryption,
    boolean,
    compressors,
    event_listeners,
    function,
    instance_of,
    integer,
    keyword_option,
    max_staleness,
    mechanism_properties,
    milliseconds,
    namespace,
    one_of,
    proxy_credential,
    read_preference,
    read_preference_tags,
    service_name,
    suggestion,
    text,
    write_concern_w,
)
from motorlite.driver_info import as_driver_info
from motorlite.monitoring import LISTENERS
from motorlite.read_preferences import MODES
from motorlite.server_api import as_server_api

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._options.tracing import TracingOptions

MECHANISMS: Final = ("DEFAULT", *sorted(set(RULES) - {"SCRAM"}))

UUID_REPRESENTATIONS: Final = {
    "unspecified": UuidRepresentation.UNSPECIFIED,
    "standard": UuidRepresentation.STANDARD,
    "pythonLegacy": UuidRepresentation.PYTHON_LEGACY,
    "javaLegacy": UuidRepresentation.JAVA_LEGACY,
    "csharpLegacy": UuidRepresentation.CSHARP_LEGACY,
}

_MAX_INT64 = 2**63 - 1


def _words(words: Iterable[str]) -> str:
    return "one of " + ", ".join(repr(word) for word in words)


def _choice(*words: str) -> Values:
    return Values(one_of(*words), _words(words))


def _uuid_representation(value: object) -> int:
    name: str = one_of(*UUID_REPRESENTATIONS)(value)
    return UUID_REPRESENTATIONS[name]


def _datetime_conversion(value: object) -> DatetimeConversion:
    if isinstance(value, str) and value in DatetimeConversion.__members__:
        return DatetimeConversion[value]
    number: int = integer(1, len(DatetimeConversion))(value)
    return DatetimeConversion(number)


def _tracing(value: object) -> TracingOptions:
    # Imported with the first client that has the option.
    from motorlite._options.tracing import tracing_options

    return tracing_options(value)


_BOOLEAN = Values(boolean, "True or False")
_TEXT = Values(text, "a string that is not empty")
_NUMBER = Values(integer(0), "a non-negative integer")
_MOST = Values(integer(0), "a non-negative integer (0 means no limit)")
_TIME = Values(milliseconds(0), "a non-negative number of milliseconds")
_LIMIT = Values(milliseconds(0), "a non-negative number of milliseconds (0 means no limit)")
_PROXY_CREDENTIAL = Values(proxy_credential, f"a string of at most {MAX_PROXY_CREDENTIAL_BYTES} bytes")


def _text(name: str, meaning: str, field: str = "", *, is_secret: bool = False) -> Option:
    return Option(name, _TEXT, meaning, None, field, if_none="default", is_secret=is_secret)


def _limit(name: str, meaning: str, default: int | None, field: str) -> Option:
    return Option(name, _LIMIT, meaning, default, field, "ms", "no limit")


SECTIONS: Final[Mapping[str, tuple[Option, ...]]] = {
    "Overload": OVERLOAD,
    "Time limits": (
        Option("timeoutMS", _LIMIT, "For an operation with all its retries.", None, "timeout", "ms", if_none="default"),
        _limit("connectTimeoutMS", "For establishing a connection.", 20_000, "connect_timeout"),
        _limit("socketTimeoutMS", "For a request and its reply.", None, "socket_timeout"),
        Option(
            "serverSelectionTimeoutMS",
            Values(milliseconds(0), "a non-negative number of milliseconds (0 means: only servers already known)"),
            "For finding a suitable server.",
            30_000,
            "server_selection_timeout",
            "ms",
        ),
        _limit("waitQueueTimeoutMS", "For getting a connection from the pool.", None, "wait_queue_timeout"),
        Option(
            "defaultMaxTimeMS",
            _LIMIT,
            "For the server, with each command of an operation that sets neither maxTimeMS nor a timeout.",
            None,
            "default_max_time",
            "ms",
            "default",
            aliases=("default_max_time_ms",),
        ),
        Option(
            "defaultMaxTimeNamespace",
            Values(namespace, 'the name of a collection (such as "database.collection")'),
            'Where to look for the document `{_id: "maxTimeMS", value: N}`, which replaces `defaultMaxTimeMS`.',
            None,
            "default_max_time_namespace",
            if_none="default",
            aliases=("default_max_time_namespace",),
        ),
        Option(
            "killAbandoned",
            _BOOLEAN,
            "Whether an operation that was cancelled or timed out, and has no limit on the server, is killed there.",
            False,
            "kill_abandoned",
            aliases=("kill_abandoned",),
        ),
    ),
    "Connection pools": (
        Option(
            "maxPoolSize",
            _MOST,
            "The maximum number of connections to each server.",
            100,
            "max_pool_size",
            if_none="no limit",
        ),
        Option("minPoolSize", _NUMBER, "The minimum number of connections to each server.", 0, "min_pool_size"),
        Option(
            "maxConnecting",
            Values(integer(1), "a positive integer"),
            "The maximum number of connections to each server that are established at the same time.",
            2,
            "max_connecting",
        ),
        _limit("maxIdleTimeMS", "Connections that were idle for longer are closed.", None, "max_idle_time"),
    ),
    "Servers": (
        Option(
            "directConnection",
            _BOOLEAN,
            "Use the server in the connection string, whatever its type, and discover no others.",
            None,
            "direct_connection",
        ),
        Option("loadBalanced", _BOOLEAN, "The connection string names a load balancer.", False, "load_balanced"),
        _text("replicaSet", "Use only members of this replica set.", "replica_set"),
        Option("srvMaxHosts", _MOST, "Hosts of the SRV records to use, at most; a random choice.", 0),
        Option(
            "srvServiceName",
            Values(service_name, "at most 62 letters, digits and single hyphens"),
            "The service in the lookup of SRV records.",
            "mongodb",
        ),
        keyword_option(
            "srv_host_validator",
            Values(function, "a function of a host name that returns True or False"),
            "Decides whether a host of the SRV records may be used; by default, hosts below the domain of the "
            "connection string may.",
            None,
        ),
        Option(
            "serverMonitoringMode",
            _choice("auto", "stream", "poll"),
            "Whether servers report changes at once. auto: except in function-as-a-service environments.",
            "auto",
            "server_monitoring_mode",
        ),
        Option(
            "heartbeatFrequencyMS",
            Values(milliseconds(500), "a number of milliseconds of at least 500"),
            "The time between two checks of a server.",
            10_000,
            "heartbeat_frequency",
            "ms",
        ),
        Option(
            "localThresholdMS",
            _TIME,
            "The latency window: how much slower than the fastest suitable server others may be to be used.",
            15,
            "local_threshold",
            "ms",
        ),
        keyword_option(
            "server_selector",
            Values(function, "a function of a list of server descriptions"),
            "Takes the servers that are suitable for an operation, and returns those that it may use.",
            None,
            "server_selector",
        ),
    ),
    "Reads and writes": (
        Option("retryReads", _BOOLEAN, "Whether reads are retried.", True, "retry_reads"),
        Option(
            "retryWrites",
            _BOOLEAN,
            "Whether writes are retried. `command()` is retried only if both are on.",
            True,
            "retry_writes",
        ),
        _text("readConcernLevel", "The isolation level that reads ask for."),
        Option(
            "readPreference",
            Values(read_preference, f"a read preference or {_words(MODES)}"),
            "The servers to read from.",
            "primary",
            aliases=("read_preference",),
        ),
        Option(
            "readPreferenceTags",
            Values(
                read_preference_tags, "name:value pairs separated by commas, or a list of such strings or of mappings"
            ),
            "Tag sets of the servers to read from, in order of preference; a connection string repeats the option.",
        ),
        Option(
            "maxStalenessSeconds",
            Values(max_staleness, "a positive number of seconds, or -1 for no limit"),
            "How far a secondary may lag behind to be read from.",
            -1,
            unit="s",
        ),
        Option(
            "w",
            Values(write_concern_w, "a non-negative integer or a string"),
            "How many members acknowledge a write, `majority`, or the name of a rule of the replica set.",
            if_none="default",
        ),
        Option(
            "wTimeoutMS",
            Values(integer(0, _MAX_INT64), "a non-negative integer (0 means no limit)"),
            "Time limit of that acknowledgement on the server.",
            unit="ms",
            if_none="default",
            former=("wtimeout",),
        ),
        Option("journal", _BOOLEAN, "Whether writes wait for the journal on disk.", if_none="default", former=("j",)),
        Option("fsync", _BOOLEAN, "Whether writes wait for the data files on disk.", if_none="default"),
    ),
    "Authentication": (
        keyword_option("username", _TEXT, "In a connection string, it precedes the hosts."),
        keyword_option(
            "password", Values(any_text, "a string"), "In a connection string, it precedes the hosts.", is_secret=True
        ),
        Option("authMechanism", _choice(*MECHANISMS), "By default, client and server agree on a SCRAM mechanism."),
        Option(
            "authMechanismProperties",
            Values(
                mechanism_properties,
                "NAME:value pairs separated by commas, or a mapping (with names that the mechanism supports)",
            ),
            "Further settings of the mechanism.",
            is_secret=True,
        ),
        _text(
            "authSource",
            "The database that defines the user. By default that of the connection string, or the mechanism's.",
        ),
        Option(
            "scramMaxIterations",
            Values(integer(4096), "an integer of at least 4096"),
            "The maximum number of password hash iterations that a server may require.",
            # Servers require 10,000 or 15,000 by default; a million iterations keep a thread busy for about a second.
            1_000_000,
            "scram_max_iterations",
        ),
    ),
    "TLS": (
        Option(
            "tls",
            _BOOLEAN,
            "Whether to use TLS. By default with mongodb+srv:// and with options that are useless without it.",
            aliases=("ssl",),
        ),
        Option("tlsInsecure", _BOOLEAN, "The default of the next four options.", False),
        Option("tlsAllowInvalidCertificates", _BOOLEAN, "Accept any certificate."),
        Option("tlsAllowInvalidHostnames", _BOOLEAN, "Accept a certificate of another host."),
        Option("tlsDisableOCSPEndpointCheck", _BOOLEAN, "No effect: OCSP endpoints are never queried."),
        Option("tlsDisableCertificateRevocationCheck", _BOOLEAN, "No effect: only tlsCRLFile is checked."),
        _text("tlsCAFile", "The trusted authorities. By default the system's."),
        _text("tlsCertificateKeyFile", "The client's certificate and private key."),
        _text("tlsCertificateKeyFilePassword", "The password of an encrypted private key.", is_secret=True),
        _text("tlsCRLFile", "A list of revoked certificates."),
    ),
    "Proxy": (
        _text("proxyHost", "A SOCKS5 proxy for all connections to MongoDB. The proxy resolves the servers' names."),
        Option(
            "proxyPort",
            Values(integer(1, 65535), "an integer from 1 to 65535"),
            "The port of the proxy.",
            1080,
            if_none="default",
        ),
        Option(
            "proxyUsername",
            _PROXY_CREDENTIAL,
            "For a proxy that requires credentials.",
            if_none="default",
            is_secret=True,
        ),
        Option("proxyPassword", _PROXY_CREDENTIAL, "Goes with proxyUsername.", if_none="default", is_secret=True),
    ),
    "Messages": (
        Option(
            "appname",
            Values(app_name, f"a string of 1 to {MAX_APP_NAME_BYTES} bytes"),
            "Shown in the server's log and profile.",
            None,
            "app_name",
            if_none="default",
        ),
        keyword_option(
            "driver",
            Values(as_driver_info, "a DriverInfo"),
            "The library on top of the driver, for the server's log.",
            None,
            "driver_info",
        ),
        keyword_option(
            "server_api",
            Values(as_server_api, "a ServerApi"),
            "The Stable API that commands ask for.",
            None,
            "server_api",
        ),
        Option(
            "compressors",
            Values(compressors, f"{_words(COMPRESSORS)}, or several of them (a list, or names separated by commas)"),
            "In order of preference; the server makes the final choice.",
            (),
        ),
        Option(
            "zlibCompressionLevel",
            Values(integer(-1, 9), "an integer from -1 to 9"),
            "0 (none), or 1 (fastest) to 9 (smallest); -1 is zlib's default.",
            -1,
            "zlib_compression_level",
        ),
    ),
    "Documents": (
        keyword_option(
            "document_class", Values(lambda value: value, "a class"), "The class of decoded documents.", dict
        ),
        Option("tz_aware", _BOOLEAN, "Whether decoded times have a time zone.", False, if_none="default"),
        keyword_option(
            "tzinfo",
            Values(lambda value: value, "a datetime.tzinfo"),
            "The time zone of decoded times; needs tz_aware. By default UTC.",
        ),
        Option(
            "unicode_decode_error_handler",
            _choice("strict", "replace", "ignore"),
            "For text that is not UTF-8.",
            "strict",
        ),
        Option(
            "uuidRepresentation",
            Values(_uuid_representation, _words(UUID_REPRESENTATIONS)),
            "How UUIDs are encoded and decoded.",
            "unspecified",
        ),
        Option(
            "datetime_conversion",
            Values(
                _datetime_conversion,
                f"a bson.codec_options.DatetimeConversion or {_words(DatetimeConversion.__members__)}",
            ),
            "How times are decoded.",
            "DATETIME",
            if_none="default",
        ),
        keyword_option(
            "type_registry",
            Values(instance_of(TypeRegistry), "a bson.codec_options.TypeRegistry"),
            "Encoders and decoders of custom types.",
        ),
        Option(
            "pauseGarbageCollector",
            _BOOLEAN,
            "Whether decoding a large reply pauses the cyclic garbage collector; see "
            "[The garbage collector](performance.md#the-garbage-collector).",
            True,
            "pause_garbage_collector",
            aliases=("pause_garbage_collector",),
        ),
    ),
    "The client": (
        Option("connect", _BOOLEAN, "Without effect: see aconnect().", None, "connect", if_none="default"),
        keyword_option(
            "event_listeners",
            Values(
                event_listeners(LISTENERS),
                f"a list of listeners (instances of subclasses of {', '.join(kind.__name__ for kind in LISTENERS)})",
            ),
            "Receive the client's events.",
            (),
            "event_listeners",
        ),
        keyword_option(
            "auto_encryption_opts",
            Values(auto_encryption, "a motorlite.encryption_options.AutoEncryptionOpts"),
            "Encrypt and decrypt fields in the client; see [Encryption](encryption.md).",
            None,
            "auto_encryption_opts",
        ),
        keyword_option(
            "tracing",
            Values(
                _tracing,
                "a mapping with any of `enabled` (True or False), `query_text_max_length` (a non-negative integer), "
                "`phases` (True or False), `with_transaction` (True or False), `tracer_provider`",
            ),
            "Trace operations and commands with OpenTelemetry; see [Traces](metrics.md#traces).",
            None,
            "tracing",
        ),
    ),
}
"""The rows by section of the documentation."""

OPTIONS: Final = tuple(option for section in SECTIONS.values() for option in section)

BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
"""The options by their names in lower case."""

ALIASES: Final = {alias.lower(): name for name, option in BY_NAME.items() for alias in option.aliases}
"""Further names and the documented ones, in lower case."""

RENAMED: Final = {renamed.lower(): name for name, option in BY_NAME.items() for renamed in option.renamed}
"""Former names in connection strings and of keyword arguments, in lower case, and their replacements."""

DEPRECATED: Final = {former: name for name, option in BY_NAME.items() for former in option.former} | RENAMED
"""Former names in connection strings, in lower case, and their replacements."""


def value_of(name: str, options: Mapping[str, Any]) -> Any:
    """Return the option `name`, or its default, in its normal form and its own unit."""
    return BY_NAME[name.lower()].value(options)


def default_setting(name: str) -> Any:
    """Return the field of `ClientOptions` for the option `name` where it is not set."""
    return BY_NAME[name.lower()].setting({})


def did_you_mean(name: str) -> str:
    """Return a clause that suggests options with similar names, or an empty string."""
    if name.lower() in _FOREIGN:
        return f"; {_FOREIGN[name.lower()]}"
    return suggestion(name.lower().replace("_", ""), _COMPARABLE)


# Options of other drivers, and of earlier versions of PyMongo.
_FOREIGN: Final = {
    "ssl_ca_certs": "use tlsCAFile",
    "ssl_certfile": "use tlsCertificateKeyFile",
    "ssl_keyfile": "use tlsCertificateKeyFile, one file with certificate and key",
    "ssl_cert_reqs": "use tlsAllowInvalidCertificates",
    "ssl_match_hostname": "use tlsAllowInvalidHostnames",
    "ssl_crlfile": "use tlsCRLFile",
    "io_loop": "a client belongs to the event loop that runs at its first operation",
    "socketkeepalive": "it is always on",
}
_COMPARABLE: Final = {name.replace("_", ""): option.name for name, option in BY_NAME.items()}
