"""Pure: bugs to plant in the driver. The simulation must find each of them.

What a bug breaks is one of the invariants, or one of the promises that the account checks after a run. None of them
makes the driver fail outright: each hides until some timing, failure or cancellation meets it. To look for each of them
and count the seeds that it takes: `python -m tests.simulate --bug all`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.support.planting import Bug, plant

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def planted(name: str) -> Iterator[Bug]:
    """Plant a bug for this block.

    Raises:
        KeyError: There is no such bug.
        ValueError: The source of the driver has changed, so the bug does not fit any more.
    """
    bug = BUGS[name]
    with plant(bug):
        yield bug


_ALL: Final = (
    # Connections: each is counted once, and has one owner.
    Bug(
        "pool-keeps-what-it-gives",
        "an idle connection that is handed out also stays idle",
        "_pool.state:PoolState.take",
        ("self.in_use.add(connection)", "self.in_use.add(connection); idle.append(connection)"),
        ("connections",),
    ),
    Bug(
        "pool-loses-a-connection",
        "a connection that reaches a caller at the moment of its cancellation is never returned",
        "_pool.pool:Pool._leave",
        ("self.state.put_back(given, now)", "pass"),
        ("connections",),
    ),
    Bug(
        "pool-too-large",
        "maxPoolSize does not count the connections whose late reply is awaited",
        "_pool.state:PoolState._may_establish",
        ("self.total < options.max_size", "self.total - len(self.pending) < options.max_size"),
        ("connections",),
    ),
    Bug(
        "pool-connects-too-often",
        "maxConnecting is not kept",
        "_pool.state:PoolState._may_establish",
        ("or len(self.connecting) >= options.max_connecting", ""),
        ("connections",),
    ),
    Bug(
        "pending-reply-reused",
        "a connection that owes a late reply is idle, so the next operation is sent behind it",
        "_pool.state:PoolState._keep",
        ("elif connection.owed is not None:", "elif connection.owed is not None and now < 0:"),
        ("connections",),
    ),
    # Waiters.
    Bug(
        "waiter-forgotten",
        "a broken connection that comes back makes room that no waiting operation gets",
        "_pool.state:PoolState.put",
        ("    self.serve(now)", "    pass"),
        ("waiters",),
    ),
    Bug(
        "waiter-sleeps",
        "a late reply makes a connection idle without waking the operations that wait for one",
        "_pool.state:PoolState.drained",
        ("self.serve(now)", "pass"),
        ("waiters",),
    ),
    # Tokens.
    Bug(
        "budget-overdrawn",
        "an empty budget still gives a token",
        "retry.budget:RetryBudget.take",
        ("if self._tenths < _COST:", "if self._tenths < 0:"),
        ("tokens",),
    ),
    Bug(
        "budget-overflows",
        "deposits go beyond the capacity of the budget",
        "retry.budget:RetryBudget._deposit",
        ("self._tenths = min(self._capacity, self._tenths + tenths)", "self._tenths += tenths"),
        ("tokens",),
    ),
    Bug(
        "overload-retry-for-free",
        "retries after overload errors take no token",
        "_retry.decision:Retry._costs_token",
        (
            "if rule is RetryRule.OVERLOAD_POLICY:",
            "if rule is RetryRule.OVERLOAD_POLICY:\n        return False\n    if 0:",
        ),
        ("tokens",),
    ),
    Bug(
        "token-of-commits-kept",
        "the last of several commits of with_transaction keeps its token",
        "_api.transactions:AsyncClientSession._commit_again",
        ("else:\n                retries.repay()", "else:"),
        ("tokens",),
    ),
    Bug(
        "token-kept",
        "an operation that is cancelled in its backoff keeps the token of the retry that it did not make",
        "_retry.decision:Retry.gave_up",
        ("if newest.is_paid and self._settings.bucket is not None:", "if False:"),
        ("tokens",),
    ),
    Bug(
        "overload-pays",
        "a retry that fails because of overload brings a token",
        "_retry.decision:Retry.after",
        ("settings.bucket is not None and not is_overload and", "settings.bucket is not None and"),
        ("tokens",),
    ),
    # Sessions.
    Bug(
        "session-shared",
        "the pool hands out a server session and keeps it",
        "_sessions.session:SessionPool.acquire",
        ("session = free.pop()", "session = free[-1]; len(free) > 3 and free.pop()"),
        ("sessions",),
    ),
    Bug(
        "session-dirty",
        "the pool keeps a server session after a network error",
        "_sessions.session:SessionPool.release",
        (" and not session.is_dirty", ""),
        ("sessions",),
    ),
    Bug(
        "session-clean-after-cancellation",
        "a server session whose reply its caller did not wait for is not marked",
        "_execution.sender:Sender._learn",
        ("(connection.stream.is_closed or connection.owed is not None)", "connection.stream.is_closed"),
        ("sessions",),
    ),
    Bug(
        "session-released-early",
        "the implicit session of an open cursor goes back to the pool",
        "_execution.executor:Executor._opened",
        (
            "implicit.server_session, run.server_session = run.server_session, None",
            "implicit.server_session = run.server_session",
        ),
        ("sessions",),
    ),
    Bug(
        "session-lost",
        "the server session of an operation that fails does not come back",
        "_execution.executor:Executor._end",
        ("if run.server_session is not None:", "if run.server_session is not None and run.source is not None:"),
        ("sessions",),
    ),
    # Retries.
    Bug(
        "retry-without-label",
        "an overload error without the label RetryableError is retried",
        "_retry.classification:rules",
        ("if failure.has_label(RETRYABLE):", "if failure.error:"),
        ("retries",),
    ),
    Bug(
        "retry-without-end",
        "the limit of overload retries is one too high",
        "_retry.decision:Retry._has_attempts_left",
        ("self.retries < self._policy.max_retries", "self.retries <= self._policy.max_retries"),
        ("retries",),
    ),
    Bug(
        "retry-twice",
        "an ordinary retry is made a second time without timeoutMS",
        "_retry.decision:Retry._has_attempts_left",
        ("(inf if self._deadline.is_set else 1)", "(inf if self._deadline.is_set else 2)"),
        ("retries",),
    ),
    Bug(
        "retry-of-anything",
        "writes that have no transaction number are retried after a network error",
        "_retry.classification:is_ordinary",
        ("return operation.is_retryable and (is_numbered or operation.kind is not Kind.WRITE)", "return True"),
        ("retries",),
    ),
    # Time limits.
    Bug(
        "max-time-whole",
        "maxTimeMS is the whole timeoutMS of the operation, whatever has passed of it",
        "_execution.building:add_time_limit",
        (
            "milliseconds = int((deadline.expires_at - now - min_round_trip_time) * 1000)",
            "milliseconds = int(deadline.timeout * 1000)",
        ),
        ("maxTimeMS",),
    ),
    Bug(
        "deadline-ignored",
        "an operation with timeoutMS waits for a connection without a limit",
        "_pool.pool:Pool.check_out",
        ("until = min(until, deadline.expires_at)", "until = until + 10"),
        ("deadline",),
    ),
    # Times of the cluster.
    Bug(
        "cluster-time-of-the-last-reply",
        "$clusterTime is that of the newest reply, which may be older than another",
        "_sessions.session:newest_cluster_time",
        ('other["clusterTime"] > one["clusterTime"]', "True"),
        ("cluster time",),
    ),
    Bug(
        "cluster-time-of-errors",
        "replies with an error do not advance $clusterTime",
        "_execution.sender:Sender._learn_times",
        ('if "$clusterTime" in reply:', 'if "$clusterTime" in reply and reply.get("ok") == 1:'),
        ("cluster time",),
    ),
    Bug(
        "session-forgets-its-time",
        "a causally consistent session does not advance beyond its first operationTime",
        "_sessions.session:Session.advance",
        ("operation_time > self.operation_time", "operation_time < self.operation_time"),
        ("causal consistency",),
    ),
    # Transaction numbers.
    Bug(
        "number-of-a-retry",
        "a retry has a transaction number of its own, so the server does not recognize it",
        "_execution.building:CommandBuilder._server_session",
        (
            "    server_session.last_use = now",
            "    if run.is_retry and run.transaction_number is not None:\n"
            "        server_session.transaction_number += 1\n"
            "        run.transaction_number = server_session.transaction_number\n"
            "    server_session.last_use = now",
        ),
        ("numbers",),
    ),
    Bug(
        "number-used-again",
        "a retryable write sometimes has the transaction number of the write before it",
        "_execution.building:CommandBuilder._server_session",
        (
            "server_session.transaction_number += 1",
            "server_session.transaction_number += now - server_session.last_use < 0.3",
        ),
        ("numbers",),
    ),
    # Replies.
    Bug(
        "reply-of-another",
        "nothing checks to which request a reply responds",
        "_connection.connection:Connection.round_trip",
        ("if reply.response_to != request_id:", "if reply.response_to < 0:"),
        ("replies",),
    ),
    Bug(
        "stray-reply-tolerated",
        "a connection on which a server sends what nobody has asked for stays open",
        "_net.on_asyncio.stream:AsyncioStream._sort",
        ("        self._refuse_surplus()", "        pass"),
        ("replies",),
    ),
    # The end.
    Bug(
        "close-leaves-idle",
        "idle connections stay open after the client's end",
        "_pool.state:PoolState._discard_all",
        ("self._drop(connection, reason)", "self.phase is _CLOSED or self._drop(connection, reason)"),
        ("connections", "nothing left"),
    ),
    Bug(
        "close-leaves-timers",
        "the timers of waits that ended early stay on the event loop",
        "_net.on_asyncio.runtime:AsyncioWaiter._wait_until",
        ("timer.cancel()", "pass"),
        ("nothing left",),
    ),
    Bug(
        "monitor-leaves-connections",
        "a monitor does not close the connection of a failed check",
        "_topology.monitor:Monitor._close",
        ("self._connection.close()", "pass"),
        ("connections", "nothing left"),
    ),
    # What the account of acknowledged writes is for.
    Bug(
        "majority-forgotten",
        "single writes do not ask for the write concern of their collection, so a rollback loses some of them",
        "_operations.common:add_write_concern",
        ('document["writeConcern"] = dict(write_concern.document)', 'document["writeConcern"] = {"w": 1}'),
    ),
    Bug(
        "concern-error-ignored",
        "a write that no majority has confirmed in time counts as acknowledged",
        "_wire.replies:check_write_concern",
        ('if reply.get("writeConcernError") is not None:', 'if reply.get("ok") != 1:'),
    ),
    Bug(
        "bulk-concern-error-ignored",
        "a bulk write that no majority has confirmed in time counts as acknowledged",
        "_operations.bulk:BulkResult.merge",
        ("if concern_error is not None:", "if concern_error is run:"),
    ),
    Bug(
        "lost-reply-called-failed",
        "an error after a lost reply says that nothing was executed",
        "_retry.classification:may_have_been_executed",
        ("failure.progress is Progress.IN_FLIGHT or failure.reply is not None", "failure.reply is not None"),
    ),
    Bug(
        "commit-repeats-everything",
        "with_transaction executes its callback again when it does not know whether the commit was applied",
        "_sessions.convenient:TransactionRetries.after_commit",
        ("return self._commit_again(error, now)", "return self._start_again(now)"),
    ),
    Bug(
        "lost-transaction-committed",
        "with_transaction returns as if it had committed when the server says that there is no such transaction",
        "_api.transactions:AsyncClientSession._commit_again",
        ("return delay", "return None"),
    ),
    Bug(
        "transaction-loses-a-statement",
        "updates after the first statement of a transaction are executed outside of it",
        "_execution.transactions:Part.add_fields",
        (
            "    transaction.join(document)",
            '    if self.is_first or operation.name != "update":\n        transaction.join(document)',
        ),
    ),
    Bug(
        "linearizable-forgotten",
        "reads do not ask for their read concern, so a deposed primary answers with old values",
        "_operations.common:add_read_concern",
        ('document["readConcern"] = dict(read_concern.document)', "pass"),
    ),
    Bug(
        "change-stream-skips",
        "a change stream moves behind a batch as soon as it arrives, and forgets its changes when it resumes",
        "_operations.change_stream:Position.received",
        ("if not reply.documents and self._batch_token", "if self._batch_token"),
    ),
    Bug(
        "change-stream-repeats",
        "a change stream that resumes within a batch returns its first changes again",
        "_operations.change_stream:Position.returned",
        ("    self.token = token\n", "    self.token = token if is_last else self.token\n"),
    ),
    Bug(
        "change-stream-starts-anew",
        "a change stream that resumes begins with what happens from then on",
        "_operations.change_stream:Position.stage_options",
        ("if self.token is not None:", "if self.token is self._given:"),
    ),
    Bug(
        "upload-leaves-chunks",
        "an upload that is aborted leaves its chunks",
        "_gridfs.upload:Upload.delete",
        ("await self._delete_chunks()", "pass"),
    ),
    Bug(
        "deletion-leaves-chunks",
        "the deletion of a file leaves its chunks when it is cancelled between the two",
        "_gridfs.store:Store.delete",
        ("await finish(self.chunks, error, partial(self._delete_orphans, [file_id], session))", "pass"),
    ),
    Bug(
        "upload-loses-a-batch",
        "an upload goes on after a batch of chunks that could not be stored",
        "_gridfs.upload:Upload._insert_chunks",
        (
            "    except BulkWriteError as error:",
            "    except Exception as error:\n        if not isinstance(error, BulkWriteError):\n            return",
        ),
    ),
)

BUGS: Final = {bug.name: bug for bug in _ALL}
"""All bugs by name."""
