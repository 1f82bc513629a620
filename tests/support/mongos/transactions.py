"""What a mongos knows of transactions: those that began with it, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.support.mongos.errors import (
    CONFLICTING_OPERATION_IN_PROGRESS,
    INVALID_OPTIONS,
    NO_PARTICIPANTS,
    NO_SUCH_TRANSACTION,
    TRANSACTION_TOO_OLD,
    CommandError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARD: Final = "shard01"
# Statements after which there is something to recover.
_WRITES: Final = frozenset(
    {"bulkWrite", "create", "createIndexes", "delete", "findAndModify", "findandmodify", "insert", "update"}
)

Action = Literal["pass on", "recover"]


def is_statement(command: Mapping[str, Any]) -> bool:
    """Whether a command belongs to a transaction, commitTransaction and abortTransaction included."""
    return command.get("autocommit") is False


@dataclass(slots=True)
class _Transaction:
    number: int
    has_written: bool = False


class Transactions:
    """The latest transaction of every session."""

    def __init__(self) -> None:
        self._latest: dict[bytes, _Transaction] = {}

    def admit(self, command: Mapping[str, Any]) -> Action:
        """Decide about a statement.

        Returns:
            What to do: pass it on to the shard, or, for a commit of a transaction of another mongos, ask the shard how
            that ended.

        Raises:
            CommandError: the transaction is not one of this mongos, or it is started twice.
        """
        number, known = command["txnNumber"], self._latest.get(_key(command))
        name = next(iter(command))
        if command.get("$readPreference", {}).get("mode", "primary") != "primary":
            raise CommandError(INVALID_OPTIONS, "read preference in a transaction must be primary")
        if known is not None and number < known.number:
            raise CommandError(
                TRANSACTION_TOO_OLD,
                f"txnNumber {number} is less than last txnNumber {known.number} seen in session {command['lsid']}",
            )
        if command.get("startTransaction"):
            if known is not None and known.number == number:
                raise CommandError(
                    CONFLICTING_OPERATION_IN_PROGRESS,
                    f"txnNumber {number} for session {command['lsid']} already started",
                )
            self._latest[_key(command)] = _Transaction(number)
            return "pass on"
        if known is not None and known.number == number:
            return "pass on"
        if name == "commitTransaction":
            _check_token(command)
            return "recover"
        latest = "none" if known is None else known.number
        raise CommandError(
            NO_SUCH_TRANSACTION,
            f"cannot continue txnId {latest} for session {command['lsid']} with txnId {number}",
        )

    def token_after(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The recovery token in the reply of a statement that succeeded; empty until the first write."""
        known = self._latest.get(_key(command))
        if known is None:
            return dict(command.get("recoveryToken", {}))
        known.has_written = known.has_written or next(iter(command)) in _WRITES
        return {"recoveryShardId": SHARD} if known.has_written else {}


def _check_token(command: Mapping[str, Any]) -> None:
    token = command.get("recoveryToken")
    if token is None:
        raise CommandError(NO_PARTICIPANTS, "cannot commit with no participants")
    if token.get("recoveryShardId") != SHARD:
        raise CommandError(
            NO_SUCH_TRANSACTION,
            "Recovery token is empty, meaning the transaction only performed reads and can be safely retried",
        )


def _key(command: Mapping[str, Any]) -> bytes:
    return bytes(command["lsid"]["id"])
