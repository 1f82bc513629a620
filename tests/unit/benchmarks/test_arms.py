from __future__ import annotations

import asyncio

import pytest

from benchmarks.arms import ARMS, DEFAULT_ARMS, Arm, arm_uri


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://h:1", "mongodb://h:1/?maxPoolSize=100"),
        ("mongodb://h:1/", "mongodb://h:1/?maxPoolSize=100"),
        ("mongodb://h:1/?a=b", "mongodb://h:1/?a=b&maxPoolSize=100"),
        ("mongodb://h:1/admin?maxPoolSize=5&a=b", "mongodb://h:1/admin?a=b&maxPoolSize=100"),
    ],
)
def test_every_arm_gets_the_same_pool(uri: str, expected: str) -> None:
    assert arm_uri(uri) == expected


def test_the_default_arms_exist() -> None:
    assert set(DEFAULT_ARMS) <= set(ARMS)


def test_an_arm_says_what_it_lacks() -> None:
    lacking = Arm("x", ("json", "json:loads", "json:nothing", "no_such_module"), ARMS["bare"].open)
    assert lacking.missing() == ["json:nothing", "no_such_module"]
    assert ARMS["bare"].missing() == []


def test_the_bare_arm_refuses_what_it_cannot_speak() -> None:
    async def main(uri: str) -> None:
        async with ARMS["bare"].open(uri):
            pass

    for uri in ("mongodb://u:p@h:1/", "mongodb+srv://h/", "mongodb://h:1,h:2/", "mongodb://h/?tls=true"):
        with pytest.raises(ValueError, match="one server"):
            asyncio.run(main(uri))
