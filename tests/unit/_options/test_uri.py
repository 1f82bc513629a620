"""Connection strings: what the public suites do not ask."""

from __future__ import annotations

import warnings
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._options.table import BY_NAME
from motorlite._options.uri import ParsedURI, hosts_alone, parse_hosts, parse_txt_record
from motorlite.errors import ConfigurationError, InvalidURI
from tests.support.connection_strings import parse_uri

SECRET = "hunter2"


def parse_with_warning(uri: str, text: str, category: type[Warning] = UserWarning) -> ParsedURI:
    with pytest.warns(category, match=text) as caught:
        parsed = parse_uri(uri)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return parsed


def test_everything_at_once() -> None:
    parsed = parse_uri("mongodb://u%40x:p%2Fw@Host,[::1]:1,%2Ftmp%2FA.sock/db.coll.x?w=2&appname=a%26b")
    assert parsed.hosts == (("host", 27017), ("::1", 1), ("/tmp/A.sock", None))
    assert (parsed.username, parsed.password) == ("u@x", "p/w")
    assert (parsed.database, parsed.collection) == ("db", "coll.x")
    assert parsed.options == {"w": 2, "appname": "a&b"}
    assert parsed.srv_host is None


def test_default_port_and_duplicates() -> None:
    assert parse_uri("mongodb://a,A,b:1", default_port=7).hosts == (("a", 7), ("b", 1))


def test_srv() -> None:
    parsed = parse_uri("mongodb+srv://u:p@Cluster.Example.com/?srvServiceName=my-mongo&srvMaxHosts=3")
    assert parsed.srv_host == "cluster.example.com"
    assert parsed.hosts == ()
    assert parsed.options == {"srvServiceName": "my-mongo", "srvMaxHosts": 3}


def test_a_zone_of_a_link_local_address() -> None:
    assert parse_uri("mongodb://[fe80::1%25eth0]:9").hosts == (("fe80::1%eth0", 9),)


def test_percent_encoding_in_a_host_name() -> None:
    assert parse_uri("mongodb://b%C3%BCcher.example.com").hosts == (("bücher.example.com", 27017),)


def test_a_plus_sign_is_no_space() -> None:
    assert parse_uri("mongodb://a:b+c@h").password == "b+c"


@pytest.mark.parametrize("text", ["localhost/shop", "u:p@localhost", "localhost?tls=true", "mongodb:/localhost"])
def test_a_connection_string_without_a_scheme(text: str) -> None:
    with pytest.raises(InvalidURI, match=r"^the connection string has no scheme: it begins with ") as found:
        hosts_alone(text, 27017)
    assert "p@" not in str(found.value)


def test_hosts_alone() -> None:
    assert hosts_alone("/tmp/a.sock,h:1", 27017) == (("/tmp/a.sock", None), ("h", 1))
    with pytest.raises(InvalidURI, match="host number 2 is empty"):
        hosts_alone("a,,b", 27017)
    for empty in ("", "  "):
        with pytest.raises(
            InvalidURI, match=r"^the connection string is empty: write one such as 'mongodb://localhost"
        ):
            hosts_alone(empty, 27017)


def test_a_socket_path_outside_of_a_connection_string_is_taken_literally() -> None:
    assert parse_hosts("/tmp/a%20b.sock,h", 27017) == (("/tmp/a%20b.sock", None), ("h", 27017))


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("localhost", r"begins with mongodb:// or mongodb\+srv://$"),
        ("http://localhost", r"mongodb\+srv://, not with http://$"),
        ("u:p/x://localhost", r"mongodb\+srv://$"),
        ("mongodb://a,,b", "host number 2 is empty"),
        ("mongodb://", "names no host after mongodb://: write one, as in mongodb://localhost:27017$"),
        ("mongodb://u:p@/shop?tls=true", "names no host after mongodb://: write one, as in mongodb://localhost:27017$"),
        ("mongodb:///tmp/a.sock", "names no host .*; the path of a socket must be percent-encoded$"),
        ("mongodb+srv://", r"names no host after mongodb\+srv://: write one, as in mongodb\+srv://cluster"),
        ("mongodb://%2Ftmp%2Fa", "does not end in .sock"),
        ("mongodb://[::1", "not an IPv6 address"),
        ("mongodb://[::1]x", "not an IPv6 address"),
        ("mongodb://[127.0.0.1]", "not an IPv6 address"),
        ("mongodb://a b", "malformed"),
        ("mongodb://a%40b", "malformed"),
        ("mongodb://a%zz", "malformed"),
        ("mongodb://:1", "malformed"),
        ("mongodb://a%00b", "malformed"),
        ("mongodb://a%00.mongodb.net", "malformed"),
        ("mongodb://.a", "malformed"),
        ("mongodb://a..b", "malformed"),
        ("mongodb://a%E2%80%8Bb", "malformed"),
        ("mongodb://[::1%25a%00.mongodb.net]", "not an IPv6 address"),
        ("mongodb://[::1%25a%20b]", "not an IPv6 address"),
        ("mongodb://%2Ftmp%2Fa%00.sock", "contains a NUL"),
        ("mongodb://a%FF", "not UTF-8"),
        ("mongodb://u%FF@a", "username is not UTF-8"),
        ("mongodb://u:%FF@a", "password is not UTF-8"),
        ("mongodb://a/%FF", "database is not UTF-8"),
        ("mongodb://a:", "from 1 to 65535"),
        ("mongodb://a:+1", "from 1 to 65535"),
        ("mongodb://a:٣", "from 1 to 65535"),
        ("mongodb://a:000001", "from 1 to 65535"),
        ("mongodb://a:27017 ", "from 1 to 65535"),
        ("mongodb://a/.coll", "database"),
        ("mongodb://a/d$b", "database"),
        ("mongodb://a/d.c%2Fx", "database"),
        ("mongodb+srv://a,b", "exactly one"),
        ("mongodb+srv://a:1", "without a port"),
        ("mongodb+srv://127.0.0.1", "did you mean mongodb://"),
        ("mongodb+srv://%2Ftmp%2Fa.sock", "did you mean mongodb://"),
        ("mongodb://a/?w=1&journal", "name=value"),
        ("mongodb://a/?=1", "name=value"),
        ("mongodb://a/?w=1&", "name=value"),
        ("mongodb://a/?w=1;journal=true&tls=true", "separated by"),
        ("mongodb://a/?authSource=", "authSource must not be empty"),
        ("mongodb://a/?tls=true&tls=false", "tls and ssl"),
        ("mongodb://a/?proxyHost=b&proxyHost=c", "proxyHost appears more than once"),
    ],
)
def test_malformed(uri: str, text: str) -> None:
    with pytest.raises(InvalidURI, match=text):
        parse_uri(uri)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("tlsInsecure=true&tlsAllowInvalidHostnames=false", "tlsInsecure and tlsAllowInvalidHostnames"),
        ("tlsCRLFile=a&tlsInsecure=true", "tlsInsecure=True cannot be combined with tlsCRLFile"),
        ("proxyPort=1", "proxyPort needs proxyHost"),
        ("proxyHost=a&proxyUsername=b", "must be set together"),
        ("minPoolSize=3&maxPoolSize=2", "minPoolSize=3 must not be greater than maxPoolSize=2"),
        ("loadBalanced=true&replicaSet=a", "loadBalanced=True cannot be combined with replicaSet"),
        ("loadBalanced=true&directConnection=true", "combined with directConnection"),
        ("srvMaxHosts=0", "srvMaxHosts is only for"),
        ("authMechanismProperties=CANONICALIZE_HOST_NAME:maybe", "CANONICALIZE_HOST_NAME must be one of"),
    ],
)
def test_contradictions(options: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse_uri(f"mongodb://a/?{options}")


@pytest.mark.parametrize("name", ["directConnection", "loadBalanced"])
def test_options_for_a_single_host(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=True needs exactly one host, not 2"):
        parse_uri(f"mongodb://a,b/?{name}=true")


def test_direct_connection_with_srv() -> None:
    with pytest.raises(ConfigurationError, match="directConnection=True cannot be combined with mongodb"):
        parse_uri("mongodb+srv://a.b.c/?directConnection=true")


@pytest.mark.parametrize("other", ["replicaSet=a", "loadBalanced=true"])
def test_srv_max_hosts(other: str) -> None:
    with pytest.raises(ConfigurationError, match="srvMaxHosts=2 cannot be combined"):
        parse_uri(f"mongodb+srv://a.b.c/?srvMaxHosts=2&{other}")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("maxPoolSise=5", "unknown option 'maxpoolsise' .* did you mean maxPoolSize"),
        ("somethingElse=5", "unknown option 'somethingelse' in the connection string is ignored$"),
        # Objects cannot come from a connection string.
        ("document_class=dict", "unknown option 'document_class'"),
        ("username=a", "unknown option 'username'"),
        ("maxPoolSize=", "maxPoolSize has no value"),
        ("maxPoolSize=five", "maxPoolSize must be a non-negative integer.* not 'five'; it is ignored"),
        ("maxPoolSize=99999999999", "maxPoolSize must be"),
        ("timeoutMS=1e3", "timeoutMS must be"),
        ("retryReads=yes", "retryReads must be True or False"),
        ("compressors=snoopy,lz4", "compressors must be among 'snappy', 'zlib', 'zstd', not 'snoopy', 'lz4'; ignored"),
        ("srvServiceName=-a", "srvServiceName must be"),
        ("appname=%FF", "'appname' is not UTF-8"),
        (f"appname={'ü' * 65}", "appname must be a string of 1 to 128 bytes"),
        ("authMechanism=MONGODB-CR", "authMechanism must be one of"),
        ("authMechanismProperties=NAME", "authMechanismProperties must be"),
        (
            "authMechanismProperties=OIDC_CALLBACK:a",
            "authMechanismProperties has OIDC_CALLBACK, which must be passed as",
        ),
        (
            "authMechanismProperties=ENVIROMENT:a",
            "the unknown name 'ENVIROMENT'; did you mean ENVIRONMENT.*; a client with this connection string sends no",
        ),
        ("readPreference=Primary", "readPreference must be"),
        ("uuidRepresentation=new", "uuidRepresentation must be one of"),
        ("datetime_conversion=9", "datetime_conversion must be"),
    ],
)
def test_what_is_wrong_is_ignored_with_a_warning(options: str, text: str) -> None:
    assert parse_with_warning(f"mongodb://a/?{options}", text).options == {}


def test_an_unknown_compressor_does_not_spoil_the_others() -> None:
    parsed = parse_with_warning("mongodb://a/?compressors=zstd, snoopy,zlib", "must be among .*, not 'snoopy'; ignored")
    assert parsed.options == {"compressors": ["zstd", "zlib"]}


def test_of_repeated_options_the_last_counts() -> None:
    parsed = parse_with_warning("mongodb://a/?w=1&W=2", "w appears more than once")
    assert parsed.options == {"w": 2}


def test_deprecated_names() -> None:
    uri = "mongodb://a/?wtimeout=5"
    parsed = parse_with_warning(uri, "'wtimeout' .* is deprecated, use wTimeoutMS", DeprecationWarning)
    assert parsed.options == {"wTimeoutMS": 5}
    uri = "mongodb://a/?j=true&journal=false"
    parsed = parse_with_warning(uri, "'j' .* is ignored in favour of journal", DeprecationWarning)
    assert parsed.options == {"journal": False}


def test_semicolons_separate_as_well() -> None:
    assert parse_uri("mongodb://a/?w=1;journal=true").options == {"w": 1, "journal": True}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("ssl=true&tls=true", "tls", True),
        ("w=majority", "w", "majority"),
        ("timeoutMS=0", "timeoutMS", 0),
        ("timeoutMS=1.5", "timeoutMS", 1.5),
        ("maxStalenessSeconds=-1", "maxStalenessSeconds", -1),
        ("readPreferenceTags=dc:ny,x:a:b", "readPreferenceTags", [{"dc": "ny", "x": "a:b"}]),
        ("readPreferenceTags=a:b&readPreferenceTags=", "readPreferenceTags", [{"a": "b"}, {}]),
        ("compressors=zstd,zlib,zstd", "compressors", ["zstd", "zlib"]),
        ("datetime_conversion=DATETIME_MS", "datetime_conversion", 3),
        ("datetime_conversion=1", "datetime_conversion", 1),
        ("uuidRepresentation=standard", "uuidRepresentation", 4),
        ("tz_aware=true", "tz_aware", True),
        (
            "authMechanismProperties=service_name:x,CANONICALIZE_HOST_NAME:true",
            "authMechanismProperties",
            {"SERVICE_NAME": "x", "CANONICALIZE_HOST_NAME": "forwardAndReverse"},
        ),
    ],
)
def test_values(text: str, name: str, value: object) -> None:
    assert parse_uri(f"mongodb://a/?{text}").options == {name: value}


def test_empty_proxy_credentials_say_that_there_are_none() -> None:
    assert parse_uri("mongodb://a/?proxyHost=b&proxyUsername=&proxyPassword=").options == {"proxyHost": "b"}


def test_a_comma_in_a_property_spoils_all_properties() -> None:
    uri = "mongodb://a/?authMechanismProperties=TOKEN_RESOURCE:x%2Cy,ENVIRONMENT:azure"
    assert parse_with_warning(uri, "authMechanismProperties must be").options == {}


@pytest.mark.parametrize(
    "uri",
    [
        f"mongodb://user:{SECRET}/x@host/db",
        f"mongodb://user:{SECRET}?x@host/db",
        f"mongodb://user:{SECRET}:x@host/db",
        f"mongodb://user:x@{SECRET}@host/db",
        f"mongodb://user:x/{SECRET} @host/db",
        f"mongodb://user:1/{SECRET}$@host/db",
        f"mongodb://user:%{SECRET}@host/db",
    ],
)
def test_errors_do_not_repeat_what_may_be_a_password(uri: str) -> None:
    with pytest.raises(InvalidURI, match="percent-encoded") as caught:
        parse_uri(uri)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("uri", ["mongodb://a:x", "mongodb://a b", "mongodb+srv://a:1", "mongodb://a/.b"])
def test_encoding_is_mentioned_only_where_there_may_be_a_password(uri: str) -> None:
    with pytest.raises(InvalidURI) as caught:
        parse_uri(uri)
    assert "percent-encoded" not in str(caught.value)
    with pytest.raises(InvalidURI, match="percent-encoded"):
        parse_uri(uri.replace("://", "://u:p@"))


def test_warnings_and_reprs_do_not_show_secrets() -> None:
    parsed = parse_with_warning(
        f"mongodb://u:{SECRET}@a/?authMechanismProperties=AWS_SESSION_TOKEN={SECRET}", "not shown"
    )
    assert SECRET not in repr(parsed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parsed = parse_uri(f"mongodb://a/?authMechanismProperties={SECRET}&tlsCertificateKeyFilePassword={SECRET}")
    assert len(caught) == 1
    assert SECRET not in str(caught[0].message) + repr(parsed)


def test_txt_records() -> None:
    options, notes = parse_txt_record("authSource=a&replicaSet=b&loadBalanced=false")
    assert options == {"authSource": "a", "replicaSet": "b", "loadBalanced": False}
    assert notes == []
    for record in ("tls=false", "ssl=false", "authSource=a&w=1", "foo=bar", "replicaSet=b&wtimeout=1"):
        with pytest.raises(ConfigurationError, match="may only have the options authSource"):
            parse_txt_record(record)
    for record in ("authSource", "authSource=a&", "=a", "authSource="):
        with pytest.raises(InvalidURI):
            parse_txt_record(record)


@pytest.mark.parametrize("begins", ["x", "tls=", "authSource=%FF"])
def test_a_long_txt_record_is_not_shown_as_a_whole(begins: str) -> None:
    record = begins + "x" * 60_000
    with pytest.raises(ConfigurationError) as caught:
        parse_txt_record(record)
    assert record[:100] in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "record", ["authSource=%FF", "replicaSet=a&authSource=%FF", "replicaSet=%C3", "loadBalanced=%FF"]
)
def test_a_txt_record_that_cannot_be_decoded_is_refused(record: str) -> None:
    with pytest.raises(InvalidURI, match=r"the TXT record .* is malformed: the percent-encoding of .* is not UTF-8"):
        parse_txt_record(record)


@pytest.mark.parametrize(
    "option",
    [
        "tls=maybe",
        "TLS=True",
        "tls=",
        "tls=%FF",
        "ssl=yes",
        "ssl=",
        "tlsInsecure=1",
        "tlsAllowInvalidCertificates=no",
        "tlsAllowInvalidHostnames=0",
        "tlsDisableOCSPEndpointCheck=x",
        "tlsDisableCertificateRevocationCheck=x",
        "tlsCAFile=",
        "tlsCAFile=%FF",
        "tlsCertificateKeyFile=",
        "tlsCertificateKeyFilePassword=%FF",
        "tlsCRLFile=",
        "authMechanism=SCRAM-SHA-512",
        "authMechanism=",
        "authMechanism=%FF",
        "authMechanismProperties=x",
        "authMechanismProperties=",
        "authSource=%FF",
    ],
)
def test_a_wrong_option_of_tls_or_authentication_is_refused_by_name(option: str) -> None:
    name = BY_NAME[option.partition("=")[0].lower().replace("ssl", "tls")].name
    parsed = parse_with_warning(f"mongodb://a/?{option}&w=1", f"{name}.*; a client with this connection string sends")
    assert parsed.options == {"w": 1}
    assert list(parsed.refusals) == [name]
    assert name in parsed.refusals[name]


def test_a_refusal_does_not_repeat_a_secret() -> None:
    parsed = parse_with_warning("mongodb://a/?authMechanismProperties=sesame", "not shown")
    assert "sesame" not in parsed.refusals["authMechanismProperties"]
    assert "refusals" not in repr(parsed)


def test_other_wrong_options_are_ignored() -> None:
    for option in ("w=-1", "maxPoolSize=x", "proxyPort=x", "tlsx=1", "authx=1", "sslInvalidHostNameAllowed=true"):
        assert parse_with_warning(f"mongodb://a/?{option}", "ignored").refusals == {}


def test_wrong_values_in_txt_records_are_noted_and_ignored() -> None:
    options, notes = parse_txt_record("loadBalanced=maybe&replicaSet=&authSource=a")
    assert options == {"authSource": "a"}
    assert [note.text.split()[0] for note in notes] == ["loadBalanced", "replicaSet"]


DATABASE_CHARACTERS = st.characters(codec="utf-8", exclude_characters='/\\ "$.\x00')


@pytest.mark.slow
@given(st.text(min_size=1), st.text(), st.text(DATABASE_CHARACTERS, min_size=1))
def test_quoted_parts_come_back(username: str, password: str, database: str) -> None:
    parts = [quote(part, safe="") for part in (username, password, database)]
    parsed = parse_uri("mongodb://{}:{}@h/{}".format(*parts))
    assert (parsed.username, parsed.password, parsed.database) == (username, password, database)


@given(st.text(alphabet="ab1:@/?&=;,.%[]+$ ü2F", max_size=40), st.sampled_from(["mongodb://", "mongodb+srv://"]))
def test_any_text_is_parsed_or_refused(text: str, scheme: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parsed = parse_uri(scheme + text)
        except ConfigurationError:
            return
    assert parsed.hosts or parsed.srv_host


def test_what_no_message_can_hold() -> None:
    for uri in ("mongodb://secret\ud800@a/", "mongodb://u:secret\ud800@a/", "mongodb://a/?appname=secret\ud800"):
        with pytest.raises(InvalidURI, match="cannot be encoded as UTF-8") as caught:
            parse_uri(uri)
        assert "secret" not in repr(caught.value)
        assert caught.value.__context__ is None


def test_warnings_come_before_what_raises() -> None:
    with (
        pytest.warns(UserWarning, match="unknown option 'foo'"),
        pytest.raises(ConfigurationError, match="exactly one host"),
    ):
        parse_uri("mongodb://a,b/?foo=bar&directConnection=true")
