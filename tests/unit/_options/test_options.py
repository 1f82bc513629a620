"""The configuration of a client, from a connection string and keyword arguments."""

from __future__ import annotations

import pickle
from datetime import UTC
from typing import Any

import pytest
from bson import SON
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion, TypeRegistry

from motorlite import AsyncMongoClient
from motorlite._options import options as options_module
from motorlite._options.credentials import Credentials
from motorlite._options.options import ClientOptions, client_options, with_srv_records
from motorlite._options.parts import ProxyOptions, TLSOptions
from motorlite._options.table import ALIASES, BY_NAME
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.driver_info import DriverInfo
from motorlite.errors import ConfigurationError, InvalidOptionValue, InvalidURI
from motorlite.monitoring import CommandListener, RetryListener
from motorlite.overload import CircuitBreaker, ConcurrencyLimit, RateLimit, WaitQueue
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import Nearest, Primary, Secondary
from motorlite.retry import BestEffort, OverloadRetry, RetryBudget, SpecificationRetry
from motorlite.server_api import ServerApi
from motorlite.write_concern import WriteConcern


def test_defaults() -> None:
    assert client_options() == ClientOptions(
        seeds=(("localhost", 27017),),
        srv=None,
        database=None,
        direct_connection=None,
        load_balanced=False,
        replica_set=None,
        app_name=None,
        driver_info=None,
        max_pool_size=100,
        min_pool_size=0,
        max_idle_time=None,
        max_connecting=2,
        wait_queue_timeout=None,
        wait_queue=None,
        connect_timeout=20.0,
        socket_timeout=None,
        server_selection_timeout=30.0,
        heartbeat_frequency=10.0,
        local_threshold=0.015,
        timeout=None,
        default_max_time=None,
        default_max_time_namespace=None,
        kill_abandoned=False,
        server_monitoring_mode="auto",
        retry_reads=True,
        retry_writes=True,
        max_adaptive_retries=5,
        enable_overload_retargeting=True,
        tls=None,
        credentials=None,
        scram_max_iterations=1_000_000,
        compressors=(),
        zlib_compression_level=-1,
        read_concern=ReadConcern(),
        write_concern=WriteConcern(),
        read_preference=Primary(),
        codec_options=CodecOptions(),
        pause_garbage_collector=True,
        server_api=None,
        event_listeners=(),
        tracing=None,
        auto_encryption_opts=None,
        server_selector=None,
        proxy=None,
        connect=None,
        overload_policy=OverloadRetry(),
        circuit_breaker=None,
        rate_limit=None,
        concurrency_limit=None,
        retry_strategy=SpecificationRetry(),
        retry_budget=None,
        explicit=frozenset(),
    )


BREAKER = CircuitBreaker(failure_rate=0.2, open_for=3)
QUEUED = RateLimit(rate=5, strategy="queue", queue=WaitQueue("queue", 7, 2))
LATE = RateLimit(rate=5, strategy="queue", timeout=2)
SMALL = ConcurrencyLimit(initial=30, minimum=5)
WAITING = WaitQueue("queue", 500, 0.5, memory_limit="10MB")
AS_TEXT = "strategy:queue,max_depth:500,timeout:0.5,memory_limit:10MB"
UNLIMITED = WaitQueue("queue", memory_limit=None)
STANDARD: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
MILLISECONDS: CodecOptions[Any] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
# Text as in a connection string, the same as a keyword argument, the field and its value.
BOTH_WAYS: list[tuple[str, str, Any, str, Any]] = [
    ("maxPoolSize", "5", 5, "max_pool_size", 5),
    ("maxPoolSize", "0", 0, "max_pool_size", 0),
    ("minPoolSize", "5", 5, "min_pool_size", 5),
    ("minPoolSize", "100", 100, "min_pool_size", 100),
    ("maxConnecting", "5", 5, "max_connecting", 5),
    ("maxIdleTimeMS", "500", 500, "max_idle_time", 0.5),
    ("maxIdleTimeMS", "0", 0, "max_idle_time", None),
    ("waitQueueTimeoutMS", "500", 500, "wait_queue_timeout", 0.5),
    ("connectTimeoutMS", "1500", 1500, "connect_timeout", 1.5),
    ("connectTimeoutMS", "0", 0, "connect_timeout", None),
    ("socketTimeoutMS", "1500", 1500, "socket_timeout", 1.5),
    ("serverSelectionTimeoutMS", "0", 0, "server_selection_timeout", 0.0),
    ("heartbeatFrequencyMS", "500", 500, "heartbeat_frequency", 0.5),
    ("localThresholdMS", "0", 0, "local_threshold", 0.0),
    ("timeoutMS", "0", 0, "timeout", 0.0),
    ("timeoutMS", "2500.5", 2500.5, "timeout", 2.5005),
    ("defaultMaxTimeMS", "2500", 2500, "default_max_time", 2.5),
    ("defaultMaxTimeMS", "0", 0, "default_max_time", 0.0),
    ("defaultMaxTimeNamespace", "config.a.b", "config.a.b", "default_max_time_namespace", "config.a.b"),
    ("killAbandoned", "true", True, "kill_abandoned", True),
    ("pauseGarbageCollector", "false", False, "pause_garbage_collector", False),
    ("serverMonitoringMode", "poll", "poll", "server_monitoring_mode", "poll"),
    ("directConnection", "false", False, "direct_connection", False),
    ("loadBalanced", "true", True, "load_balanced", True),
    ("replicaSet", "rs", "rs", "replica_set", "rs"),
    ("appname", "a", "a", "app_name", "a"),
    ("retryReads", "false", False, "retry_reads", False),
    ("retryWrites", "false", False, "retry_writes", False),
    ("maxAdaptiveRetries", "0", 0, "max_adaptive_retries", 0),
    ("retryBudget", "false", False, "retry_budget", None),
    ("circuitBreaker", "true", True, "circuit_breaker", CircuitBreaker()),
    ("circuitBreaker", "false", False, "circuit_breaker", None),
    ("circuitBreaker", "failureRate:0.2,openFor:3s", BREAKER, "circuit_breaker", BREAKER),
    ("rateLimit", "500", 500, "rate_limit", {"*": RateLimit(rate=500)}),
    ("rateLimit", "rate:2.5,burst:7", "2.5,burst:7", "rate_limit", {"*": RateLimit(rate=2.5, burst=7)}),
    ("rateLimit", "rate:5,strategy:queue,maxDepth:7,timeout:2s", QUEUED, "rate_limit", {"*": QUEUED}),
    ("rateLimit", "5,strategy:queue,timeout:2s", "5,strategy:queue,timeout:2s", "rate_limit", {"*": LATE}),
    ("concurrencyLimit", "true", True, "concurrency_limit", ConcurrencyLimit()),
    ("concurrencyLimit", "initial:30,minimum:5", "minimum:5,initial:30", "concurrency_limit", SMALL),
    ("waitQueue", "queue", "queue", "wait_queue", WaitQueue("queue")),
    ("waitQueue", "degrade", WaitQueue("degrade"), "wait_queue", WaitQueue("degrade")),
    ("waitQueue", "queue,maxDepth:500,timeout:500ms,memoryLimit:10MB", AS_TEXT, "wait_queue", WAITING),
    ("waitQueue", "queue,memoryLimit:none", "queue,memoryLimit:none", "wait_queue", UNLIMITED),
    ("retryStrategy", "specification", SpecificationRetry(), "retry_strategy", SpecificationRetry()),
    ("enableOverloadRetargeting", "false", False, "enable_overload_retargeting", False),
    ("compressors", "zlib,zstd", ["zlib", "zstd"], "compressors", ("zlib", "zstd")),
    ("zlibCompressionLevel", "9", 9, "zlib_compression_level", 9),
    ("readConcernLevel", "local", "local", "read_concern", ReadConcern("local")),
    ("w", "2", 2, "write_concern", WriteConcern(2)),
    ("wTimeoutMS", "7", 7, "write_concern", WriteConcern(wtimeout=7)),
    ("journal", "true", True, "write_concern", WriteConcern(j=True)),
    ("fsync", "true", True, "write_concern", WriteConcern(fsync=True)),
    ("readPreference", "nearest", "nearest", "read_preference", Nearest()),
    ("tz_aware", "true", True, "codec_options", CodecOptions(tz_aware=True)),
    ("uuidRepresentation", "standard", "standard", "codec_options", STANDARD),
    ("datetime_conversion", "DATETIME_MS", DatetimeConversion.DATETIME_MS, "codec_options", MILLISECONDS),
    ("tls", "true", True, "tls", TLSOptions()),
    ("proxyHost", "p", "p", "proxy", ProxyOptions("p", 1080)),
    ("connect", "false", False, "connect", False),
    ("scramMaxIterations", "4096", 4096, "scram_max_iterations", 4096),
]


@pytest.mark.parametrize(("name", "text", "value", "field", "expected"), BOTH_WAYS)
def test_both_ways(name: str, text: str, value: Any, field: str, expected: Any) -> None:
    from_uri = client_options(f"mongodb://localhost/?{name}={text}")
    assert getattr(from_uri, field) == expected
    assert from_uri.explicit == {BY_NAME[ALIASES.get(name.lower(), name.lower())].name}
    assert client_options(**{name: value}) == from_uri
    # PyMongo takes names in any case, and text as well.
    assert client_options("localhost", **{name.lower(): text}) == from_uri


def test_rate_limits_by_name() -> None:
    rates = {"shop": RateLimit(rate=5), "shop.orders.old": RateLimit(rate=1)}
    options = client_options(rate_limit=rates)
    # A mapping that changes later does not matter.
    kept = dict(rates)
    rates.clear()
    assert options.rate_limit == kept


def test_objects_as_keyword_arguments() -> None:
    listener, registry, api = RetryListener(), TypeRegistry(), ServerApi("1")
    options = client_options(
        document_class=SON,
        tz_aware=True,
        tzinfo=UTC,
        type_registry=registry,
        unicode_decode_error_handler="ignore",
        driver=DriverInfo("odm"),
        server_api=api,
        event_listeners=[listener],
    )
    assert options.codec_options == CodecOptions(
        SON, True, unicode_decode_error_handler="ignore", tzinfo=UTC, type_registry=registry
    )
    assert options.driver_info == DriverInfo("odm")
    assert options.server_api is api
    assert options.event_listeners == (listener,)


def test_keyword_arguments_win() -> None:
    options = client_options("mongodb://u:p@a/?maxPoolSize=5&tls=true&w=2", maxpoolsize=6, ssl=False, password="q")
    assert options.max_pool_size == 6
    assert options.tls is None
    assert options.write_concern == WriteConcern(2)
    assert options.credentials == Credentials("u", "q", "admin")
    assert options.explicit == {"username", "password", "maxPoolSize", "tls", "w"}
    # None takes a limit away.
    options = client_options("mongodb://a/?maxPoolSize=5&minPoolSize=101&timeoutMS=5", maxPoolSize=None, timeoutMS=None)
    assert (options.max_pool_size, options.min_pool_size, options.timeout) == (0, 101, None)


@pytest.mark.parametrize(
    ("hosts", "port", "seeds"),
    [
        ("a", 5, [("a", 5)]),
        ("a:1,B", 5, [("a", 1), ("b", 5)]),
        (["a:1", "[::1]"], None, [("a", 1), ("::1", 27017)]),
        (("a", "a"), None, [("a", 27017)]),
        ("/tmp/mongodb.sock", None, [("/tmp/mongodb.sock", None)]),
        ("mongodb://a,b:1", 5, [("a", 5), ("b", 1)]),
        (["mongodb://a"], None, [("a", 27017)]),
    ],
)
def test_hosts(hosts: str | list[str], port: int | None, seeds: list[tuple[str, int | None]]) -> None:
    assert client_options(hosts, port=port).seeds == tuple(seeds)
    assert client_options(host=hosts, port=port).seeds == tuple(seeds)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"host": 5}, TypeError, "the hosts must be .* not the type int"),
        ({"host": []}, TypeError, "the hosts must be .* not an empty list"),
        ({"host": [b"a"]}, TypeError, "the hosts must be .* not a list with the type bytes"),
        ({"host": ("a", 5)}, TypeError, "not a pair of host and port: pass them as two arguments$"),
        ({"host": ["mongodb://a", "b"]}, ValueError, "must not contain connection strings"),
        ({"host": "a:b"}, InvalidURI, "the port of host number 1"),
        ({"port": "27017"}, TypeError, "port must be an integer from 1 to 65535, not '27017'"),
        ({"port": True}, TypeError, "not True"),
        ({"port": 0}, ValueError, "not 0"),
        ({"maxPoolSise": 5}, ConfigurationError, "unknown option 'maxPoolSise'; did you mean maxPoolSize"),
        ({"max_pool_size": 5}, ConfigurationError, "did you mean maxPoolSize"),
        ({"zzz": 5}, ConfigurationError, "unknown option 'zzz'$"),
        ({"maxPoolSize": 5, "maxpoolsize": 6}, ConfigurationError, "maxPoolSize is passed twice"),
        ({"maxPoolSize": 1.5}, TypeError, "maxPoolSize must be a non-negative integer.* not 1.5"),
        ({"maxPoolSize": True}, TypeError, "not True"),
        ({"maxPoolSize": -1}, ValueError, "not -1"),
        ({"maxPoolSize": "many"}, ValueError, "not 'many'"),
        ({"minPoolSize": None}, TypeError, "minPoolSize must be a non-negative integer, not None"),
        ({"minPoolSize": 101}, ValueError, "minPoolSize=101 must not be greater than maxPoolSize=100"),
        ({"timeoutMS": -1}, ValueError, "timeoutMS must be"),
        ({"timeoutMS": float("nan")}, ValueError, "not nan"),
        ({"timeoutMS": float("inf")}, ValueError, "not inf"),
        ({"timeoutMS": 10**400}, ConfigurationError, "timeoutMS must be"),
        ({"timeoutMS": False}, TypeError, "not False"),
        ({"heartbeatFrequencyMS": 499}, ValueError, "at least 500, not 499"),
        ({"retryWrites": 1}, TypeError, "retryWrites must be True or False, not 1"),
        ({"retryWrites": "1"}, ValueError, "retryWrites must be True or False, not '1'"),
        ({"replicaSet": ""}, ValueError, "replicaSet must be a string that is not empty"),
        ({"w": -1}, ValueError, "w must be"),
        ({"w": 1.5}, TypeError, "w must be"),
        ({"w": 0, "journal": True}, ConfigurationError, "w=0"),
        ({"compressors": 5}, TypeError, "compressors must be"),
        ({"compressors": ["lz4"]}, ValueError, "compressors must be one of 'snappy', 'zlib', 'zstd', .* not .'lz4'"),
        ({"readPreference": 1}, TypeError, "readPreference must be"),
        ({"readPreferenceTags": []}, ValueError, "readPreferenceTags must be"),
        ({"readPreferenceTags": [5]}, TypeError, "readPreferenceTags must be"),
        ({"readPreferenceTags": "a:b"}, ConfigurationError, "primary cannot be combined with tag sets"),
        ({"maxStalenessSeconds": 0}, ValueError, "maxStalenessSeconds must be"),
        ({"readPreference": Nearest(), "maxStalenessSeconds": 90}, ConfigurationError, "its own tag sets"),
        ({"driver": ("a", "b", "c")}, TypeError, "driver must be a DriverInfo"),
        ({"server_api": "1"}, TypeError, "server_api must be a ServerApi, not '1'"),
        ({"event_listeners": CommandListener()}, TypeError, "event_listeners must be a list"),
        ({"overload_policy": "strict"}, TypeError, "overload_policy must be a motorlite.retry.OverloadRetry"),
        ({"circuit_breaker": 1}, TypeError, "circuit_breaker must be True, settings such as .*CircuitBreaker, not 1"),
        ({"circuit_breaker": "closed"}, ValueError, "circuit_breaker has 'closed', which is not a setting of the form"),
        ({"circuit_breaker": "probes:0"}, ValueError, "circuit_breaker is wrong: probes must be an integer from 1"),
        ({"circuit_breaker": "probe:1"}, ValueError, "the unknown setting 'probe'; did you mean probes.* openFor"),
        ({"circuit_breaker": "probes:1,probes:2"}, ValueError, "circuit_breaker has the setting probes twice"),
        ({"circuit_breaker": "probes:"}, ValueError, "circuit_breaker has 'probes:', which is not a setting"),
        ({"concurrency_limit": 20}, TypeError, "concurrency_limit must be True, settings such as"),
        ({"wait_queue": "wait"}, ValueError, "wait_queue is wrong: strategy must be one of 'reject'"),
        ({"wait_queue": "queue,500"}, ValueError, "wait_queue has '500', which is not a setting of the form"),
        ({"wait_queue": "reject,maxDepth:5"}, ValueError, "max_depth=5 has no effect without strategy='queue'"),
        ({"wait_queue": True}, TypeError, "wait_queue must be 'reject', 'queue' or 'degrade'"),
        ({"retry_budget": -1}, ValueError, "retry_budget is wrong: capacity must be"),
        ({"retry_budget": "many"}, ValueError, "retry_budget is wrong: capacity must be"),
        ({"retry_budget": [1]}, TypeError, "retry_budget must be a number of tokens, False for no budget"),
        ({"retry_strategy": "patient"}, ValueError, "retry_strategy must be 'specification'"),
        *(({"retry_strategy": wrong}, TypeError, "^retry_strategy must be .*'failF") for wrong in (BestEffort, 5)),
        ({"retry_strategy": "specification,giveUpAfter:5"}, ValueError, "retry_strategy must be 'specification'"),
        ({"retry_strategy": "bestEffort,patience:5"}, ValueError, "unknown setting 'patience'.* giveUpAfter"),
        ({"concurrency_limit": True, "loadBalanced": True}, ConfigurationError, "cannot be combined with loadBal"),
        ({"rate_limit": True}, TypeError, "rate_limit must be a number per second, settings"),
        ({"rate_limit": 0}, ValueError, "rate_limit is wrong: rate must be a number per second above 0"),
        ({"rate_limit": {"shop": "5,burst:0"}}, ValueError, "rate_limit is wrong: burst must be an integer"),
        ({"rate_limit": {"shop": None}}, TypeError, "rate_limit must be"),
        ({"rate_limit": "5,maxDepth:7"}, ValueError, "rate_limit is wrong: queue=.* has no effect without strategy='q"),
        ({"rate_limit": "5,queue:7"}, ValueError, "rate_limit has the unknown setting 'queue'"),
        ({"rate_limit": {5: RateLimit(rate=1)}}, TypeError, "rate_limit must be"),
        *(
            ({"rate_limit": {key: 1}}, ValueError, f"has a wrong key: '{key}' is not")
            for key in ("", "shop.", ".orders")
        ),
        ({"document_class": 5}, TypeError, "document_class must be .*, not 5"),
        ({"tzinfo": "UTC", "tz_aware": True}, TypeError, "tzinfo must be .*, not <class 'str'>"),
        ({"ssl_ca_certs": "ca.pem"}, ConfigurationError, "unknown option 'ssl_ca_certs'; use tlsCAFile"),
        ({"tzinfo": UTC}, ValueError, "tz_aware"),
        ({"username": ""}, ValueError, "username must be"),
        ({"password": "p"}, ConfigurationError, "without a username"),
        ({"authMechanismProperties": 5}, TypeError, "authMechanismProperties must be"),
        ({"authMechanismProperties": "maybe"}, ValueError, "authMechanismProperties must be"),
        ({"authMechanismProperties": {"ALLOWED_HOSTS": "a"}}, TypeError, "authMechanismProperties must be"),
        ({"authMechanismProperties": {"ALLOWED_HOSTS": [""]}}, ValueError, "authMechanismProperties must be"),
        ({"authMechanismProperties": {"SERVICE_NAME": 5}}, TypeError, "authMechanismProperties must be"),
        ({"authMechanismProperties": {5: "a"}}, TypeError, "authMechanismProperties must be"),
        ({"authMechanismProperties": {"X": "secret"}}, ValueError, "has the unknown name 'X'; known are"),
        ({"tls": False, "tlsCAFile": "ca"}, ConfigurationError, "tlsCAFile cannot be combined with tls=False"),
        *(({name: "maybe"}, ValueError, "^tls(Insecure)? must be") for name in ("tls", "ssl", "tlsInsecure")),
        ({"authMechanism": "maybe"}, ConfigurationError, "^authMechanism must be one of"),
        *(({"scramMaxIterations": wrong}, ValueError, "an integer of at least 4096") for wrong in (4095, -1, "x")),
        *(({"scramMaxIterations": wrong}, TypeError, "an integer of at least 4096") for wrong in (1.5, True, None)),
        ({"proxyPort": 65536}, ValueError, "proxyPort must be an integer from 1 to 65535"),
        ({"proxyHost": "p", "proxyUsername": "ü" * 128, "proxyPassword": "x"}, ValueError, "at most 255 bytes"),
        ({"proxyUsername": 5}, TypeError, "proxyUsername must be a string"),
        ({"proxyUsername": "u", "proxyPassword": "x"}, ConfigurationError, "proxyUsername needs proxyHost"),
        # An empty one counts as none.
        ({"proxyHost": "p", "proxyUsername": "u", "proxyPassword": ""}, ConfigurationError, "must be set together"),
        ({"srvServiceName": "x"}, ConfigurationError, "srvServiceName is only for"),
    ],
)
def test_wrong_keyword_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        client_options(**arguments)
    # PyMongo's exceptions, and one that catches them all.
    assert isinstance(caught.value, ConfigurationError)


def test_what_both_sources_say() -> None:
    with pytest.raises(ConfigurationError, match="passed twice"):
        client_options("a", host="b")
    with pytest.raises(ConfigurationError, match="tlsInsecure and tlsAllowInvalidCertificates"):
        client_options("mongodb://a/?tlsInsecure=true", tlsAllowInvalidCertificates=True)


@pytest.mark.parametrize(
    ("name", "value", "kind", "text"),
    [
        *(
            (name, b"hunter2", TypeError, f"{name} must be a string.*not shown")
            for name in ("password", "tlsCertificateKeyFilePassword", "proxyUsername", "proxyPassword")
        ),
        (
            "authMechanismProperties",
            {"Oidc_Callbck": "hunter2"},
            ValueError,
            "the unknown name 'Oidc_Callbck'; did you mean OIDC_CALLBACK.*known are ALLOWED_HOSTS, .*ENVIRONMENT",
        ),
    ],
)
def test_errors_do_not_show_secrets(name: str, value: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        client_options(**{name: value})
    assert "hunter2" not in str(caught.value)


def test_the_repr_shows_no_secret() -> None:
    options = client_options(
        "mongodb+srv://u:hunter2@a.b.c/?proxyHost=h&proxyUsername=u&proxyPassword=hunter2",
        tlsCertificateKeyFilePassword="hunter2",
    )
    assert options.credentials is not None
    assert options.tls is not None
    assert options.proxy == ProxyOptions("h", 1080, "u", "hunter2")
    assert "hunter2" not in repr(options)
    # The longest ones, and none.
    options = client_options(proxyHost="p", proxyPort=None, proxyUsername="ü" * 127, proxyPassword="x" * 255)
    assert options.proxy == ProxyOptions("p", 1080, "ü" * 127, "x" * 255)
    assert client_options(proxyHost="p", proxyUsername="", proxyPassword="").proxy == ProxyOptions("p", 1080)


def test_mechanism_properties() -> None:
    class Callback(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            raise NotImplementedError

    callback = Callback()
    properties = {"oidc_human_callback": callback, "ALLOWED_HOSTS": ["a", "*.b"]}
    options = client_options(authMechanism="MONGODB-OIDC", authMechanismProperties=properties, tls=True)
    assert options.credentials is not None
    assert options.credentials.mechanism_properties == {
        "OIDC_HUMAN_CALLBACK": callback,
        "ALLOWED_HOSTS": ("a", "*.b"),
    }
    options = client_options(
        username="u", authMechanism="GSSAPI", authMechanismProperties={"CANONICALIZE_HOST_NAME": False}
    )
    assert options.credentials == Credentials(
        "u", None, "$external", "GSSAPI", {"CANONICALIZE_HOST_NAME": "none", "SERVICE_NAME": "mongodb"}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, "secret\ud800")
            for name in ("username", "password", "authSource", "appname", "replicaSet", "proxyPassword", "w")
        ),
        ("readPreferenceTags", "dc:secret\ud800"),
        ("authMechanismProperties", {"SERVICE_NAME": "secret\ud800"}),
    ],
)
def test_what_no_message_can_hold(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be encoded as UTF-8") as caught:
        client_options(**{name: value})
    assert isinstance(caught.value, ConfigurationError)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in repr(error)
        error = error.__context__


def test_warnings_are_told_when_the_rest_does_not_fit_together() -> None:
    uri = "mongodb://a/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIROMENT:k8s"
    with (
        pytest.warns(UserWarning, match="'ENVIROMENT'; did you mean ENVIRONMENT"),
        pytest.raises(ConfigurationError, match="needs one of the mechanism properties"),
    ):
        client_options(uri)
    with (
        pytest.warns(UserWarning, match="unknown option 'foo'"),
        pytest.raises(ConfigurationError, match="maxPoolSise"),
    ):
        client_options("mongodb://a/?foo=bar", maxPoolSise=3)


def test_warnings_point_at_the_caller_of_the_constructor() -> None:
    def constructor(uri: str) -> ClientOptions:
        return client_options(uri)

    with pytest.warns(UserWarning, match="unknown option 'foo'") as caught:
        constructor("mongodb://a/?foo=bar")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert caught[0].lineno == constructor.__code__.co_firstlineno + 4


def test_a_read_preference_replaces_that_of_the_connection_string() -> None:
    uri = "mongodb://a/?readPreference=nearest&readPreferenceTags=a:b&maxStalenessSeconds=90"
    assert client_options(uri).read_preference == Nearest([{"a": "b"}], 90)
    assert client_options(uri, readPreference="secondary").read_preference == Secondary([{"a": "b"}], 90)
    assert client_options(uri, read_preference=Secondary()).read_preference == Secondary()
    tagged = client_options(readPreference="nearest", readPreferenceTags=[{"x": "y"}, "a:b", ""])
    assert tagged.read_preference == Nearest([{"x": "y"}, {"a": "b"}, {}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bestEffort", "BestEffort(give_up_after=30.0, budget='client')"),
        ("BestEffort", "BestEffort(give_up_after=30.0, budget='client')"),
        ("bestEffort,giveUpAfter:500ms", "BestEffort(give_up_after=0.5, budget='client')"),
        ("bestEffort,giveUpAfter:none", "BestEffort(give_up_after=None, budget='client')"),
        ("specification", "SpecificationRetry()"),
        ("failFast", "FailFast()"),
    ],
)
def test_retry_strategies_by_name(text: str, expected: str) -> None:
    strategy = client_options(retry_strategy=text).retry_strategy
    assert repr(strategy) == expected
    assert repr(client_options(f"mongodb://a/?retryStrategy={text}").retry_strategy) == expected
    assert client_options(retry_strategy=strategy).retry_strategy is strategy


@pytest.mark.parametrize(
    ("given", "capacity", "per_server"),
    [
        (20, 20, None),
        (2.5, 2.5, None),
        (0, 0, None),
        ("20", 20, None),
        ("2.5", 2.5, None),
        ("50,perServer:5", 50, 5),
        ("capacity:50,per_server:5", 50, 5),
    ],
)
def test_a_budget_of_so_many_tokens(given: Any, capacity: float, per_server: float | None) -> None:
    for options in (client_options(retry_budget=given), client_options(f"mongodb://a/?retryBudget={given}")):
        budget = options.retry_budget
        assert budget is not None
        assert (budget.capacity, budget.per_server) == (capacity, per_server)
        assert options.overload_policy.is_budgeted


@pytest.mark.parametrize("is_budgeted", [True, False])
def test_whether_there_is_a_budget(is_budgeted: bool) -> None:
    for options in (
        client_options(retry_budget=is_budgeted),
        client_options(f"mongodb://a/?retryBudget={str(is_budgeted).lower()}"),
        client_options(overload_policy=OverloadRetry.revision_2026_07(), retry_budget=is_budgeted),
    ):
        assert (options.retry_budget, options.overload_policy.is_budgeted) == (None, is_budgeted)
    budget = RetryBudget(10)
    assert client_options(retry_budget=budget).retry_budget is budget


def test_a_budget_that_nothing_uses() -> None:
    preset = OverloadRetry.revision_2026_07()
    with pytest.raises(ConfigurationError, match="retry_budget has no effect with an overload_policy that has is_bud"):
        client_options(retry_budget=RetryBudget(10), overload_policy=preset)
    policy = preset.with_options(is_budgeted=True)
    assert client_options(retry_budget=10, overload_policy=policy).overload_policy.is_budgeted


def test_two_capacities_contradict_each_other() -> None:
    """Neither wins silently."""
    policy = OverloadRetry(token_capacity=5)
    text = r"retry_budget contradicts the token_capacity \(5\) of overload_policy"
    with (
        pytest.warns(DeprecationWarning, match="token_capacity of overload_policy is deprecated, use retry_budget=5"),
        pytest.raises(ConfigurationError, match=text),
    ):
        client_options(overload_policy=policy, retry_budget=50)
    with pytest.warns(DeprecationWarning, match="token_capacity"):
        assert client_options(overload_policy=policy, retry_budget=True).overload_policy == policy
    with pytest.raises(InvalidOptionValue, match=r"retry_strategy is wrong: token_capacity=5 has no effect"):
        client_options(retry_strategy=OverloadRetry(token_capacity=5))
    assert client_options(retry_strategy=OverloadRetry(max_retries=0)).retry_strategy == OverloadRetry(max_retries=0)


@pytest.mark.parametrize("name", ["adaptiveRetries", "adaptive_retries", "ADAPTIVERETRIES"])
@pytest.mark.parametrize("value", [True, False])
def test_the_former_name_of_the_budget(name: str, value: bool) -> None:
    def client() -> Any:
        return client_options(**{name: value})

    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated, use retry_budget") as caught:
        options = client()
    assert options.overload_policy.is_budgeted is value
    assert len(caught) == 1
    with pytest.warns(DeprecationWarning, match="in the connection string is deprecated, use retry_budget"):
        options = client_options(f"mongodb://a/?{name}={str(value).lower()}")
    assert options.overload_policy.is_budgeted is value
    with pytest.warns(DeprecationWarning, match="adaptive_retries is deprecated, use overload_policy.is_budgeted"):
        assert options.adaptive_retries is value
    with (
        pytest.warns(DeprecationWarning, match="is deprecated, use retry_budget"),
        pytest.raises(ConfigurationError, match="retry_budget is passed twice, under two spellings"),
    ):
        client_options(**{name: value}, retry_budget=5)


def test_an_option_under_two_spellings() -> None:
    assert client_options("a", ssl=True, tls=True).tls is not None
    with pytest.raises(ConfigurationError, match="tls is passed twice, under two spellings, with different values"):
        client_options("a", ssl=False, tls=True)


def test_overload_policy() -> None:
    preset = OverloadRetry.revision_2026_07()
    options = client_options(overload_policy=preset)
    assert options.overload_policy == preset
    assert options.max_adaptive_retries == 2
    assert options.enable_overload_retargeting is False
    # What is set counts more than the preset.
    options = client_options("mongodb://a/?maxAdaptiveRetries=1&retryBudget=true", overload_policy=preset)
    assert options.overload_policy == preset.with_options(1, True)
    assert options.max_adaptive_retries == 1
    assert client_options(
        max_adaptive_retries=3, retry_budget=False, enable_overload_retargeting=False
    ).overload_policy == OverloadRetry(max_retries=3, is_budgeted=False, retargets=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tlsCAFile": "ca"}, TLSOptions(ca_file="ca")),
        (
            {"tlsCertificateKeyFile": "c", "tlsCertificateKeyFilePassword": "p"},
            TLSOptions(certificate_key_file="c", certificate_key_file_password="p"),
        ),
        ({"tlsCRLFile": "crl"}, TLSOptions(crl_file="crl")),
        ({"tlsAllowInvalidHostnames": False}, TLSOptions()),
        # As in PyMongo: to relax something does not turn TLS on.
        ({"tlsAllowInvalidHostnames": True}, None),
        ({"tlsInsecure": True}, None),
        # It stands for the others, which turn it on.
        ({"tlsInsecure": False}, TLSOptions()),
        ({"tls": True, "tlsAllowInvalidHostnames": True}, TLSOptions(allow_invalid_hostnames=True)),
        (
            {"tls": True, "tlsInsecure": True},
            TLSOptions(
                allow_invalid_certificates=True,
                allow_invalid_hostnames=True,
                disable_ocsp_endpoint_check=True,
                disable_certificate_revocation_check=True,
            ),
        ),
    ],
)
def test_tls(arguments: dict[str, Any], expected: TLSOptions | None) -> None:
    assert client_options(**arguments).tls == expected


def test_srv() -> None:
    options = client_options("mongodb+srv://a.b.c/db")
    assert options.srv is not None
    assert (options.srv.host_name, options.srv.service_name, options.srv.max_hosts) == ("a.b.c", "mongodb", 0)
    assert options.seeds == ()
    assert options.tls == TLSOptions()
    options = client_options("mongodb+srv://a.b.c/?tls=false", srvServiceName="x", srvMaxHosts=2)
    assert options.srv is not None
    assert (options.srv.service_name, options.srv.max_hosts) == ("x", 2)
    assert options.tls is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled(protocol: int) -> None:
    options = client_options("mongodb+srv://u:p@a.b.c/db", maxPoolSize=7)
    assert pickle.loads(pickle.dumps(options, protocol)) == options


def test_srv_records() -> None:
    hosts = [("x.b.c", 1), ("y.b.c", 2)]
    options = client_options("mongodb+srv://u:p@a.b.c/db", maxPoolSize=7)
    found = with_srv_records(options, hosts)
    assert (found.seeds, found.srv, found.max_pool_size) == (tuple(hosts), options.srv, 7)
    found = with_srv_records(options, hosts, "authSource=s&replicaSet=rs")
    assert found.replica_set == "rs"
    assert found.credentials == Credentials("u", "p", "s")
    # The connection string and keyword arguments count more.
    options = client_options("mongodb+srv://u:p@a.b.c/?authSource=mine", replicaSet="mine")
    found = with_srv_records(options, hosts, "authSource=s&replicaSet=rs")
    assert found.replica_set == "mine"
    assert found.credentials == Credentials("u", "p", "mine")


def test_wrong_values_in_a_txt_record_warn() -> None:
    options = client_options("mongodb+srv://a.b.c/")
    with pytest.warns(UserWarning, match="TXT record of a.b.c.*loadBalanced"):
        found = with_srv_records(options, [("x.b.c", 1)], "loadBalanced=maybe&replicaSet=rs")
    assert found.replica_set == "rs"
    assert not found.load_balanced


@pytest.mark.parametrize(
    ("uri", "record", "text"),
    [
        ("mongodb+srv://a.b.c", "loadBalanced=true", "exactly one host, not 2"),
        ("mongodb+srv://a.b.c/?srvMaxHosts=2", "replicaSet=rs", "srvMaxHosts=2 cannot be combined"),
        ("mongodb+srv://a.b.c", "tls=false", "may only have"),
        ("mongodb://a", None, "only a mongodb\\+srv"),
    ],
)
def test_srv_records_that_do_not_fit(uri: str, record: str | None, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        with_srv_records(client_options(uri), [("x.b.c", 1), ("y.b.c", 2)], record)


def test_the_applications_own_selector() -> None:
    def selector(servers: list[Any]) -> list[Any]:
        return servers

    async def waits(servers: list[Any]) -> list[Any]:
        return servers

    assert client_options(server_selector=selector).server_selector is selector
    for wrong in (waits, "newest"):
        with pytest.raises(ConfigurationError, match="server_selector must be a function of a list of server desc"):
            client_options(server_selector=wrong)
    with pytest.warns(UserWarning, match="server_selector"):
        assert client_options("mongodb://a/?server_selector=x").server_selector is None


# --- options of the connection string that a client does not go on without ---


def with_warning(uri: str, **options: Any) -> ClientOptions:
    with pytest.warns(UserWarning, match="a client with this connection string sends nothing") as caught:
        found = client_options(uri, **options)
    assert {warning.filename for warning in caught} != {options_module.__file__}
    return found


def test_what_is_wrong_with_the_connection_string_is_kept() -> None:
    assert client_options("mongodb://a/?tls=true").refusals == ()
    problem = "tls must be True or False, not 'maybe'"
    assert with_warning("mongodb://a/?tls=maybe").refusals == (problem,)
    assert with_warning("mongodb://a/?tls=maybe", tlsCAFile="ca.pem").refusals == (problem,)
    both = with_warning("mongodb://u:p@a/?ssl=maybe&authMechanism=x").refusals
    assert len(both) == 2
    assert both[1].startswith("authMechanism must be one of")
    # A keyword argument in its place is enough.
    assert with_warning("mongodb://a/?tls=maybe", tls=True).refusals == ()
    assert with_warning("mongodb://a/?tls=maybe", ssl=False).refusals == ()


# --- secrets that would be shown ---

PLAIN: dict[str, Any] = {"username": "u", "password": "p", "authMechanism": "PLAIN"}
OIDC: dict[str, Any] = {"authMechanism": "MONGODB-OIDC", "authMechanismProperties": {"ENVIRONMENT": "test"}}


@pytest.mark.parametrize(("options", "secret"), [(PLAIN, "the password of PLAIN"), (OIDC, "the token of MONGODB-OIDC")])
def test_a_secret_without_tls_warns(options: dict[str, Any], secret: str) -> None:
    text = f"without TLS, anyone on the network path to the server can read {secret}.*: set tls=true"
    for uri in ("mongodb://a/", "mongodb+srv://a.b.c/?tls=false", "mongodb://%2Ftmp%2Fa.sock,b/"):
        with pytest.warns(UserWarning, match=text) as caught:
            AsyncMongoClient(uri, **options)
        assert {warning.filename for warning in caught} == {__file__}
    # With TLS, and on this machine's sockets, it does not; warnings are errors here.
    for uri in ("mongodb://a/?tls=true", "mongodb+srv://a.b.c/", "mongodb://%2Ftmp%2Fa.sock/"):
        assert AsyncMongoClient(uri, **options).options.credentials is not None
