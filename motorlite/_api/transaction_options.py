"""Pure: the options of sessions and of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp

from motorlite._api.arguments.checks import optional
from motorlite._base.arguments import boolean, instance, is_like, milliseconds, server_milliseconds, wrong
from motorlite._sessions.session import Concerns
from motorlite.errors import ConfigurationError
from motorlite.read_concern import as_read_concern
from motorlite.read_preferences import as_read_preference
from motorlite.write_concern import as_write_concern

if TYPE_CHECKING:
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


class TransactionOptions:
    """The options of a transaction. None: inherited from the session's defaults, then from the client.

    Args:
        read_concern: The isolation level of its first command, which sets that of the whole transaction.
        write_concern: The acknowledgement that its commit and its abort wait for.
        read_preference: The servers to read from. Reads in a transaction must use the primary.
        max_commit_time_ms: Time limit of each commitTransaction on the server, milliseconds; ignored if a timeout is
            set. Prefer `timeoutMS`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: `max_commit_time_ms` is negative or too large.
        ConfigurationError: The write concern is not acknowledged.
    """

    __module__ = "motorlite"

    __slots__ = ("_max_commit_time_ms", "_read_concern", "_read_preference", "_write_concern")

    def __init__(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: ServerMode | None = None,
        max_commit_time_ms: float | None = None,
    ) -> None:
        self._read_concern: ReadConcern | None = optional("read_concern", read_concern, as_read_concern)
        self._write_concern: WriteConcern | None = optional("write_concern", write_concern, as_write_concern)
        if self._write_concern is not None:
            _check_acknowledged(self._write_concern)
        self._read_preference: ServerMode | None = optional("read_preference", read_preference, as_read_preference)
        self._max_commit_time_ms: int | None = optional("max_commit_time_ms", max_commit_time_ms, server_milliseconds)

    @property
    def read_concern(self) -> ReadConcern | None:
        """The isolation level, or None."""
        return self._read_concern

    @property
    def write_concern(self) -> WriteConcern | None:
        """The acknowledgement of the commit, or None."""
        return self._write_concern

    @property
    def read_preference(self) -> ServerMode | None:
        """The servers to read from, or None."""
        return self._read_preference

    @property
    def max_commit_time_ms(self) -> int | None:
        """The time limit of commitTransaction on the server in milliseconds, or None."""
        return self._max_commit_time_ms

    def __repr__(self) -> str:
        return (
            f"TransactionOptions(read_concern={self._read_concern!r}, write_concern={self._write_concern!r}, "
            f"read_preference={self._read_preference!r}, max_commit_time_ms={self._max_commit_time_ms!r})"
        )


_NOTHING = TransactionOptions()


def effective(options: TransactionOptions, defaults: TransactionOptions | None, inherited: Concerns) -> Concerns:
    """Return what holds in a transaction with these options on a session with these defaults.

    `inherited`: the client's.

    Raises:
        ConfigurationError: The write concern is not acknowledged.
    """
    outer = defaults or _NOTHING
    effective_write_concern = options.write_concern or outer.write_concern or inherited.write_concern
    _check_acknowledged(effective_write_concern)
    limit = options.max_commit_time_ms
    return Concerns(
        options.read_concern or outer.read_concern or inherited.read_concern,
        effective_write_concern,
        options.read_preference or outer.read_preference or inherited.read_preference,
        outer.max_commit_time_ms if limit is None else limit,
    )


def as_transaction_options(value: Any) -> TransactionOptions:
    """Return `value`, which may be PyMongo's, as TransactionOptions. Raises TypeError."""
    if isinstance(value, TransactionOptions):
        return value
    if not is_like(value, TransactionOptions):
        raise TypeError(wrong("default_transaction_options", value, "TransactionOptions"))
    return TransactionOptions(value.read_concern, value.write_concern, value.read_preference, value.max_commit_time_ms)


def _check_acknowledged(write_concern: WriteConcern) -> None:
    if not write_concern.acknowledged:
        raise ConfigurationError(f"transactions do not support unacknowledged write concern: {write_concern!r}")


class SessionOptions:
    """The options of a session.

    Args:
        causal_consistency: Whether operations observe the session's earlier ones; True by default, unless `snapshot`.
        default_transaction_options: What its transactions inherit.
        snapshot: Whether all reads see the data of one moment.
        snapshot_time: That moment, the `snapshot_time` of another session; by default that of the first read.
        defaultTimeoutMS: The timeoutMS of commit_transaction, abort_transaction, with_transaction and end_session; by
            default the client's.

    Raises:
        TypeError, ValueError: An option is wrong.
        ConfigurationError: `snapshot` with `causal_consistency`, or `snapshot_time` without `snapshot`.
    """

    __module__ = "motorlite"

    __slots__ = ("_causal_consistency", "_default_timeout_ms", "_defaults", "_snapshot", "_snapshot_time")

    def __init__(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        snapshot_time: Timestamp | None = None,
        defaultTimeoutMS: float | None = None,
    ) -> None:
        optional("causal_consistency", causal_consistency, boolean)
        optional("snapshot", snapshot, boolean)
        if snapshot and causal_consistency:
            raise ConfigurationError("snapshot reads do not support causal_consistency=True; set one of the two")
        if snapshot_time is not None:
            instance("snapshot_time", snapshot_time, Timestamp)
            if not snapshot:
                raise ConfigurationError("snapshot_time needs snapshot=True")
        if default_transaction_options is not None:
            default_transaction_options = as_transaction_options(default_transaction_options)
        optional("defaultTimeoutMS", defaultTimeoutMS, milliseconds)
        self._causal_consistency: bool = not snapshot if causal_consistency is None else causal_consistency
        self._defaults = default_transaction_options
        self._snapshot = bool(snapshot)
        self._snapshot_time = snapshot_time
        self._default_timeout_ms = defaultTimeoutMS

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(causal_consistency={self._causal_consistency!r}, "
            f"default_transaction_options={self._defaults!r}, snapshot={self._snapshot!r}, "
            f"snapshot_time={self._snapshot_time!r}, defaultTimeoutMS={self._default_timeout_ms!r})"
        )

    @property
    def causal_consistency(self) -> bool:
        """Whether operations observe the session's earlier ones."""
        return self._causal_consistency

    @property
    def default_transaction_options(self) -> TransactionOptions | None:
        """What its transactions inherit, or None."""
        return self._defaults

    @property
    def snapshot(self) -> bool:
        """Whether all reads see the data of one moment."""
        return self._snapshot

    @property
    def snapshot_time(self) -> Timestamp | None:
        """The moment that was asked for, or None."""
        return self._snapshot_time

    @property
    def defaultTimeoutMS(self) -> float | None:
        """The time limit of what ends a transaction in milliseconds, or None."""
        return self._default_timeout_ms
