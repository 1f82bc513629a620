"""Calls of a closed AsyncClientEncryption: each lets other tasks run before it raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import InvalidOperation
from motorlite.testing.cancellation import Steps
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.data_keys import client_encryption
from tests.support.public_coroutines import ENCRYPTION, Subject

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize("call", ENCRYPTION.values(), ids=ENCRYPTION)
async def test_a_closed_one_refuses(call: Callable[[Any, Subject], Any]) -> None:
    async with scripted_client(ScriptedDeployment(wire_version=25)) as client, client_encryption(client) as encryption:
        await encryption.close()
        counted = Steps(call(encryption, Subject(client, None, None)), lambda _point, _yielded: None)
        with pytest.raises(InvalidOperation, match="AsyncClientEncryption is closed"):
            await counted
        assert counted.suspensions
        with pytest.raises(InvalidOperation, match="AsyncClientEncryption is closed"):
            encryption.get_keys()
