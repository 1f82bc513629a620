"""What one mongos of the facade knows."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId

from tests.support.mongos.fail_points import FailCommand
from tests.support.mongos.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._base.values import Address
    from tests.support.mongos.messages import Message

_GOSSIP: Final = ("$clusterTime", "operationTime")


class Mongos:
    """What is its own: cursors, transactions, its fail point.

    Args:
        members: The replica set behind it.
        hello_of_primary: What its primary says of itself.
        has_bulk_writes: It calls itself MongoDB 8.0, and has the one command that tests need of it.
    """

    def __init__(
        self, members: Sequence[Address], hello_of_primary: Mapping[str, Any], *, has_bulk_writes: bool = False
    ) -> None:
        self.has_bulk_writes = has_bulk_writes
        self.members = members
        self.hello_of_primary = hello_of_primary
        self.fail_command = FailCommand()
        self.transactions = Transactions()
        # The members that its open cursors are on.
        self.cursors: dict[int, Address] = {}
        self.topology_version: dict[str, Any] = {"processId": ObjectId(), "counter": 0}
        # The latest times that it has heard of, which are in all that it answers itself.
        self.gossip: dict[str, Any] = {}
        self._connection_ids = count(1)

    def new_connection_id(self) -> int:
        return next(self._connection_ids)

    def learn(self, request: Message, reply: Message, member: Address) -> None:
        """Remember what a reply says: times, and cursors."""
        document = reply.document
        self.gossip = {name: document[name] for name in _GOSSIP if name in document} or self.gossip
        cursor = document.get("cursor", {})
        if cursor.get("id"):
            self.cursors[cursor["id"]] = member
        elif request.name == "getMore":
            self.cursors.pop(request.document["getMore"], None)
        elif request.name == "killCursors":
            for cursor_id in request.document["cursors"]:
                self.cursors.pop(cursor_id, None)
