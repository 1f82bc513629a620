from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pymongo.errors import PyMongoError

from shop import database
from shop.database import Database, get_bucket
from shop.orders import order
from shop.pictures import store, stream
from shop.products import AlreadyThere, Products


@asynccontextmanager
async def lifespan(app: FastAPI):
    await database.connect()
    yield
    await database.disconnect()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(PyMongoError)
async def unavailable(request: Request, error: PyMongoError):
    return JSONResponse({"detail": type(error).__name__}, status_code=503)


@app.post("/products", status_code=201)
async def add(product: dict, db: Database):
    try:
        return {"id": str(await Products(db).add(product))}
    except AlreadyThere as error:
        raise HTTPException(409, "there is such a product") from error


@app.get("/products")
async def products(db: Database, count: int = 10):
    return await Products(db).cheapest(count)


@app.get("/report")
async def report(db: Database):
    found = Products(db)
    return {
        "value": await found.value(),
        "names": await found.names(),
        "sold out": await found.sold_out(),
        "node": await found.node(),
    }


@app.post("/orders/{sku}")
async def place(sku: str, db: Database):
    if not await order(database.mongo.client, db.name, sku):
        raise HTTPException(409, "sold out")
    return await Products(db).sell(sku, 0)


@app.put("/restock")
async def restock(counts: dict[str, int], db: Database):
    # Nobody waits for the log.
    db.log.insert_one({"restock": counts})
    return {"changed": await Products(db).restock(counts)}


@app.put("/pictures/{name}")
async def put_picture(name: str, request: Request, bucket=Depends(get_bucket)):
    return {"id": str(await store(bucket, name, await request.body()))}


@app.get("/pictures/{name}")
async def get_picture(name: str, bucket=Depends(get_bucket), start: int = 0):
    return StreamingResponse(stream(bucket, name, start), media_type="application/octet-stream")
