"""What motorlite does not have yet says so, and names stay free for databases and collections."""

from __future__ import annotations

from typing import Any

import pytest

import motorlite
from motorlite._api import missing
from tests.support.fake_core import fake_client


@pytest.mark.parametrize(
    ("owner", "features"),
    [
        ("AsyncMongoClient", missing.CLIENT),
        ("AsyncDatabase", missing.DATABASE),
        ("AsyncCollection", missing.COLLECTION),
    ],
)
def test_what_is_not_there_yet_says_so(owner: str, features: dict[str, str]) -> None:
    client, _ = fake_client()
    made: dict[str, Any] = {
        "AsyncMongoClient": client,
        "AsyncDatabase": client.d,
        "AsyncCollection": client.d.c,
    }
    for name, feature in features.items():
        assert not hasattr(made[owner], name)
        for error in (AttributeError, NotImplementedError):
            with pytest.raises(error, match=f"{owner} has no {name!r} yet: motorlite does not support {feature}"):
                getattr(made[owner], name)
    with pytest.raises(AttributeError, match="has no attribute '_other'"):
        _ = made[owner]._other


def test_a_database_or_collection_may_have_the_name_of_a_feature() -> None:
    client, _ = fake_client()
    assert client["watch"]["bulk_write"]["watch"].full_name == "watch.bulk_write.watch"
    assert client.d.bulk_write.full_name == "d.bulk_write"


def test_public_names_exist() -> None:
    assert sorted(motorlite.__all__) == sorted(set(motorlite.__all__))
    assert [name for name in motorlite.__all__ if not hasattr(motorlite, name)] == []
