"""One round through all routes, as after a deployment."""
import asyncio
import hashlib
import json

from shop.main import app


async def call(method: str, path: str, body: bytes = b"", query: str = "") -> tuple[int, bytes]:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
        "headers": [(b"content-type", b"application/json")],
    }
    sent, parts = [body], []

    async def receive():
        if sent:
            return {"type": "http.request", "body": sent.pop()}
        await asyncio.Event().wait()

    async def send(message):
        parts.append(message)

    await app(scope, receive, send)
    return parts[0]["status"], b"".join(part.get("body", b"") for part in parts[1:])


async def main() -> None:
    async with app.router.lifespan_context(app):
        for sku, price, stock in (("a", 1.5, 2), ("b", 2.5, 0), ("c", 0.5, 10)):
            product = {"sku": sku, "name": f"part {sku}", "price": price, "stock": stock}
            status, _ = await call("POST", "/products", json.dumps(product).encode())
            print("added", status)
        print(await call("POST", "/products", b'{"sku": "a"}'))
        print(await call("GET", "/products", query="count=2"))
        print((await call("PUT", "/restock", b'{"a": 1, "b": 2, "none": 3}')))
        for sku in "aaaab":
            status, _ = await call("POST", f"/orders/{sku}")
            print("ordered", sku, status)
        status, body = await call("GET", "/report")
        found = json.loads(body)
        print(status, found.pop("node").count(":"), found)
        picture = bytes(range(256)) * 2048
        status, _ = await call("PUT", "/pictures/big", picture)
        for start in (0, 300_000):
            status, body = await call("GET", "/pictures/big", query=f"start={start}")
            print(status, len(body), hashlib.sha256(body).hexdigest() == hashlib.sha256(picture[start:]).hexdigest())
        print(await call("GET", "/pictures/none"))


asyncio.run(main())
