"""A client without servers: what it would send, and scripted replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_core import Collection, FakeCore, fake_client

if TYPE_CHECKING:
    from motorlite import AsyncDatabase, AsyncMongoClient


@pytest.fixture
def client() -> AsyncMongoClient:
    return fake_client()[0]


@pytest.fixture
def core(client: AsyncMongoClient) -> FakeCore:
    """What the client sends, and the replies to it."""
    core = client._core
    assert isinstance(core, FakeCore)
    return core


@pytest.fixture
def db(client: AsyncMongoClient) -> AsyncDatabase[Any]:
    return client.app


@pytest.fixture
def coll(db: AsyncDatabase[Any]) -> Collection:
    return db.things
