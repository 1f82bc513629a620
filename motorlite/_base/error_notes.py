"""Pure: what the text of an error says besides its message: server, phase, time limits, attempts."""

from __future__ import annotations

from typing import Any

from motorlite._base.values import format_address


def of(error: Any) -> list[str]:
    """Return the notes of a PyMongoError, in the order in which its text has them."""
    notes = []
    if error.address is not None:
        notes.append(f"server {format_address(error.address)}")
    if error.phase == "backoff":
        notes.append("too little time left for the backoff")
    elif error.phase is not None:
        notes.append(f"time used up in phase: {error.phase}")
    if error.client_limit is not None or error.server_limit is not None:
        notes.append(f"time limits: client {_seconds(error.client_limit)}, server {_seconds(error.server_limit)}")
    if error.attempts > 1:
        reasons = ", ".join(dict.fromkeys(error.retry_reasons))
        notes.append(f"{error.attempts} attempts, retried for: {reasons}")
    if error.attempts > 1 and error.may_have_been_executed:
        notes.append("may have been executed")
    if error.attempts > 1 and error.retry_refusal is not None:
        notes.append(f"not retried again: {error.retry_refusal}")
    elif error.retry_refusal not in (None, "not retryable") and not (
        error.retry_refusal == "deadline" and error.timeout
    ):
        notes.append(f"not retried: {error.retry_refusal}")
    return notes


def _seconds(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g} s"
