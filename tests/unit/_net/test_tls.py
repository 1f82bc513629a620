from __future__ import annotations

import datetime
import ssl
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from motorlite._net.tls import make_context
from motorlite._options.parts import TLSOptions
from motorlite.errors import CertificateError, ConfigurationError
from tests.support.peers import server_context

if TYPE_CHECKING:
    from pathlib import Path

    from motorlite.testing.server.certificates import Certificates


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> None:
    """Raises what the client finds wrong."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def revocation_list(authority: trustme.CA, *revoked: trustme.LeafCert) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    certificate = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - datetime.timedelta(days=1))
        .next_update(now + datetime.timedelta(days=1))
    )
    for leaf in revoked:
        serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]  # ours is one that signs


def test_by_default_everything_is_verified() -> None:
    context = make_context(TLSOptions())
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert not context.verify_flags & ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def with_minimum(monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion) -> None:
    """Make Python's default contexts start with another minimum, as where OpenSSL's own defaults rule (Debian)."""
    original = ssl.create_default_context

    def create(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        context = original(*args, **kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # versions below 1.2
            context.minimum_version = version
        # As OPENSSL_CONF can do, and what servers with old certificates want: it permits the signatures of TLS 1.1.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        return context

    monkeypatch.setattr(ssl, "create_default_context", create)


LOWER = [ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1]


@pytest.mark.parametrize("default", LOWER, ids=lambda version: version.name)
def test_versions_below_1_2_are_refused_whatever_openssl_permits(
    default: ssl.TLSVersion, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_minimum(monkeypatch, default)
    server = server_context(certificates)
    server.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        server.minimum_version = ssl.TLSVersion.TLSv1
        server.maximum_version = ssl.TLSVersion.TLSv1_1
    # What OpenSSL would have permitted, and so what the last line is about.
    handshake(ssl.create_default_context(cafile=str(certificates.ca_file)), server)
    for options in (TLSOptions(ca_file=str(certificates.ca_file)), TLSOptions(allow_invalid_certificates=True)):
        context = make_context(options)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            handshake(context, server)


@pytest.mark.parametrize("default", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.MAXIMUM_SUPPORTED])
def test_a_stricter_minimum_of_openssl_stays(default: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    with_minimum(monkeypatch, default)
    assert make_context(TLSOptions()).minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("certificates", "hostnames", "checked", "mode"),
    [
        (False, True, False, ssl.CERT_REQUIRED),
        (True, False, False, ssl.CERT_NONE),
        (True, True, False, ssl.CERT_NONE),
    ],
)
def test_less_verification(certificates: bool, hostnames: bool, checked: bool, mode: ssl.VerifyMode) -> None:
    options = TLSOptions(allow_invalid_certificates=certificates, allow_invalid_hostnames=hostnames)
    context = make_context(options)
    assert context.check_hostname is checked
    assert context.verify_mode == mode


def test_an_authority_of_ones_own_is_the_only_one(certificates: Certificates, trusting: ssl.SSLContext) -> None:
    assert trusting.cert_store_stats()["x509_ca"] == 1
    handshake(trusting, server_context(certificates))
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(stranger)
    for context, server, host in (
        (trusting, server_context(certificates), "elsewhere.example"),
        (trusting, stranger, "localhost"),
        (make_context(TLSOptions()), stranger, "localhost"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(context, server, host)


def test_revoked_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca_file, crl_file = tmp_path / "ca.pem", tmp_path / "crl.pem"
    authority.cert_pem.write_to_path(ca_file)
    servers = []
    leaves = [authority.issue_cert("localhost") for _ in range(2)]
    for leaf in leaves:
        servers.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        leaf.configure_cert(servers[-1])
    crl_file.write_bytes(revocation_list(authority, leaves[1]))
    context = make_context(TLSOptions(ca_file=str(ca_file), crl_file=str(crl_file)))
    handshake(context, servers[0])
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(context, servers[1])


def test_a_client_certificate(certificates: Certificates) -> None:
    server = server_context(certificates)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(certificates.ca_file)
    options = TLSOptions(ca_file=str(certificates.ca_file), certificate_key_file=str(certificates.client_file))
    handshake(make_context(options), server)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN"):
        handshake(make_context(TLSOptions(ca_file=str(certificates.ca_file))), server)


def encrypted(certificates: Certificates, folder: Path, password: bytes) -> str:
    key = serialization.load_pem_private_key(certificates.client_file.read_bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
    text = certificates.client_file.read_bytes()
    path = folder / "encrypted.pem"
    path.write_bytes(pem + text[text.index(b"-----BEGIN CERTIFICATE") :])
    return str(path)


def test_an_encrypted_key(certificates: Certificates, tmp_path: Path) -> None:
    path = encrypted(certificates, tmp_path, b"secret")
    make_context(TLSOptions(certificate_key_file=path, certificate_key_file_password="secret"))
    with pytest.raises(ConfigurationError, match="set tlsCertificateKeyFilePassword"):
        make_context(TLSOptions(certificate_key_file=path))
    with pytest.raises(
        ConfigurationError,
        match=r"tlsCertificateKeyFile .* cannot be used: .*\(is tlsCertificateKeyFilePassword right\?\)",
    ):
        make_context(TLSOptions(certificate_key_file=path, certificate_key_file_password="wrong"))
    with pytest.raises(ConfigurationError, match=r"tlsCertificateKeyFile .* cannot be used"):
        make_context(TLSOptions(certificate_key_file=path, certificate_key_file_password="x" * 5_000))


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("ca_file", "tlsCAFile"),
        ("crl_file", "tlsCRLFile"),
        ("certificate_key_file", "tlsCertificateKeyFile"),
    ],
)
def test_unusable_files(field: str, option: str, tmp_path: Path, certificates: Certificates) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    paths = [str(tmp_path / "missing.pem"), str(nonsense), str(tmp_path), "nul\0byte"]
    if field != "ca_file":
        paths.append(str(certificates.ca_file))  # neither a revocation list nor a key
    for path in paths:
        with pytest.raises(ConfigurationError) as caught:
            make_context(TLSOptions(**{field: path}))  # type: ignore[arg-type]  # the fields are text
        assert str(caught.value).startswith(f"{option} {path!r} cannot be used: ")
        assert not isinstance(caught.value, CertificateError)
