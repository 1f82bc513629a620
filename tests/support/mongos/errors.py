"""Errors as a server answers them: the name of a code, and the labels that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRANSIENT: Final = "TransientTransactionError"
RETRYABLE_WRITE: Final = "RetryableWriteError"

BAD_VALUE: Final = 2
HOST_UNREACHABLE: Final = 6
FAILED_TO_PARSE: Final = 9
CURSOR_NOT_FOUND: Final = 43
MAX_TIME_MS_EXPIRED: Final = 50
COMMAND_NOT_FOUND: Final = 59
INVALID_OPTIONS: Final = 72
CONFLICTING_OPERATION_IN_PROGRESS: Final = 117
FAILED_TO_SATISFY_READ_PREFERENCE: Final = 133
TRANSACTION_TOO_OLD: Final = 225
NO_SUCH_TRANSACTION: Final = 251
TRANSACTION_COMMITTED: Final = 256
FAIL_POINT_SET_FAILED: Final = 266
LOAD_BALANCER_SUPPORT_MISMATCH: Final = 354
NO_PARTICIPANTS: Final = 50940

# All others are "Location" and the number.
NAMES: Final = {
    1: "InternalError",
    2: "BadValue",
    6: "HostUnreachable",
    7: "HostNotFound",
    8: "UnknownError",
    9: "FailedToParse",
    10: "CannotMutateObject",
    11: "UserNotFound",
    13: "Unauthorized",
    18: "AuthenticationFailed",
    24: "LockTimeout",
    26: "NamespaceNotFound",
    43: "CursorNotFound",
    50: "MaxTimeMSExpired",
    51: "ManualInterventionRequired",
    59: "CommandNotFound",
    63: "OBSOLETE_StaleShardVersion",
    64: "WriteConcernFailed",
    72: "InvalidOptions",
    79: "UnknownReplWriteConcern",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    100: "UnsatisfiableWriteConcern",
    112: "WriteConflict",
    117: "ConflictingOperationInProgress",
    133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet",
    150: "StaleEpoch",
    189: "PrimarySteppedDown",
    225: "TransactionTooOld",
    234: "RetryChangeStream",
    246: "SnapshotUnavailable",
    251: "NoSuchTransaction",
    256: "TransactionCommitted",
    262: "ExceededTimeLimit",
    267: "PreparedTransactionInProgress",
    354: "LoadBalancerSupportMismatch",
    9001: "SocketException",
    10107: "NotWritablePrimary",
    11000: "DuplicateKey",
    11600: "InterruptedAtShutdown",
    11601: "Interrupted",
    11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
}
# Errors that a server calls retriable.
_RETRIABLE: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
# Errors after which a transaction may be started anew.
_TRANSIENT: Final = frozenset({24, 63, 112, 150, 246, 267})


class CommandError(Exception):
    """A command that is answered with an error."""

    def __init__(self, code: int, message: str, labels: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        # None: those that the server adds itself.
        self.labels = labels

    def reply(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a command that failed with it."""
        found = {"ok": 0.0, "errmsg": str(self), "code": self.code, "codeName": code_name(self.code)}
        labels = labels_of(command, self.code) if self.labels is None else list(self.labels)
        return {**found, "errorLabels": labels} if labels else found


def code_name(code: int) -> str:
    """What a server calls a code."""
    return NAMES.get(code, f"Location{code}")


def labels_of(command: Mapping[str, Any], code: int = 0, write_concern_code: int | None = None) -> list[str]:
    """The labels that a server adds to an error by itself.

    Args:
        command: The command that failed.
        code: The error's code.
        write_concern_code: The code of the write concern error in the reply, if there is one.
    """
    if "txnNumber" not in command:
        return []
    in_transaction = command.get("autocommit") is False
    ends = in_transaction and next(iter(command)) in ("commitTransaction", "abortTransaction")
    found = []
    if in_transaction:
        lost = code == NO_SUCH_TRANSACTION and (write_concern_code is None or not ends)
        if code in _TRANSIENT or lost or (code in _RETRIABLE and not ends):
            found.append(TRANSIENT)
    if (ends or not in_transaction) and {code, write_concern_code} & _RETRIABLE:
        found.append(RETRYABLE_WRITE)
    return found
