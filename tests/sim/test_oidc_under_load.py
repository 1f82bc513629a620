"""MONGODB-OIDC under load: tokens expire again and again while tasks insert, are cancelled and lose connections."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.auth_oidc import OIDCCallback, OIDCCallbackResult
from motorlite.errors import PyMongoError
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.auth_servers import REAUTHENTICATE, OIDCServer, oidc_options, threadless
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    from motorlite.auth_oidc import OIDCCallbackContext

pytestmark = pytest.mark.anyio

TASKS, INSERTS, LIFETIME = 20, 40, 0.4


class Issuer(OIDCCallback):
    """Issues a token for each call, and fails now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.issued = 0
        self.failed = 0

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        await anyio.sleep(self._chance.uniform(0, 0.05))
        if self._chance.random() < 0.1:
            self.failed += 1
            raise OSError("the issuer does not answer")
        self.issued += 1
        return OIDCCallbackResult(f"token {self.issued}")


class Store:
    """A server that inserts for connections whose token is valid, and demands another one from the others."""

    def __init__(self, deployment: ScriptedDeployment, issuer: Issuer, chance: random.Random) -> None:
        self.documents: list[str] = []
        self.refused = 0
        self._server = deployment["a:1"]
        self._issuer = issuer
        self._chance = chance
        self._oidc = OIDCServer()
        self._oidc.attach(deployment, speculates=False)
        self._server.on("saslStart", self._authenticate)
        self._server.on("insert", self._insert)
        # The token that each connection has shown.
        self._shown: dict[int, str] = {}
        self._carried_out: dict[tuple[bytes, int], dict[str, Any]] = {}

    async def expire(self) -> None:
        """Time passes: every token becomes invalid, and connections are lost."""
        while True:
            await anyio.sleep(LIFETIME)
            self._oidc.valid.clear()
            if self._chance.random() < 0.3:
                self._server.drop_connections()

    def _authenticate(self, command: dict[str, Any]) -> dict[str, Any]:
        # What the issuer has issued since the last expiry is valid.
        self._oidc.valid.add(f"token {self._issuer.issued}")
        answer = self._oidc.answer(command)
        if "code" not in answer:
            self._shown[self._server.received[-1].connection] = self._oidc.shown[-1]
        return answer

    def _insert(self, command: dict[str, Any]) -> Any:
        if self._shown.get(self._server.received[-1].connection) not in self._oidc.valid:
            self.refused += 1
            return REAUTHENTICATE
        write = (command["lsid"]["id"], command["txnNumber"])
        if write not in self._carried_out:
            self.documents += [document["_id"] for document in command["documents"]]
            self._carried_out[write] = {"n": len(command["documents"])}
        return Reply(self._carried_out[write], self._chance.uniform(0, 0.02))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_each_acknowledged_insert_is_there_once(seed: int) -> None:
    chance = random.Random(seed)
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    issuer = Issuer(chance)
    store = Store(deployment, issuer, chance)
    acknowledged: list[str] = []
    certain: set[str] = set()
    attempted: set[str] = set()
    async with scripted_client(deployment, **oidc_options(issuer), world={"runtime": threadless}) as client:

        async def insert(task: int) -> None:
            for number in range(INSERTS):
                name = f"{task}-{number}"
                attempted.add(name)
                try:
                    with anyio.move_on_after(chance.uniform(0.001, 0.05) if chance.random() < 0.15 else 30):
                        await client.db.coll.insert_one({"_id": name})
                        acknowledged.append(name)
                except (PyMongoError, OSError) as error:
                    if not getattr(error, "may_have_been_executed", False):
                        certain.add(name)
                await anyio.sleep(chance.uniform(0, 0.3))

        async with anyio.create_task_group() as everything:
            everything.start_soon(store.expire)
            async with anyio.create_task_group() as tasks:
                for task in range(TASKS):
                    tasks.start_soon(insert, task)
            everything.cancel_scope.cancel()
        (server,) = client.stats().servers.values()
        assert (server.in_use, server.waiting, server.operations) == (0, 0, 0)
    assert len(store.documents) == len(set(store.documents))
    assert set(acknowledged) <= set(store.documents) <= attempted
    assert certain.isdisjoint(store.documents)
    # Tokens expired, connections had to authenticate again, and most inserts did not notice.
    assert issuer.issued > 5
    assert store.refused > TASKS / 2
    assert len(acknowledged) > 0.7 * TASKS * INSERTS
