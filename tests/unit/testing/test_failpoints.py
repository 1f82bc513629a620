from __future__ import annotations

from typing import Any

import pytest

from motorlite.testing import failpoints


def test_every_effect_and_filter_is_in_the_document() -> None:
    document = failpoints.fail_command(
        ["find", "getMore"],
        error_code=462,
        error_labels=["RetryableError"],
        times=3,
        close_connection=True,
        block_ms=250,
        app_name="one",
        namespace="shop.orders",
        write_concern_error={"code": 91},
    )
    assert document == {
        "configureFailPoint": "failCommand",
        "mode": {"times": 3},
        "data": {
            "failCommands": ["find", "getMore"],
            "errorCode": 462,
            "closeConnection": True,
            "blockConnection": True,
            "blockTimeMS": 250,
            "writeConcernError": {"code": 91},
            "errorLabels": ["RetryableError"],
            "appName": "one",
            "namespace": "shop.orders",
        },
    }


def test_the_command_name_comes_first_and_nothing_is_sent_that_was_not_asked_for() -> None:
    document = failpoints.fail_command(["ping"], error_code=1)
    assert next(iter(document)) == "configureFailPoint"
    assert document["mode"] == "alwaysOn"
    assert failpoints.fail_command(["ping"], error_code=1, skip=2)["mode"] == {"skip": 2}
    assert document["data"] == {"failCommands": ["ping"], "errorCode": 1}
    # No labels is different from the server's choice.
    assert failpoints.fail_command(["ping"], error_code=91, error_labels=())["data"]["errorLabels"] == []
    assert failpoints.off() == {"configureFailPoint": "failCommand", "mode": "off"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"commands": [], "error_code": 1}, "at least one command"),
        ({"commands": ["find"]}, "name an effect"),
        ({"commands": ["find"], "app_name": "x"}, "name an effect"),
        ({"commands": ["find"], "namespace": "a.b"}, "name an effect"),
        ({"commands": ["find"], "error_code": 1, "probability": 1.5}, "between 0 and 1"),
        ({"commands": ["find"], "error_code": 1, "probability": 0.5, "times": 1}, "cannot be combined"),
        # The server would fail the first command.
        ({"commands": ["find"], "error_code": 1, "times": 1, "skip": 1}, "cannot be combined"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        failpoints.fail_command(**arguments)


def test_one_command_without_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match="commands must be a list of names of commands, not 'find'"):
        failpoints.overload(1, "find")


def test_overload_is_a_share_of_the_ordinary_commands() -> None:
    document = failpoints.overload()
    assert document["mode"] == {"activationProbability": 0.6}
    assert document["data"]["errorCode"] == 462
    assert document["data"]["errorLabels"] == ["SystemOverloadedError", "RetryableError"]
    commands = set(document["data"]["failCommands"])
    assert {"find", "insert", "getMore"} <= commands
    # What observes and controls the server is not rejected.
    assert not commands & {"hello", "isMaster", "saslStart", "saslContinue", "configureFailPoint", "endSessions"}


def test_overload_for_the_next_commands() -> None:
    document = failpoints.overload(commands=["find"], times=2, error_labels=["RetryableError"], namespace="a.b")
    assert document["mode"] == {"times": 2}
    assert document["data"]["errorLabels"] == ["RetryableError"]
    assert document["data"]["namespace"] == "a.b"
