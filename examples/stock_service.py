"""A FastAPI service that keeps the stock of a shop, with one client for as long as the application lives.

    MONGODB_URI=mongodb://localhost:27017/?replicaSet=rs0 uvicorn examples.stock_service:app

What happens when the primary fails while requests are running:

- Requests wait until there is a new one, for at most ``TIMEOUT_MS`` (5000 by default), and are then served. Where an
  election takes longer, the service answers 503, and the caller may try again.
- A sale that was answered with 200 is not lost (write concern majority), and not counted twice: the driver repeats the
  update under the number that the server knows it by (retryable writes).
- A sale that was answered with 503 may have happened. If that matters to you, let the caller choose an id for each
  sale, and store it with the sale.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from motorlite import AsyncCollection, AsyncMongoClient, ReturnDocument
from motorlite.errors import ConnectionFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Pieces(BaseModel):
    """How many pieces of a part."""

    count: int = Field(gt=0)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Open the client before the first request, and close it after the last one."""
    # A client belongs to one event loop, so it is made here and not at the top of the module.
    uri = os.environ.get("MONGODB_URI", "mongodb://localhost:27017")
    timeout = int(os.environ.get("TIMEOUT_MS", "5000"))
    async with AsyncMongoClient[dict[str, Any]](uri, timeoutMS=timeout, w="majority") as client:
        await client.aconnect(timeoutMS=0)  # the service does not start without its database
        yield {"client": client}  # Starlette copies this into the state of each request


def parts_of(request: Request) -> AsyncCollection[dict[str, Any]]:
    """The collection that the routes use."""
    client: AsyncMongoClient[dict[str, Any]] = request.state.client
    return client.shop.parts


Parts = Annotated[AsyncCollection[dict[str, Any]], Depends(parts_of)]
app = FastAPI(title="stock", lifespan=lifespan)


@app.exception_handler(PyMongoError)
async def unavailable(request: Request, error: PyMongoError) -> JSONResponse:
    """Answer 503 if the database cannot serve the request now. Other errors are mistakes of ours: 500, and logged."""
    is_overloaded = error.has_error_label("SystemOverloadedError")
    if not (error.timeout or is_overloaded or isinstance(error, ConnectionFailure)):
        raise error
    return JSONResponse({"detail": type(error).__name__}, status_code=503, headers={"Retry-After": "1"})


@app.get("/parts/{name}")
async def read(name: str, parts: Parts) -> dict[str, Any]:
    """Return a part and its stock."""
    found = await parts.find_one({"_id": name})
    if found is None:
        raise HTTPException(404, f"there is no part {name!r}")
    return {"name": name, "stock": found["stock"]}


@app.post("/parts/{name}/deliveries")
async def deliver(name: str, pieces: Pieces, parts: Parts) -> dict[str, Any]:
    """Add to the stock of a part, which need not exist yet."""
    changed = await parts.find_one_and_update(
        {"_id": name}, {"$inc": {"stock": pieces.count}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    return {"name": name, "stock": changed["stock"] if changed else pieces.count}


@app.post("/parts/{name}/sales")
async def sell(name: str, pieces: Pieces, parts: Parts) -> dict[str, Any]:
    """Take from the stock, unless there is too little of it; looking and taking are one step."""
    changed = await parts.find_one_and_update(
        {"_id": name, "stock": {"$gte": pieces.count}},
        {"$inc": {"stock": -pieces.count}},
        return_document=ReturnDocument.AFTER,
    )
    if changed is None:
        raise HTTPException(409, f"there are not {pieces.count} of {name!r}")
    return {"name": name, "stock": changed["stock"]}
