"""The options of pools, as a client shows them."""

from __future__ import annotations

import pymongo
import pytest

from motorlite._options.options import client_options
from motorlite.driver_info import DriverInfo
from motorlite.server_api import ServerApi

GIVEN = {
    "maxPoolSize": 7,
    "minPoolSize": 2,
    "maxConnecting": 3,
    "maxIdleTimeMS": 4000,
    "waitQueueTimeoutMS": 5000,
    "connectTimeoutMS": 6000,
    "socketTimeoutMS": 7000,
    "localThresholdMS": 20,
    "timeoutMS": 100,
    "replicaSet": "rs",
    "appName": "tests",
    "tls": True,
    "tlsAllowInvalidHostnames": True,
}


@pytest.mark.parametrize("given", [{}, GIVEN])
def test_they_have_pymongos_names_and_values(given: dict[str, object]) -> None:
    theirs = pymongo.AsyncMongoClient(connect=False, **given).options  # type: ignore[arg-type]  # any option
    ours = client_options(**given)
    for name in ("replica_set_name", "local_threshold_ms"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in (
        *("max_pool_size", "min_pool_size", "max_connecting", "max_idle_time_seconds", "connect_timeout"),
        *("socket_timeout", "wait_queue_timeout", "tls_allow_invalid_hostnames", "appname", "driver", "server_api"),
    ):
        assert getattr(ours.pool_options, name) == getattr(theirs.pool_options, name), name
    assert ours.pool_options.load_balanced is bool(theirs.pool_options.load_balanced)
    assert ours.pool_options.non_default_options == {
        name: value for name, value in theirs.pool_options.non_default_options.items() if name in given
    }


def test_objects_are_those_of_the_client() -> None:
    api, driver = ServerApi("1"), DriverInfo("odm")
    options = client_options(server_api=api, driver=driver)
    assert options.pool_options.server_api is api
    assert options.pool_options.driver is driver
