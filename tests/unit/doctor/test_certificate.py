"""Reading certificates: names, issuers and times, and what is no certificate."""

from __future__ import annotations

import datetime
import ssl

import pytest
import trustme

from motorlite.doctor._certificate import read_certificate, shown_date


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


@pytest.mark.parametrize(
    "end",
    [
        datetime.datetime(2026, 2, 28, 23, 59, 59, tzinfo=datetime.UTC),
        datetime.datetime(2028, 2, 29, tzinfo=datetime.UTC),
        datetime.datetime(2028, 3, 1, tzinfo=datetime.UTC),
        datetime.datetime(2049, 12, 31, tzinfo=datetime.UTC),
        # From 2050 on it is written in another way.
        datetime.datetime(2050, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(2101, 3, 1, 1, 2, 3, tzinfo=datetime.UTC),
    ],
)
def test_times(end: datetime.datetime) -> None:
    certificate = trustme.CA().issue_cert("a.example.com", not_after=end)
    found = read_certificate(der(certificate.cert_chain_pems[0].bytes()))
    assert found.not_after == end.timestamp()
    assert shown_date(found.not_after) == f"{end:%Y-%m-%d}"
    assert found.not_before < found.not_after


def test_names_and_issuer() -> None:
    authority = trustme.CA(organization_name="An Authority")
    certificate = authority.issue_cert("a.example.com", "127.0.0.1", "::1", common_name="server")
    found = read_certificate(der(certificate.cert_chain_pems[0].bytes()))
    assert found.names == ("a.example.com", "127.0.0.1", "::1")
    assert found.subject.startswith("server")
    assert "An Authority" in found.issuer
    assert not found.is_self_signed
    assert read_certificate(der(authority.cert_pem.bytes())).is_self_signed


def test_what_is_no_certificate() -> None:
    whole = der(trustme.CA().cert_pem.bytes())
    for wrong in (b"", b"\x30", b"\x30\x03\x02\x01\x01", b"hello", *(whole[:end] for end in range(1, len(whole), 7))):
        with pytest.raises(ValueError, match="not a certificate"):
            read_certificate(wrong)
