"""Certificates, which take long to make, and what trusts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._net.tls import make_context
from motorlite._options.options import TLSOptions
from motorlite.testing.server.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    import ssl


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext:
    return make_context(TLSOptions(ca_file=str(certificates.ca_file)))
