"""The codes of errors that the specifications retry, with their names: copied from there, not from the driver."""

from __future__ import annotations

from typing import Final

# Retryable writes, "RetryableWriteError Labels".
WRITE_CODES: Final = {
    6: "HostUnreachable",
    7: "HostNotFound",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    189: "PrimarySteppedDown",
    262: "ExceededTimeLimit",
    9001: "SocketException",
    10107: "NotWritablePrimary",
    11600: "InterruptedAtShutdown",
    11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
}
# Retryable reads, "Retryable Error".
READ_CODES: Final = WRITE_CODES | {134: "ReadConcernMajorityNotAvailableYet"}
