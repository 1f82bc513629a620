"""Pure: all client options by name, with their allowed values (URI options specification and motorlite's own)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion, TypeRegistry

from motorlite import monitoring
from motorlite._options.values import (
    COMPRESSORS,
    MAX_APP_NAME_BYTES,
    Unusable,
    any_text,
    app_name,
    boolean,
    compressors,
    event_listeners,
    function,
    instance_of,
    integer,
    max_staleness,
    mechanism_properties,
    milliseconds,
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
from motorlite.errors import ConfigurationError
from motorlite.read_preferences import MODES
from motorlite.retry import OverloadRetry
from motorlite.server_api import as_server_api

if TYPE_CHECKING:
    from motorlite._options.values import Parser

MECHANISMS: Final = (
    "DEFAULT",
    "GSSAPI",
    "MONGODB-AWS",
    "MONGODB-OIDC",
    "MONGODB-X509",
    "PLAIN",
    "SCRAM-SHA-1",
    "SCRAM-SHA-256",
)

UUID_REPRESENTATIONS: Final = {
    "unspecified": UuidRepresentation.UNSPECIFIED,
    "standard": UuidRepresentation.STANDARD,
    "pythonLegacy": UuidRepresentation.PYTHON_LEGACY,
    "javaLegacy": UuidRepresentation.JAVA_LEGACY,
    "csharpLegacy": UuidRepresentation.CSHARP_LEGACY,
}

_MAX_INT64 = 2**63 - 1
_LISTENERS = tuple(
    kind for name, kind in vars(monitoring).items() if isinstance(kind, type) and name.endswith("Listener")
)


class WrongOptionType(ConfigurationError, TypeError):
    """An option's value has the wrong type; also the TypeError that PyMongo raises."""


class WrongOptionValue(ConfigurationError, ValueError):
    """An option's value is out of range; also the ValueError that PyMongo raises."""


@dataclass(frozen=True, slots=True)
class Option:
    """A client option: its documented name, its parser, and a description of the allowed values."""

    name: str
    parser: Parser
    allowed: str
    is_in_uri: bool = True
    # Whether None is valid as a keyword argument: no limit, or not set.
    accepts_none: bool = False
    # Whether messages omit the value.
    is_secret: bool = False

    def parse(self, value: object) -> Any:
        """Return the value in its normal form.

        Raises:
            ConfigurationError: The value is not allowed (`WrongOptionType` or `WrongOptionValue` where a
                connection string only warns).
        """
        if value is None and self.accepts_none:
            return None
        try:
            return self.parser(value)
        except TypeError:
            raise WrongOptionType(self._problem(value)) from None
        except Unusable as error:
            raise WrongOptionValue(f"{self.name} {error}") from None
        except ValueError:
            raise WrongOptionValue(self._problem(value)) from None

    def _problem(self, value: object) -> str:
        shown = "the given value (not shown)" if self.is_secret else repr(value)
        return f"{self.name} must be {self.allowed}, not {shown}"


def _words(words: tuple[str, ...]) -> str:
    return "one of " + ", ".join(repr(word) for word in words)


def _choice(name: str, *words: str) -> Option:
    return Option(name, one_of(*words), _words(words))


def _boolean(name: str, *, is_in_uri: bool = True, accepts_none: bool = False) -> Option:
    return Option(name, boolean, "True or False", is_in_uri, accepts_none)


def _text(name: str, *, is_secret: bool = False) -> Option:
    return Option(name, text, "a string that is not empty", accepts_none=True, is_secret=is_secret)


def _uuid_representation(value: object) -> int:
    name: str = one_of(*UUID_REPRESENTATIONS)(value)
    return UUID_REPRESENTATIONS[name]


def _datetime_conversion(value: object) -> DatetimeConversion:
    if isinstance(value, str) and value in DatetimeConversion.__members__:
        return DatetimeConversion[value]
    number: int = integer(1, len(DatetimeConversion))(value)
    return DatetimeConversion(number)


_TIME = "a non-negative number of milliseconds; 0 means no limit"

_OPTIONS = (
    # Overload (client backpressure specification).
    Option("maxAdaptiveRetries", integer(0), "a non-negative integer"),
    _boolean("adaptiveRetries"),
    _boolean("enableOverloadRetargeting"),
    # Time.
    Option("timeoutMS", milliseconds(0), _TIME, accepts_none=True),
    Option("connectTimeoutMS", milliseconds(0), _TIME, accepts_none=True),
    Option("socketTimeoutMS", milliseconds(0), _TIME, accepts_none=True),
    Option("maxIdleTimeMS", milliseconds(0), _TIME, accepts_none=True),
    Option("waitQueueTimeoutMS", milliseconds(0), _TIME, accepts_none=True),
    Option(
        "serverSelectionTimeoutMS",
        milliseconds(0),
        "a non-negative number of milliseconds; 0 means to use only servers already known",
    ),
    Option("heartbeatFrequencyMS", milliseconds(500), "a number of milliseconds, at least 500"),
    Option("localThresholdMS", milliseconds(0), "a non-negative number of milliseconds"),
    # Pools.
    Option("maxPoolSize", integer(0), "a non-negative integer; 0 means no limit", accepts_none=True),
    Option("minPoolSize", integer(0), "a non-negative integer"),
    Option("maxConnecting", integer(1), "a positive integer"),
    # Deployment.
    _boolean("directConnection"),
    _boolean("loadBalanced"),
    _text("replicaSet"),
    Option("srvMaxHosts", integer(0), "a non-negative integer; 0 means no limit"),
    Option("srvServiceName", service_name, "letters, digits and single hyphens, at most 62 characters"),
    _choice("serverMonitoringMode", "auto", "stream", "poll"),
    # Operations.
    _boolean("retryReads"),
    _boolean("retryWrites"),
    _text("readConcernLevel"),
    Option("readPreference", read_preference, f"a read preference or {_words(MODES)}"),
    Option(
        "readPreferenceTags",
        read_preference_tags,
        "name:value pairs separated by commas, or a list of such strings or of mappings",
    ),
    Option("maxStalenessSeconds", max_staleness, "a positive number of seconds, or -1 for no limit"),
    Option("w", write_concern_w, "a non-negative integer or a string", accepts_none=True),
    Option(
        "wTimeoutMS",
        integer(0, _MAX_INT64),
        "a non-negative integer; 0 means no limit",
        accepts_none=True,
    ),
    _boolean("journal", accepts_none=True),
    _boolean("fsync", accepts_none=True),
    # Authentication.
    Option("authMechanism", one_of(*MECHANISMS), _words(MECHANISMS)),
    Option(
        "authMechanismProperties",
        mechanism_properties,
        "NAME:value pairs separated by commas, or a mapping, with names that the mechanism supports",
        is_secret=True,
    ),
    _text("authSource"),
    Option("scramMaxIterations", integer(4096), "an integer of at least 4096"),
    Option("username", text, "a string that is not empty", is_in_uri=False, accepts_none=True),
    Option("password", any_text, "a string", is_in_uri=False, accepts_none=True, is_secret=True),
    # TLS.
    _boolean("tls"),
    _boolean("tlsInsecure"),
    _boolean("tlsAllowInvalidCertificates"),
    _boolean("tlsAllowInvalidHostnames"),
    _boolean("tlsDisableOCSPEndpointCheck"),
    _boolean("tlsDisableCertificateRevocationCheck"),
    _text("tlsCAFile"),
    _text("tlsCertificateKeyFile"),
    _text("tlsCertificateKeyFilePassword", is_secret=True),
    _text("tlsCRLFile"),
    # SOCKS5.
    _text("proxyHost"),
    Option("proxyPort", integer(1, 65535), "an integer from 1 to 65535", accepts_none=True),
    *(
        Option(name, proxy_credential, "a string of at most 255 bytes", accepts_none=True, is_secret=True)
        for name in ("proxyUsername", "proxyPassword")
    ),
    # The wire.
    Option("appname", app_name, f"a string of 1 to {MAX_APP_NAME_BYTES} bytes", accepts_none=True),
    Option("compressors", compressors, f"a list of names, or names separated by commas, of {_words(COMPRESSORS)}"),
    Option("zlibCompressionLevel", integer(-1, 9), "an integer from -1 to 9"),
    # Documents.
    _boolean("tz_aware", accepts_none=True),
    _choice("unicode_decode_error_handler", "strict", "replace", "ignore"),
    Option("uuidRepresentation", _uuid_representation, _words(tuple(UUID_REPRESENTATIONS))),
    Option(
        "datetime_conversion",
        _datetime_conversion,
        f"a bson.codec_options.DatetimeConversion or {_words(tuple(DatetimeConversion.__members__))}",
        accepts_none=True,
    ),
    Option("document_class", lambda value: value, "a class", is_in_uri=False, accepts_none=True),
    Option(
        "type_registry",
        instance_of(TypeRegistry),
        "a bson.codec_options.TypeRegistry",
        is_in_uri=False,
        accepts_none=True,
    ),
    Option("tzinfo", lambda value: value, "a datetime.tzinfo", is_in_uri=False, accepts_none=True),
    # The client.
    _boolean("connect", accepts_none=True),
    Option("driver", as_driver_info, "a DriverInfo", is_in_uri=False, accepts_none=True),
    Option("server_api", as_server_api, "a ServerApi", is_in_uri=False, accepts_none=True),
    Option(
        "event_listeners",
        event_listeners(_LISTENERS),
        "a list of listeners: instances of subclasses of " + ", ".join(kind.__name__ for kind in _LISTENERS),
        is_in_uri=False,
        accepts_none=True,
    ),
    Option(
        "server_selector",
        function,
        "a function of a list of server descriptions",
        is_in_uri=False,
        accepts_none=True,
    ),
    Option(
        "overload_policy",
        instance_of(OverloadRetry),
        "a motorlite.retry.OverloadRetry",
        is_in_uri=False,
        accepts_none=True,
    ),
)

BY_NAME: Final = {option.name.lower(): option for option in _OPTIONS}
"""The options by their names in lower case."""

ALIASES: Final = {
    "ssl": "tls",
    # PyMongo accepts both spellings as keyword arguments.
    "max_adaptive_retries": "maxadaptiveretries",
    "adaptive_retries": "adaptiveretries",
    "enable_overload_retargeting": "enableoverloadretargeting",
    "read_preference": "readpreference",
}
"""Other names, in lower case."""

DEPRECATED: Final = {"wtimeout": "wtimeoutms", "j": "journal"}
"""Former names in connection strings, in lower case, and their replacements."""


def did_you_mean(name: str) -> str:
    """Return a clause that suggests options with similar names, or an empty string."""
    return suggestion(name.lower().replace("_", ""), _COMPARABLE)


_COMPARABLE: Final = {name.replace("_", ""): option.name for name, option in BY_NAME.items()}
