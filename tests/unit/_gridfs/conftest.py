"""A scripted server with GridFS files, a bucket with chunks of four bytes, and its client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.gridfs import AsyncGridFSBucket
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles


@pytest.fixture
async def stored() -> AsyncIterator[tuple[StoredFiles, AsyncGridFSBucket, Client]]:
    async with stored_files() as made:
        yield made


@pytest.fixture
def files(stored: tuple[StoredFiles, AsyncGridFSBucket, Client]) -> StoredFiles:
    return stored[0]


@pytest.fixture
def bucket(stored: tuple[StoredFiles, AsyncGridFSBucket, Client]) -> AsyncGridFSBucket:
    return stored[1]


@pytest.fixture
def client(stored: tuple[StoredFiles, AsyncGridFSBucket, Client]) -> Client:
    return stored[2]
