from __future__ import annotations

from typing import Any

import pytest
from bson.objectid import ObjectId

from motorlite._base.error_documents import NOT_PRIMARY_CODES, SHUTDOWN_CODES, SYSTEM_OVERLOADED
from motorlite._topology.error_handling import (
    NO_EFFECT,
    ErrorEffect,
    ErrorFacts,
    is_state_change_error,
    on_check_error,
    on_error,
)
from motorlite._topology.server_description import ServerDescription
from motorlite._wire.replies import error_from_reply, write_concern_error, write_error
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.topology_description import ServerType
from tests.support.deployments import A, primary
from tests.support.kept_errors import is_kept_copy

PROCESS = ObjectId()
LOAD_BALANCER = ServerDescription.load_balancer(A)


def version(counter: int) -> dict[str, Any]:
    return {"processId": PROCESS, "counter": counter}


def effect(error: PyMongoError, known: ServerDescription | None = None, **facts: Any) -> ErrorEffect:
    return on_error(known or primary(A, topologyVersion=version(5)), ErrorFacts(error=error, **facts))


def overloaded(error: PyMongoError) -> PyMongoError:
    error._add_error_label(SYSTEM_OVERLOADED)
    return error


def command_error(code: int | None, message: str = "no", **fields: Any) -> PyMongoError:
    reply = {"ok": 0, "errmsg": message, **fields}
    return error_from_reply(reply if code is None else {**reply, "code": code})


def test_network_error_of_an_operation() -> None:
    error = AutoReconnect("reset")
    result = effect(error)
    assert result.description is not None
    assert result.description.server_type is ServerType.Unknown
    assert is_kept_copy(result.description.error, error)
    assert result.description.topology_version is None
    assert (result.clear_pool, result.interrupt_in_use) == (True, False)
    assert (result.request_check, result.cancel_check) == (False, True)


@pytest.mark.parametrize(
    "error",
    [
        NetworkTimeout("slow"),
        ProtocolError("nonsense"),
        PoolClearedError("cleared"),
        ServerSelectionTimeoutError("none"),
        WaitQueueTimeoutError("busy"),
        command_error(50),
        command_error(11000),
        overloaded(command_error(462)),
    ],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'code', None)}",
)
def test_errors_of_an_operation_that_say_nothing_about_the_server(error: PyMongoError) -> None:
    assert effect(error) is NO_EFFECT


@pytest.mark.parametrize("code", sorted(NOT_PRIMARY_CODES))
def test_state_change_error(code: int) -> None:
    error = command_error(code, topologyVersion=version(6))
    result = effect(error)
    assert result.description is not None
    assert is_kept_copy(result.description.error, error)
    assert result.description.topology_version == version(6)
    assert result.clear_pool is (code in SHUTDOWN_CODES)
    assert (result.request_check, result.cancel_check, result.interrupt_in_use) == (True, False, False)


def test_topology_version_of_the_reply_decides_freshness() -> None:
    for counter in (4, 5):
        assert effect(command_error(91, topologyVersion=version(counter))) is NO_EFFECT
    other_process = {"processId": ObjectId(), "counter": 1}
    assert effect(command_error(91, topologyVersion=other_process)).description is not None
    assert effect(command_error(91)).description is not None


def test_write_concern_error_takes_the_version_of_its_reply() -> None:
    error = write_concern_error({"code": 91, "errmsg": "Replication is being shut down"})
    assert effect(error, topology_version=version(5)) is NO_EFFECT
    result = effect(error, topology_version=version(6))
    assert result.description is not None
    assert result.description.topology_version == version(6)
    assert result.clear_pool


def test_error_of_an_older_generation_is_ignored() -> None:
    for error in (AutoReconnect("reset"), command_error(91), command_error(10107)):
        assert effect(error, is_stale_generation=True) is NO_EFFECT


def test_overload_while_connecting_changes_nothing() -> None:
    for error in (AutoReconnect("reset"), NetworkTimeout("slow")):
        assert effect(overloaded(error), during_handshake=True) is NO_EFFECT


@pytest.mark.parametrize("phase", ["during_handshake", "during_authentication"])
@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("no such host"),
        NetworkTimeout("slow"),
        OperationFailure("authentication failed", 18, {"ok": 0}),
        ConfigurationError("no such mechanism"),
        ProtocolError("nonsense"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_errors_while_connecting_clear_the_pool(phase: str, error: PyMongoError) -> None:
    facts = ErrorFacts(error=error)
    setattr(facts, phase, True)
    result = on_error(primary(A), facts)
    assert result.description is not None
    assert is_kept_copy(result.description.error, error)
    assert (result.clear_pool, result.request_check, result.cancel_check) == (True, False, True)


def test_an_arbiter_that_does_not_authenticate_stays_one() -> None:
    error = ConfigurationError("an arbiter cannot authenticate anyone")
    assert effect(error, during_authentication=True).clear_pool, "it was taken for a primary"
    arbiter = primary(A, isWritablePrimary=False, ismaster=False, arbiterOnly=True)
    assert arbiter.server_type is ServerType.RSArbiter
    assert on_error(arbiter, ErrorFacts(error=error, during_authentication=True)) is NO_EFFECT


def test_state_change_error_while_connecting_clears_the_pool_and_asks_for_a_check() -> None:
    result = effect(command_error(10107), during_authentication=True)
    assert (result.clear_pool, result.request_check) == (True, True)


def test_load_balancer_is_never_unknown() -> None:
    service = ObjectId()
    for error, clears in [
        (AutoReconnect("reset"), True),
        (command_error(91), True),
        (command_error(10107), False),
        (NetworkTimeout("slow"), False),
    ]:
        result = effect(error, LOAD_BALANCER, service_id=service)
        assert result == ErrorEffect(clear_pool=clears)
    refused = effect(command_error(18), LOAD_BALANCER, service_id=service, during_authentication=True)
    assert refused == ErrorEffect(clear_pool=True)


def test_load_balancer_ignores_errors_before_the_service_is_known() -> None:
    for error in (AutoReconnect("reset"), command_error(91)):
        assert effect(error, LOAD_BALANCER, during_handshake=True) is NO_EFFECT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (command_error(None, "not master"), True),
        (command_error(None, "node is recovering"), True),
        (command_error(None, "not master or secondary; cannot currently read"), True),
        (command_error(None, "something else"), False),
        # A code alone decides.
        (command_error(1, "not master"), False),
        (NotPrimaryError("not primary"), True),
        (AutoReconnect("not master"), False),
        (write_error({"code": 10107, "errmsg": "not master"}), False),
    ],
)
def test_state_change_errors_by_code_or_message(error: PyMongoError, expected: bool) -> None:
    assert is_state_change_error(error) is expected


@pytest.mark.parametrize(
    ("error", "interrupts", "at_once"),
    [
        (AutoReconnect("reset"), False, True),
        (NetworkTimeout("slow"), True, True),
        (command_error(1), False, False),
        (NotPrimaryError("not primary"), False, False),
    ],
)
def test_failed_check(error: PyMongoError, interrupts: bool, at_once: bool) -> None:
    result = on_check_error(primary(A), error, now=3.0)
    assert result.description is not None
    assert is_kept_copy(result.description.error, error)
    assert result.description.last_update_time == 3.0
    assert result.clear_pool
    assert result.interrupt_in_use is interrupts
    assert result.request_check is at_once
    assert not result.cancel_check


def test_failed_check_of_an_unknown_server_waits_before_the_next() -> None:
    assert not on_check_error(ServerDescription.unknown(A), AutoReconnect("reset"), now=0.0).request_check
