"""Options and addresses of key management services."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._encryption.kms import KeyServices, endpoint_address
from motorlite.encryption import RewrapManyDataKeyResult
from motorlite.encryption_options import split_namespace
from motorlite.errors import ConfigurationError


@pytest.mark.parametrize("options", [5, {"aws": 5}])
def test_tls_options_are_mappings(options: Any) -> None:
    with pytest.raises(TypeError, match="kms_tls_options"):
        KeyServices(options)


def test_an_endpoint_is_one_host_with_a_port() -> None:
    assert endpoint_address("kms.example:8443") == ("kms.example", 8443)
    assert endpoint_address("kms.example") == ("kms.example", 443)
    with pytest.raises(ConfigurationError, match="not a host with a port"):
        endpoint_address("a:1,b:2")


def test_a_namespace_is_a_string() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="key_vault_namespace"):
        split_namespace(wrong)


def test_a_result_says_what_it_has() -> None:
    assert repr(RewrapManyDataKeyResult()) == "RewrapManyDataKeyResult(None)"
