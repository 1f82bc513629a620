"""Kerberos without a KDC: the package is a stand-in, so that its absence does not matter."""

from __future__ import annotations

import socket
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from motorlite._net import kerberos
from motorlite.errors import ConfigurationError, OperationFailure

FIRST = 2529638912


class GSSError(Exception):
    def __init__(self, code: int, *said: str) -> None:
        super().__init__()
        self.maj_code, self.min_code = 851968, FIRST + code if code else 0
        self.said = said

    def get_all_statuses(self, code: int, is_major: bool) -> tuple[str, ...]:
        assert code == (self.maj_code if is_major else self.min_code)
        return ("the major status",) if is_major else self.said or ("Success",)


class MissingCredentialsError(GSSError):
    pass


class ExpiredCredentialsError(GSSError):
    pass


class Library:
    """The parts of the package that are used; `fails` is what its functions raise, by name."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self.fails: dict[str, Exception] = {}
        self.credentials: dict[str, Any] = {}
        self.context: dict[str, Any] = {}

    def package(self) -> ModuleType:
        package: Any = ModuleType("gssapi")
        package.__spec__ = ModuleSpec("gssapi", None)
        package.exceptions = SimpleNamespace(GSSError=GSSError)
        package.NameType = SimpleNamespace(
            user="user", hostbased_service="hostbased_service", kerberos_principal="kerberos_principal"
        )
        package.MechType = SimpleNamespace(kerberos="krb5")
        package.RequirementFlag = SimpleNamespace(
            mutual_authentication="mutual", integrity="integrity", out_of_sequence_detection="sequence"
        )
        package.Name = self.name
        package.Credentials = self.acquire
        package.raw = SimpleNamespace(acquire_cred_with_password=self.acquire_with_password)
        package.SecurityContext = self.make_context
        return package  # type: ignore[no-any-return]  # with attributes that modules do not have

    def _call(self, what: str) -> None:
        if what in self.fails:
            raise self.fails[what]

    def name(self, text: str, kind: str) -> str:
        self.names.append((text, kind))
        return text

    def acquire(self, **given: Any) -> str:
        self._call("acquire")
        self.credentials = given
        return "credentials"

    def acquire_with_password(self, user: str, password: bytes, **given: Any) -> Any:
        self._call("acquire")
        self.credentials = {"name": user, "password": password, **given}
        return SimpleNamespace(creds="credentials")

    def make_context(self, **given: Any) -> Any:
        self.context = given
        return SimpleNamespace(complete=False, step=self.step, wrap=self.wrap, unwrap=self.unwrap)

    def step(self, token: bytes | None = None) -> bytes | None:
        self._call("step")
        return b"first" if token is None else None

    def wrap(self, message: bytes, is_encrypted: bool) -> Any:
        self._call("wrap")
        return SimpleNamespace(message=b"w" + message + (b"!" if is_encrypted else b""))

    def unwrap(self, message: bytes) -> Any:
        self._call("unwrap")
        return SimpleNamespace(message=message[1:])


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setitem(sys.modules, "gssapi", found.package())
    return found


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'motorlite\[gssapi\]'"):
        kerberos.require()
    with pytest.raises(ConfigurationError, match="authMechanism=GSSAPI needs the package gssapi"):
        kerberos.open_context("mongodb", "a", None, "none", "ada", None)


def test_a_context(library: Library) -> None:
    context, token = kerberos.open_context("mongodb", "a", None, "none", "ada", None)
    assert token == b"first"
    assert library.credentials == {"name": "ada", "mechs": ["krb5"], "usage": "initiate"}
    assert library.context == {
        "name": "mongodb@a",
        "creds": "credentials",
        "mech": "krb5",
        "flags": ["mutual", "integrity", "sequence"],
        "usage": "initiate",
    }
    assert sorted(library.names) == [("ada", "user"), ("mongodb@a", "hostbased_service")]
    assert not context.is_complete
    assert context.step(b"token") == b""
    assert context.wrap(b"x") == b"wx"
    assert context.unwrap(b"wx") == b"x"


def test_a_password(library: Library) -> None:
    kerberos.open_context("mongodb", "a", None, "none", "ada", b"pencil")
    assert library.credentials == {"name": "ada", "password": b"pencil", "mechs": ["krb5"], "usage": "initiate"}


def test_a_realm(library: Library) -> None:
    kerberos.open_context("mon/go", "a@b", "R\\", "none", "ada", None)
    assert ("mon\\/go/a\\@b@R\\\\", "kerberos_principal") in library.names


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MissingCredentialsError(141, "nothing in the cache"), "there is no ticket for 'ada': run kinit ada"),
        (GSSError(32, "Ticket expired"), "the ticket of 'ada' has expired: run kinit ada"),
        (ExpiredCredentialsError(0), "the ticket of 'ada' has expired: run kinit ada"),
        (GSSError(24, "Preauthentication failed"), "the password of 'ada' is wrong"),
        (GSSError(31, "Decrypt integrity check failed"), "the password of 'ada' is wrong"),
        (GSSError(23, "Password has expired"), "the password of 'ada' has expired: run kpasswd ada"),
        (GSSError(6, "Client not found"), "the realm has no user 'ada': write user@REALM"),
        (GSSError(7, "Server mongodb/a@R not found"), "the realm has no service 'mongodb/a': check SERVICE_NAME"),
        (GSSError(7, "Server krbtgt/B@R not found"), "'mongodb/a' is in a realm that does not trust that of 'ada'"),
        (GSSError(154, "Cannot find KDC"), "no KDC of the realm could be asked"),
        (GSSError(156, "Cannot contact any KDC"), "no KDC of the realm could be asked"),
        (GSSError(37, "Clock skew too great"), "the clocks of this machine, the server and the KDC differ"),
        (GSSError(99, "one", "two"), "failed: one; two"),
        (GSSError(0), "failed: the major status"),
    ],
)
@pytest.mark.parametrize("where", ["acquire", "step"])
def test_errors_say_what_to_do(library: Library, error: GSSError, text: str, where: str) -> None:
    library.fails[where] = error
    with pytest.raises(OperationFailure) as caught:
        kerberos.open_context("mongodb", "a", None, "none", "ada", None)
    message = str(caught.value)
    assert message.startswith("GSSAPI authentication failed: ")
    assert text in message
    assert all(said in message for said in error.said)
    # Its frames have the password.
    assert caught.value.__context__ is None


def test_a_password_brings_its_ticket_along(library: Library) -> None:
    library.fails["acquire"] = MissingCredentialsError(99, "a generic error")
    with pytest.raises(OperationFailure) as caught:
        kerberos.open_context("mongodb", "a", None, "none", "ada", b"pencil")
    assert str(caught.value) == "GSSAPI authentication failed: a generic error"


@pytest.mark.parametrize("what", ["step", "wrap", "unwrap"])
def test_errors_of_a_context(library: Library, what: str) -> None:
    context, _ = kerberos.open_context("mongodb", "a", None, "none", "ada", None)
    library.fails[what] = GSSError(99, "a forged message")
    text = r"failed: the server has not proved that it is 'mongodb/a' \(Kerberos: a forged message\)"
    with pytest.raises(OperationFailure, match=text):
        getattr(context, what)(b"x")


# --- CANONICALIZE_HOST_NAME ---


@pytest.mark.parametrize(
    ("how", "canonical", "reverse", "name"),
    [
        ("none", "B", "C", "A"),
        ("forward", "B", "C", "b"),
        ("forward", "", "C", "a"),
        ("forwardAndReverse", "B", "C", "c"),
        # An address without a name.
        ("forwardAndReverse", "B", None, "b"),
    ],
)
def test_the_canonical_name(
    how: str, canonical: str, reverse: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(host: str, _port: None, *, type: int, flags: int) -> list[Any]:
        assert (host, type, flags) == ("A", socket.SOCK_STREAM, socket.AI_CANONNAME)
        return [(2, type, 6, canonical, ("192.0.2.1", 0)), (2, type, 6, "", ("192.0.2.2", 0))]

    def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        assert (address, flags) == (("192.0.2.1", 0), socket.NI_NAMEREQD)
        if reverse is None:
            raise socket.gaierror("no name")
        return reverse, "0"

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    assert kerberos.canonical("A", how) == name


@pytest.mark.parametrize("error", [socket.gaierror("not known"), UnicodeError("label too long")])
def test_a_host_name_that_cannot_be_resolved(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_given: object, **_options: object) -> list[Any]:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(ConfigurationError, match=r"CANONICALIZE_HOST_NAME=forward cannot resolve 'a'.*SERVICE_HOST"):
        kerberos.canonical("a", "forward")
