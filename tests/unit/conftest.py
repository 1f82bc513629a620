"""What trusts the certificates of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._net.tls import make_context
from motorlite._options.parts import TLSOptions

if TYPE_CHECKING:
    import ssl

    from motorlite.testing.server.certificates import Certificates


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext:
    return make_context(TLSOptions(ca_file=str(certificates.ca_file)))
