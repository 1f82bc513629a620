"""How clients, databases and so on are followed through a program: each program closes a client of Motor's."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.unit.port.written import ported

IMPORT = "from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorDatabase\n"


@pytest.mark.parametrize(
    "program",
    [
        "client = AsyncIOMotorClient()\nasync def f():\n    client.close()\n",
        "client: AsyncIOMotorClient = make()\nasync def f():\n    client.close()\n",
        "async def f(client: 'AsyncIOMotorClient | None'):\n    client.close()\n",
        "async def f(client: Optional[AsyncIOMotorClient[dict]] = None):\n    client.close()\n",
        "async def f(client: Annotated[AsyncIOMotorClient, 1]):\n    client.close()\n",
        "async def f(client=Depends(get)):\n    client.close()\ndef get() -> AsyncIOMotorClient: ...\n",
        "async def f(client: Annotated[Any, Depends(get)]):\n"
        "    client.close()\ndef get():\n    return AsyncIOMotorClient()\n",
        "Client = Annotated[AsyncIOMotorClient, 1]\nasync def f(client: Client):\n    client.close()\n",
        "class A:\n    def __init__(self):\n        self.client = AsyncIOMotorClient()\n"
        "    async def f(self):\n        self.client.close()\n",
        "class A:\n    client: AsyncIOMotorClient\n    async def f(self):\n        self.client.close()\n",
        "class A:\n    client = None\n    async def f(self):\n"
        "        A.client = AsyncIOMotorClient()\n        self.client.close()\n",
        "class A:\n    @property\n    def client(self):\n        return AsyncIOMotorClient()\n"
        "    async def f(self):\n        self.client.close()\n",
        "class A:\n    def client(self) -> AsyncIOMotorClient: ...\n"
        "    async def f(self):\n        self.client().close()\n",
        "async def f(app):\n    app.state.mongo = AsyncIOMotorClient()\n    app.state.mongo.close()\n",
        "async def f(app):\n    app.state.mongo = AsyncIOMotorClient()\n"
        "async def g(request):\n    request.app.state.mongo.close()\n",
        "async def f(db: AsyncIOMotorDatabase):\n    db.client.close()\n",
        "async def f(db: AsyncIOMotorDatabase):\n    db.parts.part.database.client.close()\n",
        "async def f(db: AsyncIOMotorDatabase):\n    db.get_collection('x').database.client.close()\n",
        "async def f():\n    (client := AsyncIOMotorClient()).close()\n",
        "async def f(old):\n    client = old or AsyncIOMotorClient()\n    client.close()\n",
        "async def f(old):\n    client = old if old else AsyncIOMotorClient()\n    client.close()\n",
        "async def f():\n    async with make() as client:\n        client.close()\n"
        "@asynccontextmanager\nasync def make() -> AsyncIterator[AsyncIOMotorClient]: ...\n",
        "async def f():\n    async with make() as client:\n        client.close()\n"
        "@asynccontextmanager\nasync def make():\n    yield AsyncIOMotorClient()\n",
        "@pytest.fixture\ndef client():\n    return AsyncIOMotorClient()\n"
        "async def test(client):\n    client.close()\n",
        "def make():\n    return AsyncIOMotorClient()\nasync def f():\n    make().close()\n",
        "async def f(db: AsyncIOMotorDatabase):\n"
        "    async with await db.client.start_session() as s:\n        s.client.close()\n",
        "async def f():\n    client = None\n    client = AsyncIOMotorClient()\n    client.close()\n",
        "async def f():\n    client = AsyncIOMotorClient()\n    client = client.with_options()\n    client.close()\n",
        "async def f(client=None):\n    client = client or AsyncIOMotorClient()\n    client.close()\n",
        "client: AsyncIOMotorClient\nasync def f():\n    client.close()\nclient = make()\n",
        "async def f(client: AsyncIOMotorClient):\n    client = wrap()\n    client.close()\n",
    ],
)
def test_a_client_is_followed(program: str) -> None:
    text, _ = ported({"a.py": IMPORT + program})["a.py"]
    assert ".close()" in text
    assert text.count("await ") - program.count("await ") == 1, text


@pytest.mark.parametrize(
    "program",
    [
        "async def f(client):\n    client.close()\n",
        "class A:\n    def __init__(self):\n        self.client = AsyncIOMotorClient()\n"
        "class B:\n    def __init__(self):\n        self.client = open('x')\n"
        "    async def f(self):\n        self.client.close()\n",
        "async def f(a, b):\n    a.mongo = AsyncIOMotorClient()\n"
        "    b.mongo = open('x')\nasync def g(c):\n    c.mongo.close()\n",
        "async def f(clients: list[AsyncIOMotorClient]):\n    clients.close()\n",
        "def f():\n    f = g()\n    f.close()\ndef g():\n    g = f()\n    return g\n",
        "async def f(x: 'not a type'):\n    x.close()\n",
        "x = x\nasync def f():\n    x.close()\n",
        "async def f(x: 'Optional[\"dict\"]', y: Unknown, z=Depends(), u=Depends(1)):\n"
        "    x.close(); y.close(); z.close()\n",
        "class A:\n    def client(self): ...\n    async def f(self):\n        self.client.close()\n",
        "import client\nasync def f():\n    client.close()\n"
        "    (a, b), c = d\n    a.close()\n    for e in c: e.close()\n",
        "async def f(client: 'list[int]', *, other=None):\n    with open('x') as y: y.close()\n    client.close()\n",
        # One name for several things.
        "async def f():\n    with open('x') as c:\n        c.close()\n    c = AsyncIOMotorClient()\n",
        "async def f():\n    c = AsyncIOMotorClient()\n    c, d = make()\n    c.close()\n",
        "async def f():\n    c = AsyncIOMotorClient()\n    c.close()\n    c = AsyncIOMotorClient().db.coll\n",
        "async def f():\n    c = AsyncIOMotorClient().db.coll\n    c = AsyncIOMotorClient()\n    c.close()\n",
    ],
)
def test_what_may_be_something_else_is_left_alone(program: str) -> None:
    text, _ = ported({"a.py": IMPORT + program})["a.py"]
    assert "await" not in text


def test_a_client_is_followed_through_modules() -> None:
    files = {
        "src/app/__init__.py": "from .database import client as client\n",
        "src/app/database.py": IMPORT + "client = AsyncIOMotorClient()\ndb = client.shop\ndef get(): return client\n",
        "src/app/a.py": "from app.database import client\nasync def f():\n    client.close()\n",
        "src/app/b.py": "from . import database\nasync def f():\n    database.client.close()\n",
        "src/app/c.py": "from app import client\nasync def f():\n    client.close()\n",
        "src/app/d.py": "import app.database\nasync def f():\n    app.database.get().close()\n",
        "src/app/e.py": "from ..app.database import get\nasync def f(client=Depends(get)):\n    client.close()\n",
    }
    found = ported(files)
    for name in "abcde":
        assert "    await " in found[f"src/app/{name}.py"][0], name


def test_types_of_other_modules() -> None:
    files = {
        "types_.py": IMPORT + "Client = AsyncIOMotorClient[dict]\nDatabase = Annotated[AsyncIOMotorDatabase, 1]\n",
        "a.py": "from types_ import Client, Database\n"
        "async def f(c: Client, d: Database):\n    c.close()\n    d.client.close()\n",
    }
    assert dedent(ported(files)["a.py"][0]).count("await ") == 2
