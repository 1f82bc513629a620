"""What the doctor says about facts: values in, findings out."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from motorlite._connection.handshake import parse_hello
from motorlite._net.probe import Reached, TLSLook
from motorlite._options.options import client_options
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyDescription
from motorlite.doctor import _access as access
from motorlite.doctor import _configuration as configuration
from motorlite.doctor import _deployment as deployment
from motorlite.doctor import _network as network
from motorlite.doctor._finding import Finding, Secrets, Severity, Step, exit_status
from motorlite.errors import ConfigurationError, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

SERVER = "a:1"
PRIMARY = {
    "ok": 1,
    "setName": "rs",
    "hosts": [SERVER],
    "me": SERVER,
    "isWritablePrimary": True,
    "minWireVersion": 0,
    "maxWireVersion": 17,
    "tags": {"dc": "x"},
}


def errors(findings: Iterable[Finding]) -> list[str]:
    return [each.text for each in findings if each.severity is Severity.ERROR]


def warnings_of(uri: str) -> str:
    found = configuration.judge_options(client_options(uri), [])
    return "\n".join(f"{each.text}; {each.advice}" for each in found if each.severity is Severity.WARNING)


# --- findings ---


def test_the_status_is_that_of_the_first_step_that_fails() -> None:
    late = Finding(Step.SELECTION, Severity.ERROR, "a")
    early = Finding(Step.TLS, Severity.ERROR, "b")
    warning = Finding(Step.URI, Severity.WARNING, "c")
    assert exit_status([]) == 0
    assert exit_status([warning]) == 0
    assert exit_status([late, warning, early]) == Step.TLS.value


def test_secrets_are_hidden_everywhere() -> None:
    finding = Finding(
        Step.URI, Severity.OK, "a hunter2", "b hunter2", "hunter2:1", {"a": ["hunter2"], "b": {"c": "hunter2"}}
    )
    cleaned = Secrets(("hunter2",)).cleaned(finding)
    assert "hunter2" not in repr(cleaned)
    assert cleaned.facts == {"a": ["***"], "b": {"c": "***"}}
    assert "hunter2" not in repr(Secrets(("hunter2",)))


def test_what_a_server_says_can_neither_move_the_cursor_nor_begin_a_line() -> None:
    said = "Größe\x1b[2J\r\n  ok      all is well"
    cleaned = Secrets().cleaned(Finding(Step.ACCESS, Severity.ERROR, said, said))
    assert cleaned.text == cleaned.advice == r"Größe\x1b[2J\r\n  ok      all is well"


# --- the connection string ---


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://localhost", ""),
        ("mongodb://u:p@localhost/shop", "add authSource=admin"),
        ("mongodb://u:p@localhost/shop?authSource=shop", ""),
        ("mongodb://u:p@db.example.com", "without TLS"),
        ("mongodb://a/?tls=true&tlsAllowInvalidCertificates=true", "pretend to be the server"),
        ("mongodb://a/?tls=true&tlsAllowInvalidHostnames=true", "connect to a name in the certificate"),
        ("mongodb://a/?maxPoolSize=0", "set maxPoolSize"),
        ("mongodb://a/?connectTimeoutMS=0", "without a limit"),
        ("mongodb://a/?w=0", "nothing reports a write that fails"),
        ("mongodb://a/?socketTimeoutMS=1000", "pile up"),
    ],
)
def test_doubtful_options(uri: str, expected: str) -> None:
    found = warnings_of(uri)
    assert expected in found
    assert bool(found) is bool(expected)


def test_the_parts_are_shown_without_the_password() -> None:
    text = configuration.describe_options(client_options("mongodb://u:hunter2@a,b:2/shop?replicaSet=rs&tls=true"))
    assert text == (
        "hosts a:27017, b:2; user 'u', password ***, authSource 'shop', mechanism by negotiation; TLS; "
        "database 'shop'; replicaSet 'rs'; read preference primary"
    )


def test_more_parts() -> None:
    described = configuration.describe_options
    assert "; directConnection; read" in described(client_options("mongodb://a/?directConnection=true"))
    assert "; loadBalanced; read" in described(client_options("mongodb://a/?loadBalanced=true"))


def test_all_secrets_of_the_options() -> None:
    uri = (
        "mongodb://u:pass-word@a/?tls=true&tlsCertificateKeyFile=f&tlsCertificateKeyFilePassword=key-word&proxyHost=p&proxyUsername=u"
        "&proxyPassword=proxy-word"
    )
    hidden = configuration.secrets_of(client_options(uri)).hide("pass-word key-word proxy-word a")
    assert hidden == "*** *** *** a"


@pytest.mark.parametrize("user", ["admin:admin", "root:root", "mongodb:mongodb", "ada:shop", "ada:admin"])
def test_a_password_that_is_a_name_too_leaves_the_names(user: str) -> None:
    options = client_options(f"mongodb://{user}@mongodb/shop")
    advice = "user 'root' of 'shop' at mongodb:27017: most users are in admin: add authSource=admin if yours is"
    assert configuration.secrets_of(options).hide(advice) == advice
    assert configuration.secrets_of(client_options("mongodb://ada:hunter2@mongodb/shop")).hide("hunter2") == "***"


def test_a_doubtful_option_that_is_refused_is_reported_once() -> None:
    with pytest.warns(UserWarning, match="maybe"):
        options = client_options("mongodb://a/?tls=maybe")
    (refusal,) = options.refusals
    found = list(configuration.judge_options(options, [str(refusal), "something else"]))
    assert [each.severity.value for each in found] == ["ok", "error", "warning"]


@pytest.mark.parametrize(
    ("name", "host", "expected"),
    [
        ("x.cluster.example.com", "a.example.com", "such as 'cluster.example.com'"),
        ("y.x.cluster.example.com", "a.cluster.example.com", "such as 'x.cluster.example.com'"),
        ("cluster.example.com", "a.other.com", "may only point below 'example.com'"),
    ],
)
def test_records_outside_the_domain(name: str, host: str, expected: str) -> None:
    srv = client_options(f"mongodb+srv://{name}/").srv
    assert srv is not None
    (finding,) = configuration.judge_records(srv, [(host, 27017)], None)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


# --- addresses ---


def reached(error: str | None, ip: str = "127.0.0.1") -> Reached:
    return Reached(ip, "IPv6" if ":" in ip else "IPv4", 0.25, error)


def test_one_address_of_two_is_a_warning_but_for_localhost() -> None:
    both = [reached("refused", "::1"), reached(None)]
    for server, expected in (("localhost:1", Severity.NOTE), ("db.example.com:1", Severity.WARNING)):
        good, other = network.judge_addresses(server, both, is_from_set=False, is_in_container=False)
        assert (good.severity, other.severity) == (Severity.OK, expected)
        assert good.facts == {"addresses": {"::1": "refused", "127.0.0.1": 250.0}}


@pytest.mark.parametrize("is_in_container", [True, False])
def test_localhost_in_a_container(is_in_container: bool) -> None:
    (finding,) = network.judge_addresses(
        "localhost:1", [reached("refused")], is_from_set=False, is_in_container=is_in_container
    )
    assert ("the container itself" in finding.advice) is is_in_container


@pytest.mark.parametrize(("is_from_set", "expected"), [(True, "rs.conf()"), (False, "spelling")])
def test_a_name_without_an_address(is_from_set: bool, expected: str) -> None:
    finding = network.unresolved(SERVER, "no such name", is_from_set=is_from_set)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("timeout", "a firewall drops the packets"),
        ("refused", "nothing listens there"),
        ("No route to host", "check the route"),
    ],
)
def test_a_host_that_cannot_be_reached(error: str, expected: str) -> None:
    (finding,) = network.judge_addresses("db:1", [reached(error)], is_from_set=True, is_in_container=True)
    assert finding.severity is Severity.ERROR
    assert finding.advice.startswith(expected)
    assert network.FROM_CONFIGURATION in finding.advice
    assert "container" not in finding.advice


# --- TLS ---

DAY = 86_400.0
NOW = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)


def certificate(days: float = 90.0) -> bytes:
    """A certificate for db.example.com in DER, which is valid for so many days from `NOW` on."""
    leaf = trustme.CA(organization_name="The Authority").issue_cert(
        "db.example.com",
        not_before=NOW - datetime.timedelta(days=400),
        not_after=NOW + datetime.timedelta(days=days),
    )
    return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())


def look_at(look: TLSLook, options: str = "") -> list[Finding]:
    tls = client_options(f"mongodb://a/?tls=true{options}").tls
    assert tls is not None
    return list(network.judge_tls("db:1", look, tls, NOW.timestamp()))


@pytest.mark.parametrize(("days", "severities"), [(90, ["ok"]), (20, ["ok", "warning"]), (-1, ["ok", "warning"])])
def test_a_certificate_and_its_end(days: float, severities: list[str]) -> None:
    found = look_at(TLSLook("TLSv1.3", "AES", (certificate(days),)), "&tlsAllowInvalidCertificates=true")
    assert [each.severity.value for each in found] == severities
    assert "for db.example.com" in found[0].text
    assert "not checked" in found[0].text
    assert found[0].facts["names"] == ["db.example.com"]
    assert ("expired on 2026-01-30" in found[-1].text) is (days < 0)
    assert ("expires in 20 days" in found[-1].text) is (days == 20)


def test_a_chain_is_shown_up_to_its_authority() -> None:
    own = certificate()
    (finding,) = look_at(TLSLook("TLSv1.3", "AES", (own, own)))
    assert finding.text.count(" <- ") == 2
    assert ", trusted" in finding.text


@pytest.mark.parametrize(
    ("look", "text", "advice"),
    [
        (TLSLook(error="e", verify_code=10, chain=(b"own",)), "the certificate expired on 2026-05-01", "renew it"),
        (TLSLook(error="e", verify_code=9, chain=(b"own",)), "not valid before 2024-12-27", "correct the clock"),
        (TLSLook(error="e", verify_code=62, chain=(b"own",)), "is for db.example.com, not for db", "a name in the"),
        (TLSLook(error="e", verify_code=20, chain=(b"own",)), "issued by 'The Authority'", "set tlsCAFile"),
        # It could not be read.
        (TLSLook(error="refused it", verify_code=20), "the handshake failed: refused it", "is TLS enabled"),
        (TLSLook(error="timeout"), "no answer to the TLS handshake", "is TLS enabled on it?"),
        (TLSLook(error="EOF", is_closed=True), "closed the connection during the handshake: EOF", "remove tls=true"),
        (TLSLook(error="[SSL: WRONG_VERSION_NUMBER] x"), "what answers does not speak TLS", "remove tls=true"),
    ],
)
def test_a_refused_handshake(look: TLSLook, text: str, advice: str) -> None:
    (finding,) = look_at(replace(look, chain=(certificate(),)) if look.chain else look)
    assert finding.severity is Severity.ERROR
    assert text in finding.text
    assert advice in finding.advice


# --- servers ---


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, "replicaSet=rs", None),
        ({}, "replicaSet=other", "the set is called 'rs'"),
        ({"setName": None}, "replicaSet=rs", "no member of a replica set"),
        ({"isreplicaset": True}, "", "not initiated"),
        ({"maxWireVersion": 2}, "", "requires"),
    ],
)
def test_hello(changes: dict[str, Any], options: str, expected: str | None) -> None:
    reply = {**PRIMARY, **changes}
    facts = parse_hello(("a", 1), reply, False, check_versions=False).facts
    found = list(deployment.judge_hello(("a", 1), reply, facts, client_options(f"mongodb://a/?{options}"), (), "7.0.1"))
    assert found[0].facts["version"] == "7.0.1"
    assert bool(errors(found)) is (expected is not None)
    assert (expected or "") in "".join(errors(found))


def test_compressors() -> None:
    facts = parse_hello(("a", 1), PRIMARY, False).facts
    options = client_options("mongodb://a")
    for offered, severities in ((["zlib"], ["ok"]), ([], ["ok", "warning"])):
        reply = {**PRIMARY, "compression": offered}
        found = deployment.judge_hello(("a", 1), reply, facts, options, ("zlib",), "")
        assert [each.severity.value for each in found] == severities


@pytest.mark.parametrize(
    ("mechanisms", "extra", "problem", "code", "expected"),
    [
        (["SCRAM-SHA-1"], "", OperationFailure("no", 18), 18, "the password is wrong"),
        ([], "", OperationFailure("no", 18), 18, "knows no user 'u' in 'admin'"),
        (["SCRAM-SHA-1"], "authMechanism=SCRAM-SHA-256", OperationFailure("no", 18), 18, "change authMechanism"),
        (None, "", ConfigurationError("no"), None, "correct the options"),
        (None, "", OperationFailure("no", 1), 1, "log says why"),
    ],
)
def test_refused_authentication(
    mechanisms: list[str] | None, extra: str, problem: Exception, code: int | None, expected: str
) -> None:
    options = client_options(f"mongodb://u:p@a/?{extra}")
    finding = deployment.judge_authentication(SERVER, mechanisms, options, problem, code)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


def test_refused_write() -> None:
    reply = {"ok": 1, "writeErrors": [{"code": 13, "errmsg": "not authorized"}]}
    finding = access.judge_command(SERVER, "write", "shop.c", reply, ["read on 'shop'"])
    assert finding.severity is Severity.ERROR
    assert finding.advice.startswith("the connection has read on 'shop': grant the role readWrite on 'shop'")


@pytest.mark.parametrize(("share", "expected"), [(0.01, 1), (0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10)])
def test_percentiles(share: float, expected: int) -> None:
    assert deployment.percentile(list(range(1, 11)), share) == expected


@pytest.mark.parametrize(("timeout", "count"), [(1000, 1), (100, 2)])
def test_slow_round_trips(timeout: int, count: int) -> None:
    options = client_options(f"mongodb://a/?timeoutMS={timeout}")
    assert len(list(deployment.judge_round_trips(SERVER, [0.06] * 20, options))) == count


@pytest.mark.parametrize(
    ("difference", "uncertainty", "severity"),
    [(1.0, 0.0, "ok"), (-9.0, 1.0, "warning"), (9.0, 1.0, "warning"), (6.0, 2.0, "ok")],
)
def test_clocks(difference: float, uncertainty: float, severity: str) -> None:
    assert deployment.judge_clock(SERVER, difference, uncertainty).severity.value == severity


@pytest.mark.parametrize(
    ("pool", "limit", "severity"), [(100, 1024, "ok"), (500, 1024, "warning"), (500, None, "ok"), (0, None, "warning")]
)
def test_open_files(pool: int, limit: int | None, severity: str) -> None:
    options = client_options(f"mongodb://a/?maxPoolSize={pool}")
    assert deployment.judge_files(options, 3, limit).severity.value == severity


@pytest.mark.parametrize(
    ("connections", "severity"),
    [(None, "note"), ({"current": 1, "available": 100}, "ok"), ({"current": 1, "available": 99}, "warning")],
)
def test_connections_of_the_server(connections: dict[str, int] | None, severity: str) -> None:
    options = client_options("mongodb://a")
    assert deployment.judge_connections(SERVER, connections, options).severity.value == severity


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, [], []),
        ({}, ["readPreference=secondary"], ["reads"]),
        ({}, ["readPreference=nearest", "readPreferenceTags=dc:y"], ["reads"]),
        ({}, ["readPreference=nearest", "readPreferenceTags=dc:x"], []),
        ({"isWritablePrimary": False, "secondary": True}, ["readPreference=secondary"], ["writes"]),
    ],
)
def test_selection(changes: dict[str, Any], options: list[str], expected: list[str]) -> None:
    seen = ServerDescription.from_hello(
        ("a", 1), {**PRIMARY, **changes}, round_trip_time=0.1, min_round_trip_time=0.1, now=0.0
    )
    topology = TopologyDescription.initial(
        [("a", 1)], direct_connection=False, replica_set="rs", load_balanced=False
    ).apply(seen)
    uri = "mongodb://a:1/?" + "&".join(["replicaSet=rs", *options])
    found = list(deployment.judge_selection(topology, client_options(uri)))
    assert [name for each in found if each.severity is Severity.ERROR for name in each.facts] == expected


def test_a_staleness_that_is_too_short() -> None:
    reply = {**PRIMARY, "isWritablePrimary": False, "secondary": True, "lastWrite": {"lastWriteDate": NOW}}
    seen = ServerDescription.from_hello(("a", 1), reply, round_trip_time=0.1, min_round_trip_time=0.1, now=0.0)
    topology = TopologyDescription.initial(
        [("a", 1)], direct_connection=False, replica_set="rs", load_balanced=False
    ).apply(seen)
    options = client_options(
        "mongodb://a:1/?replicaSet=rs&readPreference=secondary&maxStalenessSeconds=90&heartbeatFrequencyMS=120000"
    )
    reads, _ = deployment.judge_selection(topology, options)
    assert reads.severity is Severity.ERROR
    assert reads.advice == "correct the option"


def test_writes_to_a_single_secondary() -> None:
    reply = {**PRIMARY, "isWritablePrimary": False, "secondary": True}
    seen = ServerDescription.from_hello(("a", 1), reply, round_trip_time=0.1, min_round_trip_time=0.1, now=0.0)
    topology = TopologyDescription.initial(
        [("a", 1)], direct_connection=True, replica_set=None, load_balanced=False
    ).apply(seen)
    found = list(deployment.judge_selection(topology, client_options("mongodb://a:1/?directConnection=true")))
    assert errors(found) == []
