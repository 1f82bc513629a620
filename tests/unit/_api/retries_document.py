"""Generates docs/retries.md from the operations' declarations: ``python -m tests.unit._api.retries_document``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from motorlite import OverloadRetry
from motorlite._operations.contract import Kind, TimeLimit
from motorlite._retry.backoff import CONTROLLED_BACKOFF
from tests.support.public_calls import SECTIONS, Call, sent_by
from tests.support.specification_codes import READ_CODES, WRITE_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.fake_core import Sent

FILE = Path(__file__).resolve().parents[3] / "docs" / "retries.md"

_LADDER = ", ".join(f"{1000 * seconds:g}" for seconds in CONTROLLED_BACKOFF[:-1])


def _codes() -> str:
    lines = ["| code | name | reads | writes |", "| ---: | --- | --- | --- |"]
    for code, name in sorted(READ_CODES.items()):
        lines.append(f"| {code} | {name} | yes | {'yes' if code in WRITE_CODES else 'no'} |")
    return "\n".join(lines)


_POLICY = OverloadRetry()
_REVISION = OverloadRetry.revision_2026_07()
_OPTION = {Kind.READ: "retryReads", Kind.WRITE: "retryWrites", Kind.COMMAND: "retryReads and retryWrites"}
_HEAD = ("call", "command", "after overload errors, if on", "after network errors and failovers", "deadline sent")

_TEXT = f"""\
# What is retried, and when

One retry loop makes every retry. This page is generated from the operations' declarations
(`python -m tests.unit._api.retries_document`), and a test checks that it is current. [What happens under
overload](overload.md) explains the rules with pictures.

- **Overload errors** carry the labels `SystemOverloadedError` and `RetryableError`. Every command is retried after
  them, at most {_POLICY.max_retries} times, while the deadline and the client's retry budget (a bucket of
  {_POLICY.token_capacity:g} tokens) last. Each of these retries takes a token and waits for a random part of 100 ms,
  200 ms, 400 ms ... (at most 10 s). Turning off the option in the third column of the tables below turns them off.
  `maxAdaptiveRetries`, `retry_budget` and `enableOverloadRetargeting` change the rest;
  `OverloadRetry.revision_2026_07()` means {_REVISION.max_retries} retries and no budget.
- **`RetryableError` alone** also permits a retry of every command, without a backoff and for one token.
- After **network errors and failovers** (a lost connection, a primary that stepped down; all [codes](#the-codes)),
  reads are retried once, immediately and without a token. So are writes that a replica set recognises by their
  transaction number. With `timeoutMS`, [further retries](#further-ordinary-retries) follow while time and tokens last.
- In the descriptions of methods, **as a retryable read** and **as a retryable write** mean retries after overload
  errors, and after network errors and failovers; **overload errors only** means no others.
- **The limit of {_POLICY.max_retries}** covers all retries of an operation, even with `timeoutMS`, once the operation
  has met an overload error or a label has permitted one of its retries.
- **Deadline sent**: whether the server receives what remains of `timeoutMS`, as `maxTimeMS`. If it does not, only the
  client enforces the limit.
- **An application's retry strategy** may add retries, or decide in place of these rules
  ([Retry strategies and budgets](retry-strategies.md)).
- **Reauthentication** (code 391): the driver authenticates the connection again and repeats the command, whatever the
  command and the options. If the server answers 391 on that connection again, the operation fails, as the
  authentication specification requires.
- No other error is retried.

## Which rule decides

The *ordinary rule* is the one for network errors and failovers. The fourth column of the tables below shows where it
applies.

| the error has the labels | retried by | backoff | token |
| --- | --- | --- | --- |
| `SystemOverloadedError` and `RetryableError` | its labels | yes | yes |
| `SystemOverloadedError` alone | nothing, whatever its code | | |
| `RetryableError` alone | its label, else the ordinary rule | no | by the label |
| neither | the ordinary rule | only for further retries | only for further retries |

The driver checks, in this order, whether a rule permits the retry, its option is on, attempts are left, the backoff
ends before the deadline, the client stays open, and a token is available. The first check that fails becomes the
error's `retry_refusal`. A label never makes an error less retryable than its code does: when the label has no attempt
or no token left, the ordinary rule decides, within its own limit.

An overload error has no such fallback: its retry needs a backoff, a token and one of `maxAdaptiveRetries` attempts,
even where the ordinary rule applies. **A connection that is refused, or closed before the server replies to hello, is
an overload error.** So `maxAdaptiveRetries=0` turns off that retry too, for reads and writes alike: the client cannot
tell a server that is down from an overloaded one.

**The operation raises** its newest error that reached a server; else the first one, because nothing was sent. For
writes, an error with the label `NoWritesPerformed` does not count as the newest. A failed authentication, or an answer
to hello that is not retried, is raised in place of earlier errors, unless the write may have been executed; then it is
the error's `__cause__`. An error that was replaced is in `retry_reasons`, the events and the log.

**A backoff ends early** when another server becomes suitable, if the operation got no connection or its error is not
an overload error: the first server may be dead, and a failover should not cost seconds. After an overload error from a
server, the backoff runs in full.

**A cancelled backoff** returns its token, because the retry was never sent; so does one that ends with
`asyncio.timeout`, which the driver cannot see. A retry that is cancelled later has used its token. Both count as
retries in `client.stats()`.

## Further ordinary retries

The specification of `timeoutMS` asks for retries until the time limit. Without a pause, a server that answers "host
unreachable" within a millisecond would get a thousand attempts a second from every operation. So only the first
ordinary retry of an operation is immediate and free. Every further one

- waits for a random part of {_LADDER} ms, and then of a second each time. A new primary, or another
  server that becomes suitable, ends the wait. If the wait would outlast the deadline, the operation fails at once with
  the error of its last attempt, and `error.timeout` is true;
- takes a token from the retry budget, which all operations of the client share. Without a token, the operation fails
  with the error of its last attempt, and `error.retry_refusal` is `"tokens"`. An operation therefore sends at most two
  commands more than there are tokens.

The same holds without `timeoutMS` where an operation may have more than one ordinary retry: after an overload error,
and when `with_transaction` repeats a commit whose result is unknown; each of these commits has an immediate and free
retry of its own. With `retryBudget=false`, only the waits limit these retries.

A further retry that succeeds returns 1.1 tokens, and one that fails with an error that is not retried returns 1. One
that fails and may be followed by another returns none: otherwise a server that keeps failing would refill the budget.

## The codes

The ordinary rule retries network errors (a lost or refused connection, a cleared pool, a socket timeout), also while a
connection is being established, and these codes of the server:

{_codes()}

Writes are retried if the error has the label `RetryableWriteError`. Servers set it since 4.4; for older ones, the
driver adds it to these codes. Both columns are those of the retryable reads and retryable writes specifications. A
[strategy](retry-strategies.md#codes-of-your-own) may name more codes.

## Exceptions to the ordinary rule

The ordinary rule does not apply to:

- `getMore`, because a batch could be lost, and `killCursors`, because the server closes an abandoned cursor by itself.
  A change stream resumes instead ([Change streams](change-streams.md));
- `database.command(...)` and `database.cursor_command(...)`, even for reads, because the driver does not inspect the
  command. **`mapReduce`** has no method of its own, so it is sent this way and never retried after a network error or a
  failover;
- `explain`, `validate_collection` and `server_info`: the retryable reads specification does not list their commands;
- `update_many`, `delete_many` and bulk writes with `UpdateMany` or `DeleteMany`, which may affect several documents;
- administration, and aggregations with `$out` or `$merge`;
- writes with `w=0`: they have no reply;
- operations in a transaction: the server may or may not have executed them, so the whole transaction has to be
  repeated ([Transactions](transactions.md)). Its commit and its abort are retried, even with `retryWrites=False`.

All of these are retried after overload errors; a write with `w=0` only if no connection could be established, so that
nothing was sent.

A client that is closing retries nothing, so it sends `endSessions` once; the server ends the sessions that it missed.
"""


def row(call: Call, sent: Sent) -> tuple[str, ...]:
    """One line of a table."""
    operation = sent.operation
    ordinary = "never"
    if operation.is_retryable and operation.is_acknowledged and operation.kind is not Kind.COMMAND:
        ordinary = f"once ({_OPTION[operation.kind]})"
    overload = _OPTION[operation.kind] + ("" if operation.is_acknowledged else ", before it is sent")
    if operation.ends is not None:
        ordinary, overload = "once (no option)", "no option"
    has_limit = "yes" if operation.time_limit in (TimeLimit.SEND, TimeLimit.DEADLINE) else "no"
    return (f"`{call.text}`", f"`{sent.name}`", overload, ordinary, has_limit)


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [_HEAD, tuple("---" for _ in _HEAD), *dict.fromkeys(rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


async def document() -> str:
    """The whole page."""
    lines = [_TEXT]
    for title, calls in SECTIONS.items():
        rows = [row(call, sent) for call in calls for sent in await sent_by(call)]
        lines += [f"## {title}", "", *_table(rows), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(anyio.run(document), encoding="utf-8")
