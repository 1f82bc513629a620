"""Net: certificates for a local server with TLS, made with trustme and written to its folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from motorlite.testing.server.mongod_binary import ServerNotFound

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files; the server and client files contain the private key and the certificate."""

    ca_file: Path
    server_file: Path
    client_file: Path


def make_certificates(folder: Path) -> Certificates:
    """Create a certificate authority, a certificate for a server on this machine, and one for clients.

    Raises:
        ServerNotFound: the package trustme is not installed.
    """
    try:
        import trustme
    except ImportError:
        raise ServerNotFound(
            "A local server with TLS needs the package trustme: pip install 'motorlite[testing]'",
        ) from None
    authority = trustme.CA()
    files = Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    authority.cert_pem.write_to_path(files.ca_file)
    server = authority.issue_cert("localhost", "127.0.0.1", "::1")
    server.private_key_and_cert_chain_pem.write_to_path(files.server_file)
    client = authority.issue_cert("client@motorlite.example", common_name="motorlite client")
    client.private_key_and_cert_chain_pem.write_to_path(files.client_file)
    return files
