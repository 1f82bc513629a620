"""What SRV and TXT records mean."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._options import srv as records
from motorlite._options.options import client_options
from motorlite._options.srv import SRVRecords
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._base.values import Address
    from motorlite._options.parts import SRV

A, B, C, D = [(f"{name}.example.com", 27017) for name in "abcd"]


def srv(host: str = "cluster.example.com", query: str = "") -> SRV:
    found = client_options(f"mongodb+srv://{host}/?{query}").srv
    assert found is not None
    return found


def first(_: int) -> int:
    return 0


def last(limit: int) -> int:
    return limit - 1


@pytest.mark.parametrize(
    ("host", "query", "name"),
    [
        ("cluster.example.com", "", "_mongodb._tcp.cluster.example.com"),
        ("CLUSTER.example.com.", "", "_mongodb._tcp.cluster.example.com"),
        ("localhost", "", "_mongodb._tcp.localhost"),
        ("cluster.example.com", "srvServiceName=other-name", "_other-name._tcp.cluster.example.com"),
        ("db.b%C3%BCcher.example", "", "_mongodb._tcp.db.xn--bcher-kva.example"),
    ],
)
def test_what_is_asked_for(host: str, query: str, name: str) -> None:
    assert records.query_name(srv(host, query)) == name
    assert name.endswith(f"._tcp.{records.txt_name(srv(host, query))}")


def test_a_name_that_dns_cannot_have() -> None:
    with pytest.raises(ConfigurationError, match="is not a host name"):
        records.query_name(srv("%C3%BC" * 70 + ".example.com"))


@pytest.mark.parametrize(
    ("domain", "hosts"),
    [
        ("tests.mongodb.co.uk", ["cluster_1.tests.mongodb.co.uk"]),
        ("example.com", ["hosts_34.example.com", "hosts_34.EXAMPLE.com."]),
        ("localhost", ["localhost"]),
        ("mongodb.local", ["mongodb.local", "mongodb.local."]),
    ],
)
def test_domain(domain: str, hosts: list[str]) -> None:
    assert [records.domain(srv(host)) for host in hosts] == [domain] * len(hosts)


@pytest.mark.parametrize(
    ("host", "allowed", "refused"),
    [
        (
            "cluster.example.com",
            [
                *("a.example.com", "A.Example.COM", "a.example.com.", "a.b.c.example.com", "cluster.example.com"),
                "a_b.example.com",
            ],
            [
                *("example.com", ".example.com", "a.evilexample.com", "a.example.com.evil.org", "com", ".", ""),
                *("evil\\.example.com", "evil\\.a.example.com", "evil.org\\000.example.com", "evil.org\0.example.com"),
                *("a..example.com", "a b.example.com", "\u00fc.example.com"),
            ],
        ),
        ("localhost", ["a.localhost"], ["localhost", "a.xlocalhost"]),
        ("mongo.local", ["a.mongo.local"], ["mongo.local", "other.local"]),
        ("db.b%C3%BCcher.example", ["a.xn--bcher-kva.example"], []),
        ("a.mongo.local", [], ["x.evil\\.mongo.local"]),
    ],
)
def test_hosts_are_below_the_domain(host: str, allowed: list[str], refused: list[str]) -> None:
    for target in (*allowed, *refused):
        verified, foreign = records.verify(srv(host), [(target, 1)])
        name = target.removesuffix(".").lower()
        assert (verified, foreign) == ((((name, 1),), ()) if target in allowed else ((), (name,))), target


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_where_no_server_listens_is_refused(port: int) -> None:
    hosts = [A, ("b.example.com", port)]
    assert records.verify(srv(), hosts) == ((A,), (f"b.example.com:{port}",))
    with pytest.raises(ConfigurationError, match=rf"point to b\.example\.com:{port}, which .* or has port 0"):
        seeds(hosts)


def test_hosts_are_taken_once() -> None:
    hosts = [("b.example.com", 2), ("B.EXAMPLE.COM", 2), ("b.example.com", 1), ("x.org", 1), ("x.org", 2)]
    verified, foreign = records.verify(srv(), hosts)
    assert verified == (("b.example.com", 2), ("b.example.com", 1))
    assert foreign == ("x.org",)


def seeds(found: Sequence[Address], query: str = "") -> tuple[Address, ...]:
    return records.initial_seeds(srv(query=query), SRVRecords(tuple(found), 60), last)


def test_seeds() -> None:
    assert seeds([B, A, B]) == (B, A)
    for most in (0, 2, 3):
        assert seeds([B, A], f"srvMaxHosts={most}") == (B, A)
    assert seeds([A, B, C], "srvMaxHosts=2") == (C, A)
    many = [(f"h{number}.example.com", 1) for number in range(2000)]
    assert len(seeds(many[:500])) == len(seeds(many, "srvMaxHosts=500")) == 500


@pytest.mark.parametrize(
    ("hosts", "query", "text"),
    [
        ([], "", r"_mongodb\._tcp\.cluster\.example\.com: there are no SRV records"),
        ([A, ("a.evil.org", 1)], "", r"point to a\.evil\.org, which is not below 'example\.com'"),
        (
            [(f"h{number}.org", 1) for number in range(1000)],
            "",
            r"point to h0\.org, .*, h4\.org and 995 more, which is not below",
        ),
        (
            [("a.example.com", n) for n in range(1, 502)],
            "",
            "there are 501 SRV records, at most 500 .*; set srvMaxHosts",
        ),
        ([("a.example.com", n) for n in range(1, 601)], "srvMaxHosts=501", "there are 600 SRV records, at most 500"),
    ],
)
def test_seeds_that_must_not_be_used(hosts: list[Address], query: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        seeds(hosts, query)


@given(st.lists(st.integers(), unique=True, max_size=8), st.data())
def test_a_sample_has_so_many_different_items(items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    chosen = records.sample(items, count, lambda limit: data.draw(st.integers(0, limit - 1)))
    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= set(items)


def test_a_sample_is_fair_and_leaves_the_items_alone() -> None:
    generator = random.Random(1)
    items = [0, 1, 2, 3]
    counts = Counter(records.sample(items, 2, generator.randrange) for _ in range(12_000))
    assert items == [0, 1, 2, 3]
    assert len(counts) == 12
    assert all(800 < count < 1200 for count in counts.values())


@pytest.mark.parametrize(
    ("known", "verified", "most", "expected"),
    [
        ([A, B], (B, A), 0, {A, B}),
        ([A, B], (A, B, C), 0, {A, B, C}),
        ([A, B], (A,), 0, {A}),
        ([A, B], (C, D), 0, {C, D}),
        ([], (C, D), 0, {C, D}),
        ([A, B], (A, C, D), 3, {A, C, D}),
        ([A, B], (C, D), 2, {C, D}),
        ([A, B], (A, C, D), 2, {A, C}),
        ([A, B], (A, B, C), 2, {A, B}),
        ([A, B], (A, B, C), 1, {A, B}),
        ([A, B], (B, C, D), 1, {B}),
        ([A], (B, C, D), 2, {B, C}),
    ],
)
def test_hosts_after_a_rescan(
    known: list[Address], verified: tuple[Address, ...], most: int, expected: set[Address]
) -> None:
    found = records.next_hosts(srv(query=f"srvMaxHosts={most}"), known, verified, first)
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_new_hosts_are_chosen_at_random() -> None:
    assert records.next_hosts(srv(query="srvMaxHosts=2"), [A, B], (A, C, D), last) == (A, D)


def test_txt_records() -> None:
    assert records.txt_record(srv(), []) is None
    assert records.txt_record(srv(), [[b"replicaS", b"et=r", b"s"]]) == "replicaSet=rs"
    with pytest.raises(ConfigurationError, match="2 TXT records, but only one"):
        records.txt_record(srv(), [[b"replicaSet=rs"], [b"authSource=a"]])
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        records.txt_record(srv(), [[b"replicaSet=\xff"]])


def test_when_to_ask_again() -> None:
    assert [records.rescan_interval(ttl) for ttl in (0, 59, 60, 61, 86400)] == [60, 60, 60, 61, 86400]
    assert [records.rescan_interval(ttl) for ttl in (86401, 2**31 - 1, float("inf"))] == [86400] * 3


# --- the application's own rule ---


def ruled(validator: Any) -> SRV:
    found = client_options("mongodb+srv://cluster.example.com/", srv_host_validator=validator).srv
    assert found is not None
    return found


def test_the_applications_own_rule_replaces_that_of_the_domain() -> None:
    seen: list[str] = []

    def validator(name: str) -> bool:
        seen.append(name)
        return name.endswith(".internal")

    other = ("A.Internal.", 27017)
    assert records.verify(ruled(validator), [A, other, ("b.internal", 0)]) == (
        (("a.internal", 27017),),
        ("a.example.com", "b.internal:0"),
    )
    assert seen == ["a.example.com", "a.internal", "b.internal"]
    with pytest.raises(ConfigurationError, match=r"a\.example\.com, which is refused by srv_host_validator or"):
        records.initial_seeds(ruled(validator), SRVRecords((A,), 60), first)


def test_wrong_rules() -> None:
    for validator, message in (
        (lambda _: 1, r"must return True or False for 'a\.example\.com', not 1"),
        (lambda _: 1 / 0, r"srv_host_validator failed for 'a\.example\.com': ZeroDivisionError"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            records.verify(ruled(validator), [A])
    with pytest.raises(ConfigurationError, match="srv_host_validator is only for connection strings that begin with"):
        client_options("mongodb://localhost", srv_host_validator=bool)
    with pytest.raises(ConfigurationError, match="srv_host_validator must be a function of a host name"):
        client_options("mongodb+srv://cluster.example.com", srv_host_validator="all")
    assert client_options("mongodb://localhost", srv_host_validator=None).srv is None
