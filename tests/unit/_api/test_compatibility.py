"""Names of databases and collections as attributes, and the public names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import motorlite

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient


def test_names_with_an_underscore_are_no_handles(client: AsyncMongoClient) -> None:
    handles: list[tuple[str, Any, str]] = [
        ("AsyncMongoClient", client, "a database of that name is client['_other']"),
        ("AsyncDatabase", client.d, "a collection of that name is database['_other']"),
        ("AsyncCollection", client.d.c, "a collection of that name is collection['_other']"),
    ]
    for owner, made, instead in handles:
        assert not hasattr(made, "_other")
        with pytest.raises(AttributeError, match=re.escape(f"{owner} has no attribute '_other'; {instead}")):
            _ = made._other


def test_a_database_or_collection_may_have_the_name_of_a_feature(client: AsyncMongoClient) -> None:
    assert client["watch"]["bulk_write"]["watch"].full_name == "watch.bulk_write.watch"
    assert client.d.bulk_write.full_name == "d.bulk_write"


def test_public_names_exist() -> None:
    assert sorted(motorlite.__all__) == sorted(set(motorlite.__all__))
    assert [name for name in motorlite.__all__ if not hasattr(motorlite, name)] == []
