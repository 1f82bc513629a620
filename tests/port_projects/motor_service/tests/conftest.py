import asyncio
from unittest import mock

import pytest
from motor.motor_asyncio import AsyncIOMotorClient


@pytest.fixture
def client():
    client = AsyncIOMotorClient()
    client.get_io_loop = asyncio.get_running_loop
    yield client
    client.close()


@pytest.fixture
def no_client():
    with mock.patch("motor.motor_asyncio.AsyncIOMotorClient") as found:
        yield found
