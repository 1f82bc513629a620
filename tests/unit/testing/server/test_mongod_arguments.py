from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from motorlite.testing.server import local_uri
from motorlite.testing.server.certificates import Certificates
from motorlite.testing.server.mongod_arguments import command_line, connection_string, replica_set_configuration

CERTIFICATES = Certificates(Path("/t/ca.pem"), Path("/t/server.pem"), Path("/t/cli ent.pem"))
A, B = ("127.0.0.1", 20001), ("127.0.0.1", 20002)


def pairs(line: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(line))


def test_a_plain_standalone_listens_on_the_loopback_interface_only() -> None:
    line = command_line(Path("/bin/mongod"), Path("/t/data"), 20001)
    assert line[0] == "/bin/mongod"
    assert {("--bind_ip", "127.0.0.1"), ("--port", "20001"), ("--dbpath", "/t/data")} <= set(pairs(line))
    assert ("--setParameter", "enableTestCommands=1") in pairs(line)
    assert not {"--replSet", "--auth", "--keyFile", "--tlsMode"} & set(line)


def test_everything_that_can_be_asked_for() -> None:
    line = command_line(
        Path("mongod"),
        Path("/t/data"),
        20001,
        replica_set="rs0",
        key_file=Path("/t/key"),
        auth=True,
        certificates=CERTIFICATES,
        parameters={"ttlMonitorEnabled": False, "cursorTimeoutMillis": 5},
    )
    assert "--auth" in line
    assert {
        ("--replSet", "rs0"),
        ("--keyFile", "/t/key"),
        ("--tlsMode", "requireTLS"),
        ("--tlsCertificateKeyFile", "/t/server.pem"),
        ("--tlsCAFile", "/t/ca.pem"),
        ("--setParameter", "ttlMonitorEnabled=false"),
        ("--setParameter", "cursorTimeoutMillis=5"),
    } <= set(pairs(line))


def test_a_parameter_of_the_tests_can_be_changed() -> None:
    line = command_line(Path("mongod"), Path("/t"), 1, parameters={"enableTestCommands": 0})
    assert ("--setParameter", "enableTestCommands=0") in pairs(line)
    assert ("--setParameter", "enableTestCommands=1") not in pairs(line)


def test_members_follow_the_primary_only() -> None:
    configuration = replica_set_configuration("rs0", [("127.0.0.1", port) for port in (1, 2, 3)])
    assert configuration["settings"]["chainingAllowed"] is False


def test_elections_are_fast() -> None:
    configuration = replica_set_configuration("rs0", [A, B])
    assert [member["host"] for member in configuration["members"]] == ["127.0.0.1:20001", "127.0.0.1:20002"]
    assert configuration["settings"]["electionTimeoutMillis"] <= 2000


def test_plain_uris() -> None:
    assert connection_string([A]) == "mongodb://127.0.0.1:20001/"
    assert connection_string([A, B], replica_set="r") == "mongodb://127.0.0.1:20001,127.0.0.1:20002/?replicaSet=r"


def test_a_uri_says_the_same_when_it_is_read_again() -> None:
    uri = connection_string([A, B], replica_set="r", credential=("a:b", "c/d@%"), certificates=CERTIFICATES)
    target = local_uri.read_uri(uri)
    assert target.addresses == (A, B)
    assert (target.username, target.password, target.source) == ("a:b", "c/d@%", "admin")
    assert target.tls
    assert target.options["tlscafile"] == "/t/ca.pem"
    assert target.options["tlscertificatekeyfile"] == "/t/cli ent.pem"
