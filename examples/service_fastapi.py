"""The service of `service.py` in FastAPI, which a handler of exceptions serves as well as a middleware."""

from __future__ import annotations

from contextlib import asynccontextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from motorlite import AsyncMongoClient
from motorlite.errors import AdmissionError
from motorlite.overload import WaitQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUEUE = WaitQueue("queue", max_depth=200, timeout="1s")


def service(client: AsyncMongoClient[dict[str, Any]]) -> FastAPI:
    """The application; it closes the client when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.exception_handler(AdmissionError)
    async def busy(request: Request, refusal: AdmissionError) -> JSONResponse:
        seconds = ceil(refusal.retry_after or 1.0)
        body = {"title": type(refusal).__name__, "detail": str(refusal), "retry_after_seconds": seconds}
        return JSONResponse(body, status_code=503, headers={"Retry-After": str(seconds)})

    @app.get("/")
    async def parts() -> dict[str, int]:
        return {"parts": await client.shop.parts.count_documents({})}

    return app


def main() -> FastAPI:
    """For ``uvicorn --factory examples.service_fastapi:main``."""
    return service(AsyncMongoClient("mongodb://localhost:27017", maxPoolSize=20, wait_queue=QUEUE))
