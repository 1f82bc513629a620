"""Pure: what the servers of a `ScriptedDeployment` answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Document

__all__ = ["Answer", "Close", "Hang", "Raw", "Reply", "failure", "overloaded"]


@dataclass(frozen=True)
class Reply:
    """Answer with `document` after `delay` seconds; ``ok: 1`` is added if it is missing."""

    document: Mapping[str, Any]
    delay: float = 0.0


@dataclass(frozen=True)
class Close:
    """Close the connection instead of answering."""


@dataclass(frozen=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True)
class Raw:
    """Send these bytes, then close the connection if `close` is true; for answers that no server would send."""

    data: bytes
    close: bool = False


Answer: TypeAlias = "Reply | Close | Hang | Raw | Mapping[str, Any] | Callable[[Document], Answer]"


def failure(code: int, *labels: str, message: str = "scripted failure", **fields: Any) -> dict[str, Any]:
    """An error reply."""
    document: dict[str, Any] = {"ok": 0, "code": code, "errmsg": message, **fields}
    if labels:
        document["errorLabels"] = list(labels)
    return document


def overloaded(**fields: Any) -> dict[str, Any]:
    """The error reply of an overloaded server."""
    return failure(462, "SystemOverloadedError", "RetryableError", message="rate limit exceeded", **fields)


def resolved(answer: Answer, document: Document) -> Reply | Close | Hang | Raw | Mapping[str, Any]:
    """Return the answer to a command, from the functions that make it."""
    while callable(answer):
        answer = answer(document)
    return answer


def default_reply(name: str) -> dict[str, Any]:
    """The answer to a command without a script."""
    if name in ("find", "aggregate", "bulkWrite", "listCollections", "listIndexes"):
        return {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}, "ok": 1}
    if name == "getMore":
        return {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": []}, "ok": 1}
    return {"ok": 1, "n": 1}
