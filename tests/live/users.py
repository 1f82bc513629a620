"""Users on a real server that demands authentication and TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import ObjectId
from cryptography import x509

from motorlite._base.values import format_address
from tests.support.clients import Client, make_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing import LocalServer

ROOT = [{"role": "root", "db": "admin"}]
BOTH = ("SCRAM-SHA-1", "SCRAM-SHA-256")


def tls_options(server: LocalServer) -> dict[str, Any]:
    """What a client needs to reach `server` at all."""
    return {
        "tls": True,
        "tlsCAFile": str(server.ca_file),
        "tlsCertificateKeyFile": str(server.client_certificate_file),
    }


def add_user(
    server: LocalServer,
    name: str | None = None,
    password: str | None = "pencil",
    *,
    mechanisms: Sequence[str] = BOTH,
    database: str = "admin",
) -> str:
    """Make a user, replacing one of the same name; without a name, one that nobody else has."""
    name = name or f"user-{ObjectId()}"
    command: dict[str, Any] = {"createUser": name, "roles": ROOT}
    if password is not None:
        command |= {"pwd": password, "mechanisms": list(mechanisms)}
    known = server.command({"usersInfo": name}, database)["users"]
    if known:
        server.command({"dropUser": name}, database)
    server.command(command, database)
    return name


def certificate_subject(server: LocalServer) -> str:
    """The name that the client's certificate stands for."""
    assert server.client_certificate_file is not None
    with open(server.client_certificate_file, "rb") as file:
        certificate = b"-----BEGIN CERTIFICATE" + file.read().split(b"-----BEGIN CERTIFICATE")[1]
    return x509.load_pem_x509_certificate(certificate).subject.rfc4514_string()


def client(server: LocalServer, **options: Any) -> Client:
    """A client without the server's own user."""
    hosts = ",".join(map(format_address, server.addresses))
    return make_client(f"mongodb://{hosts}/", **{**tls_options(server), **options})


async def who(connected: Client) -> list[dict[str, Any]]:
    """As whom a client is authenticated."""
    status = await connected["admin"].command("connectionStatus")
    found: list[dict[str, Any]] = status["authInfo"]["authenticatedUsers"]
    return found
