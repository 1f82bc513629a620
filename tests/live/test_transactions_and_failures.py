"""Transactions of real servers while their primaries die: money is neither made nor lost."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import ReadPreference
from motorlite.errors import ConnectionFailure, OperationFailure
from motorlite.read_concern import ReadConcern
from tests.live.load import assert_nothing_left, kill_primary
from tests.support.clients import Client, make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite import AsyncClientSession
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

PATIENT: dict[str, Any] = {"w": "majority", "connectTimeoutMS": 400, "heartbeatFrequencyMS": 500}
KILLS, TASKS, ACCOUNTS, BALANCE = 2, 20, 50, 1000


class Bank:
    """Accounts, a journal that each transfer writes to, and what was acknowledged."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.accounts = client[name].accounts
        self.journal = client[name].journal
        self.acknowledged: list[str] = []
        self.attempted: set[str] = set()
        self.is_over = False

    async def transfer(self, one: str, chance: random.Random) -> None:
        payer, payee = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randrange(1, 10)

        async def move(session: AsyncClientSession) -> str:
            entry = {"_id": one, "payer": payer, "payee": payee, "amount": amount}
            await self.journal.insert_one(entry, session=session)
            await self.accounts.update_one({"_id": payer}, {"$inc": {"balance": -amount}}, session=session)
            await self.accounts.update_one({"_id": payee}, {"$inc": {"balance": amount}}, session=session)
            return one

        async with self.client.start_session() as session:
            self.acknowledged.append(await session.with_transaction(move))

    async def run(self, task: int) -> None:
        chance, number = random.Random(task), 0
        while not self.is_over:
            number += 1
            one = f"{task}-{number:06}"
            self.attempted.add(one)
            with suppress(ConnectionFailure, OperationFailure):  # then it may have been made or not
                await self.transfer(one, chance)
            # Servers that elect a primary need some of the processor.
            await anyio.sleep(0.05)

    async def more(self, count: int = 20) -> None:
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, 60)

    async def check(self) -> None:
        """Compare the accounts with the journal, and the journal with what was acknowledged."""
        options: dict[str, Any] = {"read_concern": ReadConcern("majority"), "read_preference": ReadPreference.PRIMARY}
        entries = await self.journal.with_options(**options).find().to_list()
        expected = dict.fromkeys(range(ACCOUNTS), BALANCE)
        for entry in entries:
            expected[entry["payer"]] -= entry["amount"]
            expected[entry["payee"]] += entry["amount"]
        found = await self.accounts.with_options(**options).find().to_list()
        assert {account["_id"]: account["balance"] for account in found} == expected
        assert sum(expected.values()) == ACCOUNTS * BALANCE
        written = [entry["_id"] for entry in entries]
        assert len(written) == len(set(written))
        assert len(self.acknowledged) == len(set(self.acknowledged))
        assert set(self.acknowledged) <= set(written) <= self.attempted


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_transfers_while_primaries_are_killed(replica_set3: LocalServer, database_name: str) -> None:
    """Each acknowledged transfer is there once; of the others, the whole transfer or nothing of it."""
    async with make_client(replica_set3, **PATIENT) as client:
        bank = Bank(client, database_name)
        await bank.accounts.insert_many([{"_id": number, "balance": BALANCE} for number in range(ACCOUNTS)])
        await client[database_name].create_collection("journal")
        async with anyio.create_task_group() as transfers:
            for task in range(TASKS):
                transfers.start_soon(bank.run, task)
            for _ in range(KILLS):
                await kill_primary(replica_set3, bank.more)
            bank.is_over = True
        await bank.check()
        await assert_nothing_left(client)
