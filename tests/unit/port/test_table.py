"""The command's table, and that it and the guides are made from the comparison of the APIs."""

from __future__ import annotations

import importlib

import pytest

from motorlite.port._files import read_table
from motorlite.port._table import Target
from scripts import porting

TABLE = read_table()


def test_everything_generated_is_current() -> None:
    stale = [path.name for path, text in porting.documents(porting.Facts()) if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python -m scripts.porting"


def test_every_table_is_in_a_guide() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in porting.GUIDES)
    assert [name for name in porting.tables(porting.Facts()) if f"<!-- table: {name}, " not in pages] == []
    assert porting.with_tables(
        "<!-- table: a, by python -m scripts.porting -->\nold\n<!-- end -->", {"a": "| b |\n"}
    ) == ("<!-- table: a, by python -m scripts.porting -->\n\n| b |\n\n<!-- end -->")


def test_every_name_is_where_the_table_says() -> None:
    targets = {target.path for path in TABLE.known_paths() for target in [TABLE.target(path)] if target}
    assert len(targets) > 140
    for path in targets:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def test_every_class_is_followed_under_all_its_names() -> None:
    for path in ("pymongo.AsyncMongoClient", "pymongo.asynchronous.mongo_client.AsyncMongoClient", "motor.MotorClient"):
        assert TABLE.kind(path) == "AsyncMongoClient"
    assert TABLE.kind("motorlite.AsyncMongoClient") == "AsyncMongoClient"
    assert TABLE.kind("elsewhere.AsyncMongoClient") == ""
    assert TABLE.kind("pymongo.MongoClient") == ""
    assert TABLE.kind("pymongo.errors.AutoReconnect") == ""


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("pymongo.errors.AutoReconnect", "motorlite.errors.AutoReconnect"),
        ("pymongo.errors", "motorlite.errors"),
        ("pymongo.ReadPreference.PRIMARY", "motorlite.ReadPreference.PRIMARY"),
        ("pymongo.mongo_client.ReadPreference", "motorlite.ReadPreference"),
        # Names that a module imports itself.
        ("pymongo.errors.InvalidDocument", "motorlite.errors.InvalidDocument"),
        ("pymongo.asynchronous.database.AsyncCollection", "motorlite.AsyncCollection"),
        ("pymongo.client_options.PoolOptions", "motorlite.client_options.PoolOptions"),
        ("motor", "motorlite"),
        ("app.types.AsyncIOMotorClient", "motorlite.AsyncMongoClient"),
    ],
)
def test_where_names_are(path: str, ours: str) -> None:
    assert TABLE.target(path) == Target(ours)


@pytest.mark.parametrize(
    ("path", "reason", "is_synchronous"),
    [
        ("pymongo.MongoClient", "motorlite is asynchronous only", True),
        ("pymongo.MongoClient.close", "motorlite is asynchronous only", True),
        ("pymongo.synchronous.mongo_client.MongoClient", "motorlite is asynchronous only", True),
        ("pymongo.collection.Collection", "the synchronous API: motorlite is asynchronous only", True),
        ("gridfs.GridFS", "motorlite is asynchronous only", True),
        ("pymongo.encryption.ClientEncryption", "use AsyncClientEncryption of motorlite.encryption", False),
        ("pymongo.errors.NoSuchError", "motorlite.errors has no such name", False),
        ("motor.motor_asyncio.Nothing", "motorlite has no such name", False),
    ],
)
def test_what_has_no_counterpart(path: str, reason: str, is_synchronous: bool) -> None:
    assert TABLE.target(path) == Target("", reason)
    assert Target("", reason).is_synchronous is is_synchronous


def test_values_of_both_packages_are_the_same() -> None:
    """A project with both clients keeps PyMongo's: constants are equal, objects are accepted by their class's name."""
    values = {
        path: target.path
        for path in TABLE.known_paths()
        for target in [TABLE.target(path)]
        if target and TABLE.is_value(target.path)
    }
    assert len(values) > 40
    for theirs, ours in values.items():
        one, other = porting.value_at(theirs), porting.value_at(ours)
        if isinstance(one, str | int):
            assert one == other
        elif isinstance(one, type):
            assert one.__name__ == other.__name__
            constants = {name: value for name, value in vars(one).items() if isinstance(value, str | int | bool)}
            assert all(getattr(other, name) == value for name, value in constants.items() if name[0] != "_"), theirs
    for path in (
        "errors.AutoReconnect",
        "AsyncMongoClient",
        "timeout",
        "version",
        "results.UpdateResult",
        "monitoring",
    ):
        assert not TABLE.is_value(f"motorlite.{path}")


@pytest.mark.parametrize("path", ["os.path", "motorlite.errors", "bson.ObjectId", "pymongo_inmemory.MongoClient"])
def test_what_is_not_of_these_packages(path: str) -> None:
    assert TABLE.target(path) is None
