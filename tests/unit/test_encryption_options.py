"""The options of client-side encryption."""

from __future__ import annotations

from typing import Any

import pytest
from bson.int64 import Int64

from motorlite import AsyncMongoClient
from motorlite.encryption_options import AutoEncryptionOpts, RangeOpts, StringOpts, TextOpts
from motorlite.errors import ConfigurationError


def test_documents_have_what_is_set() -> None:
    assert RangeOpts().document == {}
    full = RangeOpts(sparsity=1, trim_factor=2, min=3, max=4, precision=5).document
    assert full == {"sparsity": 1, "trimFactor": 2, "min": 3, "max": 4, "precision": 5}
    assert type(full["sparsity"]) is Int64
    lengths: Any = {"strMinQueryLength": 1, "strMaxQueryLength": 2}
    assert StringOpts(prefix=lengths, case_sensitive=False).document == {"prefix": lengths, "caseSensitive": False}
    assert TextOpts is StringOpts
    assert repr(RangeOpts(sparsity=1, min=0)) == "RangeOpts(sparsity=1, min=0)"
    assert repr(StringOpts(case_sensitive=True)) == "StringOpts(case_sensitive=True)"


def test_mongocryptd_ends_when_it_is_idle() -> None:
    assert AutoEncryptionOpts({}, "a.b").mongocryptd_command == ["mongocryptd", "--idleShutdownTimeoutSecs=60"]
    given = AutoEncryptionOpts({}, "a.b", mongocryptd_spawn_args=["--idleShutdownTimeoutSecs=5", "--port=1"])
    assert given.mongocryptd_command == ["mongocryptd", "--idleShutdownTimeoutSecs=5", "--port=1"]


def test_refuses_what_is_wrong() -> None:
    wrong: Any = "--port=1"
    with pytest.raises(TypeError, match="mongocryptd_spawn_args"):
        AutoEncryptionOpts({}, "a.b", mongocryptd_spawn_args=wrong)
    for namespace in ("a", ".b", "a."):
        with pytest.raises(ConfigurationError, match="key_vault_namespace"):
            AutoEncryptionOpts({}, namespace)
    with pytest.raises(ConfigurationError, match="AutoEncryptionOpts"):
        AsyncMongoClient(auto_encryption_opts=wrong)


def test_secrets_are_not_shown() -> None:
    assert repr(AutoEncryptionOpts({"local": {"key": b"secret"}}, "a.b")) == "<AutoEncryptionOpts of 'a.b'>"
