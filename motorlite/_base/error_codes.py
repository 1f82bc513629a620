"""Pure: error labels, and the server codes that have a meaning to the driver."""

from __future__ import annotations

from typing import Final

# Labels that servers attach or drivers must add (transactions, retryable writes, backpressure).
RETRYABLE_WRITE: Final = "RetryableWriteError"
RETRYABLE: Final = "RetryableError"
SYSTEM_OVERLOADED: Final = "SystemOverloadedError"
NO_WRITES_PERFORMED: Final = "NoWritesPerformed"
TRANSIENT_TRANSACTION: Final = "TransientTransactionError"
UNKNOWN_COMMIT_RESULT: Final = "UnknownTransactionCommitResult"
TRANSACTION_LABELS: Final = frozenset({TRANSIENT_TRANSACTION, UNKNOWN_COMMIT_RESULT})
RESUMABLE_CHANGE_STREAM: Final = "ResumableChangeStreamError"

# Server discovery and monitoring specification, "not writable primary" and "node is recovering".
NOT_WRITABLE_PRIMARY_CODES: Final = frozenset({10058, 10107, 13435})
SHUTDOWN_CODES: Final = frozenset({91, 11600})
RECOVERING_CODES: Final = SHUTDOWN_CODES | {189, 11602, 13436}
NOT_PRIMARY_CODES: Final = NOT_WRITABLE_PRIMARY_CODES | RECOVERING_CODES

# Retryable writes specification, "RetryableWriteError Labels"; drivers add the label themselves only for servers older
# than 4.4. `test_classify` lists the codes of this and the next set again.
RETRYABLE_WRITE_CODES: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
# Retryable reads specification, "Retryable Error": the same plus ReadConcernMajorityNotAvailableYet.
RETRYABLE_READ_CODES: Final = RETRYABLE_WRITE_CODES | {134}

# Change streams specification, "Resumable Error", for servers older than 4.4, which do not label these errors.
RESUMABLE_CODES: Final = frozenset(
    {6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436}
)

MAX_TIME_MS_EXPIRED: Final = 50
CURSOR_NOT_FOUND: Final = 43
DUPLICATE_KEY_CODES: Final = frozenset({11000, 11001, 12582})
REAUTHENTICATION_REQUIRED: Final = 391
# AuthenticationFailed, and AtlasError: what Atlas replies instead ("bad auth").
CREDENTIALS_REFUSED: Final = frozenset({18, 8000})
