"""Connection strings: what the public suites do not ask."""

from __future__ import annotations

import warnings
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._options.table import BY_NAME
from motorlite._options.uri import ParsedURI, hosts_alone, parse_txt_record
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
    # A plus sign is no space.
    parsed = parse_uri("mongodb://u%40x:p%2Fw+x@Host,[::1]:1,%2Ftmp%2FA.sock/db.coll.x?w=2&appname=a%26b")
    assert parse_uri("mongodb://a/?w=1;journal=true").options == {"w": 1, "journal": True}
    assert parsed.hosts == (("host", 27017), ("::1", 1), ("/tmp/A.sock", None))
    assert (parsed.username, parsed.password) == ("u@x", "p/w+x")
    assert (parsed.database, parsed.collection) == ("db", "coll.x")
    assert parsed.options == {"w": 2, "appname": "a&b"}
    assert parsed.srv_host is None


def test_srv() -> None:
    parsed = parse_uri("mongodb+srv://u:p@Cluster.Example.com/?srvServiceName=my-mongo&srvMaxHosts=3")
    assert parsed.srv_host == "cluster.example.com"
    assert parsed.hosts == ()
    assert parsed.options == {"srvServiceName": "my-mongo", "srvMaxHosts": 3}


def test_a_password_that_is_encoded_as_documented() -> None:
    password = " +%2B:/?#[]@&;=é"
    parsed = parse_uri(f"mongodb://{quote(password, safe='')}:{quote(password, safe='')}@a/")
    assert (parsed.username, parsed.password) == (password, password)


@pytest.mark.parametrize(
    ("uri", "hosts"),
    [
        ("mongodb://a,A,b:1", [("a", 27017), ("b", 1)]),
        # The zone of a link-local address.
        ("mongodb://[fe80::1%25eth0]:9", [("fe80::1%eth0", 9)]),
        # The case of a network interface's name matters.
        ("mongodb://[FE80::1%25enP2p1s0]", [("fe80::1%enP2p1s0", 27017)]),
        ("mongodb://b%C3%BCcher.example.com", [("bücher.example.com", 27017)]),
    ],
)
def test_hosts(uri: str, hosts: list[tuple[str, int]]) -> None:
    assert parse_uri(uri).hosts == tuple(hosts)


def test_hosts_alone() -> None:
    # The path of a socket is taken literally.
    assert hosts_alone("/tmp/a%20b.sock,h:1,i", 7) == (("/tmp/a%20b.sock", None), ("h", 1), ("i", 7))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,,b", "host number 2 is empty"),
        *((empty, "^the connection string is empty: write one such as 'mongodb://localhost") for empty in ("", "  ")),
        *(
            (text, "^the connection string has no scheme: it begins with ")
            for text in ("localhost/shop", "u:p@localhost", "localhost?tls=true", "mongodb:/localhost")
        ),
    ],
)
def test_wrong_hosts_alone(text: str, message: str) -> None:
    with pytest.raises(InvalidURI, match=message) as caught:
        hosts_alone(text, 27017)
    assert "p@" not in str(caught.value)


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
        ("mongodb://%2Ftmp%2Fa%00.sock", "contains a NUL"),
        *(
            (f"mongodb://{host}", "not an IPv6 address")
            for host in ("[::1", "[::1]x", "[127.0.0.1]", "[::1%25a%00.mongodb.net]", "[::1%25a%20b]")
        ),
        *(
            (f"mongodb://{host}", "malformed")
            for host in ("a b", "a%40b", "a%zz", ":1", "a%00b", "a%00.mongodb.net", ".a", "a..b", "a%E2%80%8Bb")
        ),
        ("mongodb://a%FF", "not UTF-8"),
        ("mongodb://u%FF@a", "username is not UTF-8"),
        ("mongodb://u:%FF@a", "password is not UTF-8"),
        ("mongodb://a/%FF", "database is not UTF-8"),
        *((f"mongodb://a:{port}", "from 1 to 65535") for port in ("", "+1", "٣", "000001", "27017 ,b")),
        *((f"mongodb://a/{name}", "database") for name in (".coll", "d$b", "d.c%2Fx")),
        ("mongodb+srv://a,b", "exactly one"),
        ("mongodb+srv://a:1", "without a port"),
        ("mongodb+srv://127.0.0.1", "did you mean mongodb://"),
        ("mongodb+srv://%2Ftmp%2Fa.sock", "did you mean mongodb://"),
        *((f"mongodb://a/?{options}", "name=value") for options in ("w=1&journal", "=1", "w=1&")),
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
    ("uri", "text"),
    [
        ("mongodb://a/?tlsInsecure=true&tlsAllowInvalidHostnames=false", "tlsInsecure and tlsAllowInvalidHostnames"),
        ("mongodb://a/?tlsCRLFile=a&tlsInsecure=true", "tlsInsecure=True cannot be combined with tlsCRLFile"),
        ("mongodb://a/?proxyPort=1", "proxyPort needs proxyHost"),
        ("mongodb://a/?proxyHost=a&proxyUsername=b", "must be set together"),
        ("mongodb://a/?minPoolSize=3&maxPoolSize=2", "minPoolSize=3 must not be greater than maxPoolSize=2"),
        ("mongodb://a/?loadBalanced=true&replicaSet=a", "loadBalanced=True cannot be combined with replicaSet"),
        ("mongodb://a/?loadBalanced=true&directConnection=true", "combined with directConnection"),
        ("mongodb://a/?srvMaxHosts=0", "srvMaxHosts is only for"),
        ("mongodb://a/?authMechanismProperties=CANONICALIZE_HOST_NAME:maybe", "CANONICALIZE_HOST_NAME must be one of"),
        ("mongodb://a,b/?directConnection=true", "directConnection=True needs exactly one host, not 2"),
        ("mongodb://a,b/?loadBalanced=true", "loadBalanced=True needs exactly one host, not 2"),
        ("mongodb+srv://a.b.c/?directConnection=true", "directConnection=True cannot be combined with mongodb"),
        ("mongodb+srv://a.b.c/?srvMaxHosts=2&replicaSet=a", "srvMaxHosts=2 cannot be combined"),
        ("mongodb+srv://a.b.c/?srvMaxHosts=2&loadBalanced=true", "srvMaxHosts=2 cannot be combined"),
    ],
)
def test_contradictions(uri: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse_uri(uri)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("maxPoolSise=5", "unknown option 'maxpoolsise' .* did you mean maxPoolSize"),
        ("somethingElse=5", "unknown option 'somethingelse' in the connection string is ignored$"),
        # Objects cannot come from a connection string.
        ("document_class=dict", "unknown option 'document_class' .* ignored; pass it to AsyncMongoClient"),
        ("username=a", "unknown option 'username' .* ignored; write mongodb://username:password@host, or pass it"),
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
        # A comma in a property spoils all properties.
        ("authMechanismProperties=TOKEN_RESOURCE:x%2Cy,ENVIRONMENT:azure", "authMechanismProperties must be"),
        ("authMechanismProperties=OIDC_CALLBACK:a", "OIDC_CALLBACK, which must be passed as"),
        ("authMechanismProperties=ENVIROMENT:a", "the unknown name 'ENVIROMENT'; did you mean ENVIRONMENT"),
        ("readPreference=Primary", "readPreference must be"),
        ("uuidRepresentation=new", "uuidRepresentation must be one of"),
        ("datetime_conversion=9", "datetime_conversion must be"),
    ],
)
def test_what_is_wrong_is_ignored_with_a_warning(options: str, text: str) -> None:
    assert parse_with_warning(f"mongodb://a/?{options}", text).options == {}


@pytest.mark.parametrize(
    ("options", "text", "category", "expected"),
    [
        ("compressors=zstd, snoopy,zlib", ".*, not 'snoopy'; ignored", UserWarning, {"compressors": ["zstd", "zlib"]}),
        ("w=1&W=2", "w appears more than once", UserWarning, {"w": 2}),
        ("wtimeout=5", "'wtimeout' .* is deprecated, use wTimeoutMS", DeprecationWarning, {"wTimeoutMS": 5}),
        ("j=true&journal=false", "'j' .* is ignored in favour of journal", DeprecationWarning, {"journal": False}),
    ],
)
def test_the_rest_counts(options: str, text: str, category: type[Warning], expected: dict[str, object]) -> None:
    assert parse_with_warning(f"mongodb://a/?{options}", text, category).options == expected


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
        # Empty credentials say that there are none.
        ("proxyHost=b&proxyUsername=&proxyPassword=", "proxyHost", "b"),
        (
            "authMechanismProperties=service_name:x,CANONICALIZE_HOST_NAME:true",
            "authMechanismProperties",
            {"SERVICE_NAME": "x", "CANONICALIZE_HOST_NAME": "forwardAndReverse"},
        ),
    ],
)
def test_values(text: str, name: str, value: object) -> None:
    assert parse_uri(f"mongodb://a/?{text}").options == {name: value}


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
    assert SECRET not in str(caught[0].message) + repr(parsed) + parsed.refusals["authMechanismProperties"]
    assert "refusals" not in repr(parsed)


def test_txt_records() -> None:
    options, notes = parse_txt_record("authSource=a&replicaSet=b&loadBalanced=false")
    assert options == {"authSource": "a", "replicaSet": "b", "loadBalanced": False}
    assert notes == []
    options, notes = parse_txt_record("loadBalanced=maybe&replicaSet=&authSource=a")
    assert options == {"authSource": "a"}
    assert [note.text.split()[0] for note in notes] == ["loadBalanced", "replicaSet"]


@pytest.mark.parametrize(
    ("records", "kind", "text"),
    [
        (
            ["tls=false", "ssl=false", "authSource=a&w=1", "foo=bar", "replicaSet=b&wtimeout=1"],
            ConfigurationError,
            "may only have the options authSource",
        ),
        (
            ["authSource", "authSource=a&", "=a"],
            InvalidURI,
            "the TXT record .* is malformed",
        ),
        (["authSource="], InvalidURI, "the TXT record 'authSource=' cannot be used: authSource must not be empty"),
        (
            ["authSource=%FF", "replicaSet=a&authSource=%FF", "replicaSet=%C3", "loadBalanced=%FF"],
            InvalidURI,
            "the TXT record .* is malformed: the percent-encoding of .* is not UTF-8",
        ),
    ],
)
def test_wrong_txt_records(records: list[str], kind: type[Exception], text: str) -> None:
    for record in records:
        with pytest.raises(kind, match=text):
            parse_txt_record(record)


@pytest.mark.parametrize("begins", ["x", "tls=", "authSource=%FF"])
def test_a_long_txt_record_is_not_shown_as_a_whole(begins: str) -> None:
    record = begins + "x" * 60_000
    with pytest.raises(ConfigurationError) as caught:
        parse_txt_record(record)
    assert record[:100] in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "option",
    [
        *("tls=maybe", "TLS=True", "tls=", "tls=%FF", "ssl=yes", "ssl=", "tlsInsecure=1"),
        *("tlsAllowInvalidCertificates=no", "tlsAllowInvalidHostnames=0", "tlsDisableOCSPEndpointCheck=x"),
        *("tlsDisableCertificateRevocationCheck=x", "tlsCAFile=", "tlsCAFile=%FF", "tlsCertificateKeyFile="),
        *("tlsCertificateKeyFilePassword=%FF", "tlsCRLFile=", "authMechanism=SCRAM-SHA-512", "authMechanism="),
        *("authMechanism=%FF", "authMechanismProperties=x", "authMechanismProperties=", "authSource=%FF"),
    ],
)
def test_a_wrong_option_of_tls_or_authentication_is_refused_by_name(option: str) -> None:
    name = BY_NAME[option.partition("=")[0].lower().replace("ssl", "tls")].name
    parsed = parse_with_warning(f"mongodb://a/?{option}&w=1", f"{name}.*; a client with this connection string sends")
    assert parsed.options == {"w": 1}
    assert list(parsed.refusals) == [name]
    assert name in parsed.refusals[name]


def test_other_wrong_options_are_ignored() -> None:
    for option in ("w=-1", "maxPoolSize=x", "proxyPort=x", "tlsx=1", "authx=1", "sslInvalidHostNameAllowed=true"):
        assert parse_with_warning(f"mongodb://a/?{option}", "ignored").refusals == {}


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


@pytest.mark.parametrize(
    "uri",
    [
        *("mongodb://a:27017\n", " mongodb://a", "mongodb://u:p@a\n", "mongodb+srv://a.b.c \n", "mongodb://a/\n"),
        *("mongodb://a/shop\n", "mongodb://u:p@a/shop\r\n", "\nmongodb://a/?tls=true"),
    ],
)
def test_white_space_around_a_connection_string(uri: str) -> None:
    with pytest.raises(InvalidURI, match=r"^white space precedes or follows the connection string: remove it"):
        parse_uri(uri)
    with pytest.raises(InvalidURI) as caught:
        parse_uri("mongodb://a:b")
    assert "white space" not in str(caught.value)
    assert parse_uri("mongodb://a/shop%0A").database == "shop\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_white_space_after_the_options_of_a_connection_string(end: str) -> None:
    assert parse_uri(f"mongodb://a/shop?replicaSet=rs0{end}") == parse_uri("mongodb://a/shop?replicaSet=rs0")
    assert parse_uri(f"mongodb://a/?w=1&tls=true{end}").options == {"w": 1, "tls": True}
    assert parse_uri(f"mongodb://a/?appName=x%20{end}").options == {"appname": "x "}
