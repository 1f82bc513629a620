"""An ASGI service that answers 503 with Retry-After when the driver refuses an operation.

`RetryAfter` wraps any ASGI application, Starlette's and FastAPI's included. `parts` is a small one without a framework;
`service_fastapi.py` is the same service in FastAPI. The tier of a user becomes the priority of its operations. Nothing
that the request handler calls can raise it, unless the queue has ``allow_priority_override=True``.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from math import ceil
from typing import Any, TypeAlias

import motorlite
from motorlite import AsyncMongoClient
from motorlite.errors import AdmissionError
from motorlite.overload import WaitQueue

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# The shorter the queue, the sooner users get an answer.
QUEUE = WaitQueue("queue", max_depth=200, timeout="1s", ordering="priority")
TIERS = {"gold": 90, "silver": 50, "free": 10}


def tier_of(scope: Scope) -> str:
    """The tier of the user. A real service takes it from the verified token, never from what the client says."""
    user = scope.get("user")
    return user.tier if user is not None else "free"


async def answer(send: Send, status: int, body: Any, **headers: str) -> None:
    """Send an HTTP response with a JSON body."""
    fields = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    encoded = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


class RetryAfter:
    """Assigns the priority of a request, and turns refusals of the driver into 503."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        is_answered = False

        async def note(message: Any) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            with motorlite.call_options(priority=TIERS[tier_of(scope)]):
                await self._application(scope, receive, note)
        except AdmissionError as refusal:
            if is_answered:
                raise  # the status has been sent
            seconds = ceil(refusal.retry_after or 1.0)
            body = {"title": type(refusal).__name__, "detail": str(refusal), "retry_after_seconds": seconds}
            await answer(send, 503, body, retry_after=str(seconds))


def parts(client: AsyncMongoClient[dict[str, Any]]) -> Application:
    """GET / returns the number of parts."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, 200, {"parts": await client.shop.parts.count_documents({})})

    return application


def service(uri: str) -> Application:
    """The service; any ASGI server runs it, for example ``uvicorn --factory``."""
    return RetryAfter(parts(AsyncMongoClient(uri, maxPoolSize=20, wait_queue=QUEUE)))
