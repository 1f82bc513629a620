from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from motorlite._net import aws_sdk
from motorlite.errors import ConfigurationError


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_sdk, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'motorlite\[aws\]'"):
        aws_sdk.find_credentials()


def test_with_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in, so that the test does not depend on what is installed and on who is asked for credentials."""
    found = object()

    class Session:
        def get_credentials(self) -> object:
            return found

    package, module = ModuleType("botocore"), ModuleType("botocore.session")
    package.__spec__ = ModuleSpec("botocore", None)
    package.__path__ = []
    factory: Any = Session
    setattr(module, "get_session", factory)  # noqa: B010  # a module has no such attribute for type checkers
    monkeypatch.setitem(sys.modules, "botocore", package)
    monkeypatch.setitem(sys.modules, "botocore.session", module)
    assert aws_sdk.find_credentials() is found
