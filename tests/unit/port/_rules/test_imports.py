"""Imports, and the uses of what they import."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.unit.port.written import ported, report, written


@pytest.mark.parametrize(
    "program",
    [
        "from pymongo import AsyncMongoClient\n",
        "from pymongo import AsyncMongoClient as Client\n",
        "from pymongo import InsertOne, UpdateOne  # both\n",
        "from pymongo.errors import (\n    AutoReconnect,\n)\n",
        "from pymongo.errors import DuplicateKeyError as Twice\n",
        "from pymongo import errors\nerrors.AutoReconnect\n",
        "from pymongo import errors as e\ne.AutoReconnect\n",
        "from pymongo import monitoring\nmonitoring.CommandListener\n",
        "import pymongo\npymongo.ASCENDING\n",
        "import pymongo\n",
        "import pymongo as pm\npm.ReturnDocument.AFTER\n",
        "import pymongo, sys\nx = pymongo.TEXT\n",
        "import pymongo.errors\npymongo.errors.AutoReconnect\n",
        "import pymongo.errors as e\ne.AutoReconnect\n",
        "import pymongo\nimport pymongo.monitoring\npymongo.monitoring.register(pymongo.TEXT)\n",
        "from pymongo.write_concern import WriteConcern\n",
        "if True:\n    from pymongo import ASCENDING\n",
        "def f():\n\tfrom pymongo import TEXT\n\treturn TEXT\n",
        "if 1: import pymongo\n",
        "class A: from pymongo import TEXT; x = TEXT\n",
        "try: import pymongo\nexcept ImportError: pymongo = None\n",
        "match x:\n    case pymongo.ReturnDocument.AFTER: pass\nimport pymongo\n",
        "def f():\n    from pymongo import errors as e\n    return e.AutoReconnect\n"
        "def g():\n    from pymongo.errors import AutoReconnect as e\n    return e\n",
        "import os; import pymongo; x = pymongo.TEXT\n",
        "from pymongo import \\\n    ASCENDING, \\\n    DESCENDING\n",
        "try:\n    from pymongo import AsyncMongoClient\nexcept ImportError:\n    AsyncMongoClient = None\n",
        "import pymongo\npymongo.__version__\n",
        "from pymongo import __version__\n",
        "from pymongo import version as v\n",
    ],
)
def test_pymongos_names_that_keep_their_place(program: str) -> None:
    after = program.replace("pymongo", "motorlite")
    assert written(program) == after
    # What was written has nothing left.
    assert report(after) == []


@pytest.mark.parametrize(
    "program",
    [
        "from motor.motor_asyncio import AsyncIOMotorClient\nAsyncIOMotorClient()\n",
        "from motor.motor_asyncio import AsyncIOMotorClient as Client\nClient()\n",
        "import motor.motor_asyncio\nmotor.motor_asyncio.AsyncIOMotorClient()\n",
        "import motor.motor_asyncio as ma\nma.AsyncIOMotorClient()\n",
        "from motor.motor_asyncio import AsyncIOMotorClient\n__all__ = ['AsyncIOMotorClient']\n",
        *(
            f"from motor.motor_asyncio import AsyncIOMotorClient\n{exported}\n"
            for exported in (
                *("__all__ = ('AsyncIOMotorClient',)", "__all__: list[str] = ['AsyncIOMotorClient']"),
                *("__all__ += ['AsyncIOMotorClient']", "__all__.append('AsyncIOMotorClient')"),
            )
        ),
    ],
)
def test_motors_names_that_keep_their_place(program: str) -> None:
    after = program.replace("motor.motor_asyncio", "motorlite").replace("AsyncIOMotor", "AsyncMongo")
    assert written(program) == after
    assert report(after) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from pymongo.asynchronous.collection import AsyncCollection\n", "from motorlite import AsyncCollection\n"),
        (
            "from pymongo.asynchronous import database\ndatabase.AsyncDatabase\n",
            "import motorlite\nmotorlite.AsyncDatabase\n",
        ),
        (
            "import pymongo.asynchronous.cursor\nx: pymongo.asynchronous.cursor.AsyncCursor\n",
            "import motorlite.cursor\nx: motorlite.cursor.AsyncCursor\n",
        ),
        ("from pymongo.collection import ReturnDocument\n", "from motorlite import ReturnDocument\n"),
        (
            "import pymongo.collection\npymongo.collection.ReturnDocument\n",
            "import motorlite\nmotorlite.ReturnDocument\n",
        ),
        (
            "from pymongo import collection\ncollection.ReturnDocument.AFTER\n",
            "import motorlite\nmotorlite.ReturnDocument.AFTER\n",
        ),
        ("from pymongo.server_type import SERVER_TYPE\n", "from motorlite.topology_description import SERVER_TYPE\n"),
        ("import gridfs\ngridfs.NoFile\n", "from motorlite import gridfs\ngridfs.NoFile\n"),
        ("import gridfs as g\ng.NoFile\n", "from motorlite import gridfs as g\ng.NoFile\n"),
        ("from gridfs import AsyncGridFSBucket, NoFile\n", "from motorlite.gridfs import AsyncGridFSBucket, NoFile\n"),
        ("from gridfs.asynchronous import AsyncGridOut\n", "from motorlite.gridfs import AsyncGridOut\n"),
        ("from gridfs.errors import NoFile\n", "from motorlite.gridfs import NoFile\n"),
        ("import gridfs.errors\ngridfs.errors.NoFile\n", "from motorlite import gridfs\ngridfs.NoFile\n"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from pymongo.asynchronous.database import AsyncDatabase\n",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from motorlite import AsyncDatabase\n",
        ),
        (
            "from motor import motor_asyncio\nmotor_asyncio.AsyncIOMotorClient()\n",
            "import motorlite\nmotorlite.AsyncMongoClient()\n",
        ),
        (
            "import motor.motor_asyncio\nx: motor.motor_asyncio.AsyncIOMotorGridFSBucket\n",
            "import motorlite\nimport motorlite.gridfs\nx: motorlite.gridfs.AsyncGridFSBucket\n",
        ),
        (
            "import motor.motor_asyncio as ma\nx: ma.AsyncIOMotorGridOut\n",
            "import motorlite as ma\nimport motorlite.gridfs\nx: motorlite.gridfs.AsyncGridOut\n",
        ),
        (
            "from motor.motor_asyncio import (\n    AsyncIOMotorClient,  # one\n    AsyncIOMotorGridFSBucket,\n)\n",
            "from motorlite import (\n    AsyncMongoClient,  # one\n"
            ")\nfrom motorlite.gridfs import AsyncGridFSBucket\n",
        ),
        (
            "from motor.core import AgnosticDatabase\ndef f(db: AgnosticDatabase): ...\n",
            "from motorlite import AsyncDatabase\ndef f(db: AsyncDatabase): ...\n",
        ),
        (
            "from motor import MotorClient\nMotorClient()\n",
            "from motorlite import AsyncMongoClient\nAsyncMongoClient()\n",
        ),
        (
            "from motor.motor_asyncio import AsyncIOMotorDatabase\nclass AsyncDatabase: ...\nx: AsyncIOMotorDatabase\n",
            "from motorlite import AsyncDatabase as AsyncIOMotorDatabase\nclass AsyncDatabase: ...\n"
            "x: AsyncIOMotorDatabase\n",
        ),
        (
            "from motor.motor_asyncio import (AsyncIOMotorClient,\n    AsyncIOMotorGridFSBucket\n)\n",
            "from motorlite import (AsyncMongoClient,\n)\nfrom motorlite.gridfs import AsyncGridFSBucket\n",
        ),
        (
            "from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridOut\n",
            "from motorlite import AsyncMongoClient\nfrom motorlite.gridfs import AsyncGridOut\n",
        ),
        ("from motor import motor_asyncio\n", "import motorlite\n"),
    ],
)
def test_names_with_another_place(before: str, after: str) -> None:
    assert written(before) == after
    assert report(after) == []


def test_annotations_that_are_strings() -> None:
    before = """\
        from __future__ import annotations
        from typing import TYPE_CHECKING, Optional, cast
        if TYPE_CHECKING:
            import motor.motor_asyncio as ma
            from motor.motor_asyncio import AsyncIOMotorDatabase
        def f(a: 'AsyncIOMotorDatabase', b: Optional["AsyncIOMotorDatabase[dict]"]) -> "list[ma.AsyncIOMotorCursor]":
            note = "AsyncIOMotorDatabase"
            return cast("AsyncIOMotorDatabase | None", note)
    """
    after = written(before)
    assert 'def f(a: \'AsyncDatabase\', b: Optional["AsyncDatabase[dict]"]) -> "list[ma.AsyncCursor]":' in after
    assert 'note = "AsyncIOMotorDatabase"' in after
    assert 'cast("AsyncDatabase | None", note)' in after


def test_strings_in_annotations_that_are_no_code() -> None:
    before = """\
        import pymongo
        from motor.motor_asyncio import AsyncIOMotorDatabase
        def f(a: "list['AsyncIOMotorDatabase']", b: Literal["pymongo"] = "pymongo") -> None: ...
        c: "Literal['pymongo', 'AsyncIOMotorDatabase']"
    """
    after = written(before)
    assert """f(a: "list['AsyncDatabase']", b: Literal["pymongo"] = "pymongo")""" in after
    assert """c: "Literal['pymongo', 'AsyncIOMotorDatabase']\"""" in after


def test_names_that_a_match_captures_stay() -> None:
    """They are the function's own, wherever it uses them, and a name with a dot would be no capture."""
    matches = """\
        def f(value):
            match value:
                case {"e": errors, **pymongo}:
                    return errors.code, pymongo
                case [AsyncIOMotorClient, *errors]:
                    return AsyncIOMotorClient
                case object(errors=1) as errors:
                    return errors
    """
    used = """\
        def g(value):
            match value:
                case pymongo.ReturnDocument.AFTER | errors.AutoReconnect(errors=1):
                    return AsyncIOMotorClient
                case AsyncIOMotorClient():
                    return pymongo.has_c()
    """
    head = "import pymongo\nfrom pymongo import errors\nfrom motor.motor_asyncio import AsyncIOMotorClient\n"
    after = written(head + dedent(matches) + dedent(used))
    assert dedent(matches) in after
    assert "case motorlite.ReturnDocument.AFTER | errors.AutoReconnect(errors=1):" in after
    assert "return AsyncMongoClient\n" in after
    assert "case AsyncMongoClient():" in after
    compile(after, "", "exec")


@pytest.mark.parametrize(
    "statement",
    [
        "match thing:\n    case AsyncIOMotorClient: pass\n",
        "for AsyncIOMotorClient in things: pass\n",
        "with thing as AsyncIOMotorClient: pass\n",
        "try: pass\nexcept OSError as AsyncIOMotorClient: pass\n",
        "(AsyncIOMotorClient := thing)\n",
        "class A:\n    AsyncIOMotorClient = AsyncIOMotorClient\n",
    ],
)
def test_names_that_the_module_also_gives_to_something_else_stay(statement: str) -> None:
    head = "from motor.motor_asyncio import AsyncIOMotorClient\nAsyncIOMotorClient()\n"
    after = "from motorlite import AsyncMongoClient as AsyncIOMotorClient\nAsyncIOMotorClient()\n"
    assert written(head + statement) == after + statement
    text, lines = ported({"a.py": "import pymongo\npymongo.has_c()\nmatch x:\n    case pymongo: pymongo.TEXT\n"})[
        "a.py"
    ]
    assert "case pymongo: pymongo.TEXT" in text
    assert any("4: by hand: pymongo.TEXT -> motorlite.TEXT, where" in line for line in lines)


# --- what stays ---


def test_the_synchronous_api_stays() -> None:
    text = "from pymongo import MongoClient, UpdateOne\nfrom pymongo.errors import AutoReconnect\nMongoClient()\n"
    assert written(text) == text
    lines = report(text)
    assert len(lines) == 2
    assert all(": stays: pymongo.MongoClient -> " in line for line in lines)


def test_both_clients_in_one_file() -> None:
    before = """\
        import pymongo
        from pymongo import AsyncMongoClient, MongoClient, UpdateOne
        from pymongo.errors import AutoReconnect, InvalidDocument
        pymongo.MongoClient
        pymongo.AsyncMongoClient
        pymongo.ASCENDING
    """
    text, lines = ported({"a.py": before})["a.py"]
    assert text == (
        "import pymongo\nimport motorlite\n"
        "from motorlite import AsyncMongoClient\nfrom pymongo import MongoClient, UpdateOne\n"
        "from pymongo.errors import AutoReconnect, InvalidDocument\n"
        "pymongo.MongoClient\nmotorlite.AsyncMongoClient\npymongo.ASCENDING\n"
    )
    (by_hand,) = (line for line in lines if "by hand" in line)
    assert "motorlite.errors.AutoReconnect and pymongo.errors.AutoReconnect" in by_hand


def test_names_that_motorlite_lacks() -> None:
    text, lines = ported({"a.py": "import pymongo\npymongo.has_c()\npymongo.timeout(5)\n"})["a.py"]
    assert text == "import pymongo\nimport motorlite\npymongo.has_c()\nmotorlite.timeout(5)\n"
    assert "2: by hand: pymongo.has_c -> use bson.has_c(): motorlite has no C extension of its own" in lines
    (line,) = report("from pymongo.encryption import ClientEncryption\n")
    assert (
        line == "1: by hand: pymongo.encryption.ClientEncryption -> use AsyncClientEncryption of motorlite.encryption"
    )
    (line,) = report("from pymongo.errors import CertificateError\n")
    assert line.endswith("motorlite.errors has no such name")
    (line,) = report("from pymongo import *\n")
    assert "write out the names" in line


def test_a_line_can_be_kept() -> None:
    text = "from pymongo import AsyncMongoClient  # port: keep\nAsyncMongoClient()\n"
    assert (written(text), report(text)) == (text, [])
    text = "import pymongo\npymongo.TEXT\npymongo.has_c()  # port: keep\n"
    assert report(text) == [
        "1: write: import pymongo -> import pymongo; import motorlite",
        "2: write: pymongo.TEXT -> motorlite.TEXT",
    ]


def test_modules_without_a_counterpart() -> None:
    for text in ("from pymongo import encryption\n", "import pymongo.encryption as e\n", "import motor.aiohttp\n"):
        assert written(text) == text
        assert [line for line in report(text) if ": by hand: " in line], text
    # Submodules that uses which stay need.
    before = """\
        import pymongo
        import pymongo.encryption
        import pymongo.errors, os
        pymongo.encryption.ClientEncryption
        pymongo.errors.AutoReconnect
    """
    text, lines = ported({"a.py": before})["a.py"]
    assert text.startswith("import pymongo\nimport motorlite\nimport pymongo.encryption\nimport os\n")
    assert "import motorlite.errors" in text
    assert "motorlite.errors.AutoReconnect" in text
    assert any("use AsyncClientEncryption" in line for line in lines)


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        ("\n    A,  # one\n    B,  # two\n", "\n    A,  # one\n", "\n    B,  # two\n"),
        ("\n    A,  # one\n    B  # two\n", "\n    A,  # one\n", "\n    B  # two\n"),
        ("  # all\n    B,  # two\n    A,  # one\n", "\n    A,  # one\n", "  # all\n    B,  # two\n"),
    ],
)
def test_comments_go_with_their_names(names: str, first: str, second: str) -> None:
    def named(text: str, client: str, file: str) -> str:
        return text.replace("A", client).replace("B", file)

    before = "from motor.motor_asyncio import (" + named(names, "AsyncIOMotorClient", "AsyncIOMotorGridOut") + ")\n"
    after = written(before)
    assert "from motorlite import (" + named(first, "AsyncMongoClient", "") + ")\n" in after
    assert "from motorlite.gridfs import (" + named(second, "", "AsyncGridOut") + ")\n" in after
    assert report(after) == []


# --- several files ---

SYNC = "from pymongo import MongoClient\ndb = MongoClient().db\n"
ASYNC = "from pymongo import AsyncMongoClient\ndb = AsyncMongoClient().db\n"
CATCHES = "from pymongo.errors import DuplicateKeyError\ntry: db.users.insert_one({})\nexcept DuplicateKeyError: pass\n"


def test_errors_of_the_synchronous_client_that_another_module_makes_stay() -> None:
    found = ported({"app/db.py": SYNC, "app/users.py": "from .db import db\n" + CATCHES, "app/other.py": CATCHES})
    assert found["app/users.py"] == ("from .db import db\n" + CATCHES, [])
    assert found["app/other.py"] == (CATCHES, [])


def test_errors_follow_the_client_of_the_modules_that_are_imported() -> None:
    found = ported(
        {
            "app/__init__.py": "",
            "app/sync.py": SYNC,
            "app/aio.py": ASYNC,
            "app/deep.py": "from app import aio\ncollection = aio.db.users\n",
            "app/a.py": "from app.deep import collection\n" + CATCHES,
            "app/b.py": "import app.sync\n" + CATCHES,
            "app/c.py": CATCHES,
            "app/d.py": CATCHES + "async def f(): ...\n",
        }
    )
    ours = CATCHES.replace("pymongo", "motorlite")
    assert found["app/a.py"][0] == "from app.deep import collection\n" + ours
    assert found["app/b.py"] == ("import app.sync\n" + CATCHES, [])
    assert found["app/d.py"][0] == ours + "async def f(): ...\n"
    # What cannot be seen, a person has to say.
    text, lines = found["app/c.py"]
    assert text == CATCHES
    assert len(lines) == 2
    assert all(": by hand: " in line and "this project also uses the synchronous client" in line for line in lines)


def test_motors_names_that_a_module_of_the_project_exports() -> None:
    found = ported(
        {
            "app/__init__.py": "",
            "app/types.py": "from motor.motor_asyncio import AsyncIOMotorDatabase as AsyncIOMotorDatabase\n",
            "app/a.py": "from app.types import AsyncIOMotorDatabase\nx: AsyncIOMotorDatabase\n",
            "app/b.py": "from .types import AsyncIOMotorDatabase\nx: 'AsyncIOMotorDatabase'\n",
            "app/c.py": "from app import types\nx: types.AsyncIOMotorDatabase\n",
            "app/d.py": "from elsewhere import AsyncIOMotorDatabase\nx: AsyncIOMotorDatabase\n",
        }
    )
    assert found["app/types.py"][0] == "from motorlite import AsyncDatabase as AsyncDatabase\n"
    assert found["app/a.py"][0] == "from app.types import AsyncDatabase\nx: AsyncDatabase\n"
    assert found["app/b.py"][0] == "from .types import AsyncDatabase\nx: 'AsyncDatabase'\n"
    assert found["app/c.py"][0] == "from app import types\nx: types.AsyncDatabase\n"
    assert found["app/d.py"][0] == "from elsewhere import AsyncIOMotorDatabase\nx: AsyncIOMotorDatabase\n"
    assert "a package outside of the project exports Motor's class" in found["app/d.py"][1][0]


def test_results_of_both_clients_in_one_file() -> None:
    """``isinstance(result, InsertOneResult)`` is false for the other client's."""
    text = """\
        from pymongo import AsyncMongoClient, MongoClient
        from pymongo.results import InsertOneResult
        def f(result): return isinstance(result, InsertOneResult)
    """
    after, lines = ported({"a.py": text})["a.py"]
    assert "from pymongo.results import InsertOneResult\n" in after
    by_hand = [line for line in lines if ": by hand: " in line]
    assert [line.partition(":")[0] for line in by_hand] == ["2", "3"]
    assert "whose results are PyMongo's: write motorlite.results.InsertOneResult where the asynchronous" in by_hand[0]
    assert report(text.replace("AsyncMongoClient, ", "")) == [
        "1: stays: pymongo.MongoClient -> motorlite is asynchronous only",
    ]


def test_the_package_is_no_difference_where_nothing_is_asynchronous() -> None:
    text = "setup(install_requires=['pymongo>=3.7'])\n"
    assert ported({"setup.py": text, "db.py": SYNC})["setup.py"][1] == []
    for other in (ASYNC, "x = lib.AsyncIOMotorClient()\n", "x = lib.AsyncMongoClient()\n", "x = 1\n"):
        found = ported({"setup.py": text, "db.py": SYNC if other == "x = 1\n" else other, "other.py": other})
        assert len(found["setup.py"][1]) == (other != "x = 1\n")


def test_values_of_projects_with_both_clients_stay() -> None:
    """The synchronous client takes nothing but PyMongo's, and motorlite takes them too."""
    text = """\
        import pymongo
        from pymongo import AsyncMongoClient, IndexModel, ReadPreference, UpdateOne, timeout
        from pymongo.errors import DuplicateKeyError
        from pymongo.results import InsertOneResult
        from pymongo.write_concern import WriteConcern
        x = pymongo.ReadPreference.PRIMARY, pymongo.version
    """
    found = ported({"app/sync.py": SYNC, "app/aio.py": text})
    after, lines = found["app/aio.py"]
    assert "from pymongo import IndexModel, ReadPreference, UpdateOne\n" in after
    assert "from pymongo.write_concern import WriteConcern\n" in after
    assert "import motorlite\n" in after
    assert "from motorlite import AsyncMongoClient, timeout\n" in after
    assert "from motorlite.errors import DuplicateKeyError\n" in after
    assert "from motorlite.results import InsertOneResult\n" in after
    assert "x = pymongo.ReadPreference.PRIMARY, motorlite.version\n" in after
    assert all(": write: " in line for line in lines)
    # Without the synchronous client, all of them move.
    assert "pymongo" not in ported({"app/aio.py": text})["app/aio.py"][0]


# --- strings ---


def test_loggers_and_paths() -> None:
    before = """\
        import logging
        from unittest import mock
        logging.getLogger("pymongo.command").setLevel(30)
        logging.getLogger(name='pymongo')
        CONFIG = {"loggers": {"pymongo.topology": {"level": "INFO"}}, "pymongo": 1}
        mock.patch("pymongo.AsyncMongoClient")
        mock.patch("motor.motor_asyncio.AsyncIOMotorClient")
        mock.patch("app.db.AsyncIOMotorClient")
        mock.patch("os.path", b"pymongo.errors", "gridfs")
        print("pymongo.something", "motor.cars", "motor", {"motor": "electric"}, "a motor", "pymongo of old")
    """
    text, lines = ported({"a.py": before})["a.py"]
    assert 'getLogger("motorlite.command")' in text
    assert "getLogger(name='motorlite')" in text
    assert '{"loggers": {"motorlite.topology": {"level": "INFO"}}, "pymongo": 1}' in text
    assert '5: by hand: "pymongo" -> "motorlite", if it names the package' in lines
    assert '6: by hand: "pymongo.AsyncMongoClient" -> "motorlite.AsyncMongoClient"' in lines
    assert all(int(line.partition(":")[0]) < 9 for line in lines)
    assert '8: by hand: "app.db.AsyncIOMotorClient" -> "app.db.AsyncMongoClient"' in lines
    assert '7: by hand: "motor.motor_asyncio.AsyncIOMotorClient" -> "motorlite.AsyncMongoClient"' in lines


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ('patch("pymongo.asynchronous.pool.Pool.checkout")', "internal modules"),
        ('patch(target="pymongo.asynchronous.collection.AsyncCollection.find")', '"motorlite.AsyncCollection.find"'),
        ('COLLECTION = "pymongo.asynchronous.collection.AsyncCollection"', '"motorlite.AsyncCollection"'),
        ('import_module("motor.motor_asyncio")', '-> "motorlite"'),
        ('{"motor.motor_asyncio": None}', '-> "motorlite"'),
        ('patch.object(database, "AsyncIOMotorClient")', '-> "AsyncMongoClient"'),
        ('getattr(ma, "AsyncIOMotorGridFSBucket")', '-> "AsyncGridFSBucket"'),
        ('for name in ("pymongo.command",): pass', '"motorlite.command", if it names a logger'),
        ('import_module("pymongo")', '"motorlite", if it names the package'),
        ('importlib.import_module(name="motor")', '"motorlite", if it names the package'),
        ('importlib.util.find_spec("motor")', '"motorlite", if it names the package'),
        ('find_spec("gridfs")', '"motorlite.gridfs", if it names the package'),
        ('__import__("motor")', '"motorlite", if it names the package'),
        ('pytest.importorskip("motor")', '"motorlite", if it names the package'),
        ('version("motor")', '"motorlite", if it names the package'),
        ('sys.modules["motor"] = None', '"motorlite", if it names the package'),
        ('x = "motor" in sys.modules', '"motorlite", if it names the package'),
        ('monkeypatch.setitem(sys.modules, "motor", None)', '"motorlite", if it names the package'),
        ('DEPENDENCIES = ["motor"]', '"motorlite", if it names the package'),
        ('x: dict = {"packages": {"pymongo": "4.0"}}', '"motorlite", if it names the package'),
        ('Storage(requires="motor")', '"motorlite", if it names the package'),
        ('def f(package="motor"): pass', '"motorlite", if it names the package'),
        ('setup(install_requires=["pymongo>=4.9"])', '"motorlite", if it names the package'),
        ('session.install("motor[srv] ~= 3.7")', '"motorlite", if it names the package'),
        ('run("pip install -U motor pytest")', "installs Motor or PyMongo"),
        ('exec("from motor import motor_asyncio")', "imports Motor or PyMongo"),
        ('"""An example::\\n\\n    import pymongo\\n' + "Words. " * 100 + '"""', "imports Motor or PyMongo"),
        ('import_module(f"motor.motor_{name}")', "names a module of Motor or PyMongo"),
        ('import_module("pymongo." + name)', "names a module of Motor or PyMongo"),
        ('patch("pymongo.no_such_thing.Client")', "motorlite has no such name"),
        ('patch("motor.aiohttp.AIOHTTPGridFS")', "open_download_stream"),
        ('patch("motor.nothing.Client")', "motorlite has no such name"),
    ],
)
def test_strings_that_a_person_has_to_change(before: str, expected: str) -> None:
    (line,) = report(before + "\n")
    assert line.startswith("1: by hand: ")
    assert expected in line
    # Long texts are shortened.
    assert len(line) < 250


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("x = module.AsyncIOMotorClient()", "1: by hand: module.AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = a['b'].module.AsyncIOMotorGridOut", "AsyncIOMotorGridOut -> AsyncGridOut"),
        ("x = f().AsyncIOMotorDatabase", "1: by hand: f().AsyncIOMotorDatabase -> AsyncDatabase"),
        ("x = module.MotorClient", "1: by hand: module.MotorClient -> AsyncMongoClient"),
        ("x = module.AsyncIOMotorNothing", "AsyncIOMotorNothing -> motorlite has no counterpart"),
        ("x = AsyncIOMotorClient()", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("def f(x: 'AsyncIOMotorClient'): ...", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = 'AsyncIOMotorClient'", "1: by hand: 'AsyncIOMotorClient' -> \"AsyncMongoClient\""),
        ("x = {'app.db.AsyncIOMotorClient': 1}", '-> "app.db.AsyncMongoClient"'),
        ("x = 'No AsyncIOMotorClient here.'", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = b'AsyncIOMotorClient'", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = f'{y} AsyncIOMotorClient'", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = f'an {AsyncIOMotorClient}'", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("'''One.\n\nAn AsyncIOMotorClient.\n'''", "3: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("x = y  # type: AsyncIOMotorClient", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
        ("# One AsyncIOMotorClient", "1: by hand: AsyncIOMotorClient -> AsyncMongoClient"),
    ],
)
def test_motors_classes_are_reported_wherever_they_are(before: str, expected: str) -> None:
    lines = report(f"{before}\n")
    assert any(expected in line for line in lines), lines
    if "One." not in before:
        assert report(f"{before}  # port: keep\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "import bson\nfrom bson import ObjectId\nfrom bson.codec_options import CodecOptions\n",
        # Some word of a database has to be there, or the file is not read at all.
        "from bson import ObjectId\ncollection = ObjectId()\n",
        "def f(pymongo, errors):\n    return pymongo.ASCENDING, errors.AutoReconnect\n",
        "class AsyncIOMotorStorage: pass\nx = AsyncIOMotorStorage()\ny = module.AsyncIOMotorStorage\n",
        "def f(AsyncIOMotorClient): return AsyncIOMotorClient\n",
        'from motorlite import AsyncDatabase as AsyncIOMotorDatabase\nz: "AsyncIOMotorDatabase"\n',
    ],
)
def test_names_of_the_program_itself_and_of_bson_stay(text: str) -> None:
    assert report(text) == []
    assert written(f"import pymongo\n{text}pymongo.TEXT\n") == f"import motorlite\n{text}motorlite.TEXT\n"
