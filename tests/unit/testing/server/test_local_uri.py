from __future__ import annotations

import pytest

from motorlite.testing.server.local_uri import read_uri


@pytest.mark.parametrize(
    ("uri", "addresses"),
    [
        ("mongodb://localhost", [("localhost", 27017)]),
        ("mongodb://LocalHost:5/", [("localhost", 5)]),
        ("mongodb://a:1,b,[::1]:3,[::1]/db?x=y", [("a", 1), ("b", 27017), ("::1", 3), ("::1", 27017)]),
        ("mongodb://%2Ftmp%2Fm.sock/", [("/tmp/m.sock", None)]),
        ("mongodb://u:p@h/", [("h", 27017)]),
    ],
)
def test_addresses(uri: str, addresses: list[tuple[str, int | None]]) -> None:
    assert list(read_uri(uri).addresses) == addresses


@pytest.mark.parametrize(
    "uri",
    ["", "http://localhost", "mongodb+srv://example.com", "mongodb://", "mongodb://h:x", "mongodb://h,,i"],
)
def test_what_is_not_a_uri_with_addresses_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="MONGODB_URI"):
        read_uri(uri)


LOCAL = ("localhost", "127.0.0.1", "127.1.2.3:5", "[::1]", "%2Ftmp%2Fm.sock")
REMOTE = (
    *("localhost,db.example.com", "127.0.0.1.example.com", "localhost.example.com"),
    *("0.0.0.0", "192.168.0.1", "[2001:db8::1]"),
)


def test_only_this_machine_is_local() -> None:
    assert [hosts for hosts in (*LOCAL, *REMOTE) if read_uri(f"mongodb://{hosts}/").is_local] == list(LOCAL)


def test_the_user_and_where_it_is_kept() -> None:
    assert read_uri("mongodb://h/").username is None
    target = read_uri("mongodb://me%40x:p%3Aw@h/data")
    assert (target.username, target.password, target.source) == ("me@x", "p:w", "data")
    assert read_uri("mongodb://me:p@h/data?authSource=other").source == "other"
    assert read_uri("mongodb://me@h/").password is None


@pytest.mark.parametrize(
    ("query", "tls", "verifies"),
    [
        ("", False, True),
        ("?tls=true", True, True),
        ("?ssl=true", True, True),
        ("?tls=false", False, True),
        ("?tls=true&tlsInsecure=true", True, False),
        ("?tls=true&tlsAllowInvalidCertificates=true", True, False),
    ],
)
def test_tls(query: str, tls: bool, verifies: bool) -> None:
    target = read_uri(f"mongodb://h/{query}")
    assert (target.tls, target.verifies) == (tls, verifies)
