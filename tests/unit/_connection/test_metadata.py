from __future__ import annotations

from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._base.version import __version__
from motorlite._connection.metadata import (
    ENVIRONMENT_VARIABLES,
    MAX_METADATA_BYTES,
    client_metadata,
    faas_provider,
    with_info,
)
from motorlite._net.host import PlatformFacts
from motorlite.driver_info import DriverInfo

LAMBDA = {"AWS_EXECUTION_ENV": "AWS_Lambda_java8"}
OS = {"type": "Linux", "name": "Debian 12", "architecture": "x86_64", "version": "12"}
PLATFORM = "CPython 3.11.9 (trio)"


def facts(**changes: Any) -> PlatformFacts:
    known: dict[str, Any] = {
        "os_type": "Linux",
        "os_name": "Debian 12",
        "os_version": "12",
        "architecture": "x86_64",
        "runtime": "CPython 3.11.9",
        "backend": "trio",
        "is_docker": False,
    }
    return PlatformFacts(**(known | changes))


def metadata(
    environment: dict[str, str] | None = None,
    *,
    app_name: str | None = None,
    info: tuple[str, str | None, str | None] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    infos = with_info((), DriverInfo(*info)) if info else ()
    return client_metadata(app_name=app_name, environment=environment or {}, platform=facts(**changes), infos=infos)


def size(document: dict[str, Any]) -> int:
    return len(bson.encode(document))


def test_the_whole_document() -> None:
    assert metadata(LAMBDA, app_name="app") == {
        "application": {"name": "app"},
        "driver": {"name": "motorlite", "version": __version__},
        "os": OS,
        "platform": PLATFORM,
        "env": {"name": "aws.lambda"},
    }


def test_what_is_unknown_is_left_out() -> None:
    document = metadata(os_name=None, os_version=None, architecture=None)
    assert document["os"] == {"type": "Linux"}
    assert set(document) == {"driver", "os", "platform"}


def test_an_empty_string_appends_nothing() -> None:
    document = metadata(info=("library", "", ""))
    assert document["driver"] == {"name": "motorlite|library", "version": __version__}
    assert document["platform"] == PLATFORM


# Handshake specification, prose test 1; its cases by number.
ENVIRONMENTS: dict[str, tuple[dict[str, str], dict[str, Any] | None]] = {
    "1 aws": (
        LAMBDA | {"AWS_REGION": "us-east-2", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"},
        {"name": "aws.lambda", "region": "us-east-2", "memory_mb": 1024},
    ),
    "2 azure": ({"FUNCTIONS_WORKER_RUNTIME": "node"}, {"name": "azure.func"}),
    "3 gcp": (
        {
            "K_SERVICE": "servicename",
            "FUNCTION_MEMORY_MB": "1024",
            "FUNCTION_TIMEOUT_SEC": "60",
            "FUNCTION_REGION": "us-central1",
        },
        {"name": "gcp.func", "memory_mb": 1024, "timeout_sec": 60, "region": "us-central1"},
    ),
    "4 vercel": ({"VERCEL": "1", "VERCEL_REGION": "cdg1"}, {"name": "vercel", "region": "cdg1"}),
    "5 multiple providers": (LAMBDA | {"FUNCTIONS_WORKER_RUNTIME": "node"}, None),
    "6 long string": (LAMBDA | {"AWS_REGION": "a" * 512}, {"name": "aws.lambda"}),
    "7 wrong types": (LAMBDA | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "big"}, {"name": "aws.lambda"}),
    "8 not lambda": ({"AWS_EXECUTION_ENV": "EC2"}, None),
    "9 container and faas": (
        LAMBDA
        | {
            "AWS_REGION": "us-east-2",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
            "KUBERNETES_SERVICE_HOST": "1",
        },
        {
            "name": "aws.lambda",
            "region": "us-east-2",
            "memory_mb": 1024,
            "container": {"orchestrator": "kubernetes"},
        },
    ),
    "vercel on lambda": (LAMBDA | {"AWS_REGION": "us-east-2", "VERCEL": "1"}, {"name": "vercel"}),
    "vercel and azure": ({"FUNCTIONS_WORKER_RUNTIME": "node", "VERCEL": "1"}, None),
    "lambda api": ({"AWS_LAMBDA_RUNTIME_API": "x"}, {"name": "aws.lambda"}),
    "function name": ({"FUNCTION_NAME": "x"}, {"name": "gcp.func"}),
    "empty": ({"VERCEL": "", "K_SERVICE": "", "KUBERNETES_SERVICE_HOST": ""}, None),
    "empty field": ({"VERCEL": "1", "VERCEL_REGION": ""}, {"name": "vercel"}),
    "int64": ({"K_SERVICE": "x", "FUNCTION_MEMORY_MB": "2147483648"}, {"name": "gcp.func"}),
    "int32": (
        {"K_SERVICE": "x", "FUNCTION_MEMORY_MB": "2147483647"},
        {"name": "gcp.func", "memory_mb": 2**31 - 1},
    ),
    "kubernetes": ({"KUBERNETES_SERVICE_HOST": "1"}, {"container": {"orchestrator": "kubernetes"}}),
}


@pytest.mark.parametrize("case", ENVIRONMENTS)
def test_environments(case: str) -> None:
    environment, expected = ENVIRONMENTS[case]
    assert set(environment) <= set(ENVIRONMENT_VARIABLES)
    assert metadata(environment).get("env") == expected
    assert faas_provider(environment) == (expected or {}).get("name")


def test_docker() -> None:
    assert metadata(is_docker=True)["env"] == {"container": {"runtime": "docker"}}
    both = metadata({"KUBERNETES_SERVICE_HOST": "1"}, is_docker=True)
    assert both["env"] == {"container": {"runtime": "docker", "orchestrator": "kubernetes"}}


def test_shortening_happens_in_the_order_of_the_specification() -> None:
    environment = LAMBDA | {"AWS_REGION": "us-east-2"}
    states: list[tuple[set[str], set[str], bool]] = []
    for length in range(1, 512):
        document = metadata(environment, info=("l", None, "p" * length))
        assert size(document) <= MAX_METADATA_BYTES
        state = (
            set(document.get("env", ())),
            set(document["os"]),
            len(document["platform"]) < len(PLATFORM) + 1 + length,
        )
        if not states or states[-1] != state:
            states.append(state)
            if state[2]:
                break
    assert states == [
        ({"name", "region"}, set(OS), False),
        ({"name"}, set(OS), False),
        ({"name"}, {"type"}, False),
        (set(), {"type"}, False),
        (set(), {"type"}, True),
    ]


def test_a_container_that_does_not_fit_leaves_no_empty_document() -> None:
    document = metadata({"KUBERNETES_SERVICE_HOST": "1"}, info=("l", None, "p" * 290))
    assert "env" not in document
    assert document["os"] == OS


def test_the_platform_is_cut_to_the_byte_and_between_characters() -> None:
    assert size(metadata(info=("l", None, "p" * 600))) == MAX_METADATA_BYTES
    document = metadata(info=("l", None, "\N{EURO SIGN}" * 300))
    assert MAX_METADATA_BYTES - 3 < size(document) <= MAX_METADATA_BYTES
    assert document["platform"].startswith(PLATFORM + "|\N{EURO SIGN}")


def test_wrapping_libraries_cannot_break_the_limit() -> None:
    document = metadata(LAMBDA, app_name="a" * 128, info=("n" * 600, "9" * 600, None))
    assert size(document) <= MAX_METADATA_BYTES
    assert document["application"] == {"name": "a" * 128}
    assert document["driver"]["name"].startswith("motorlite|n")
    assert "platform" not in document


def test_long_application_names_are_cut_between_characters() -> None:
    assert metadata(app_name="a" * 129)["application"]["name"] == "a" * 128
    assert metadata(app_name="\N{EURO SIGN}" * 43)["application"]["name"] == "\N{EURO SIGN}" * 42


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0|"), max_size=300)


@given(st.dictionaries(st.sampled_from(ENVIRONMENT_VARIABLES), TEXT), TEXT, TEXT, TEXT, TEXT)
def test_never_too_long(environment: dict[str, str], app_name: str, name: str, version: str, platform: str) -> None:
    document = metadata(environment, app_name=app_name, info=(name, version, platform))
    assert size(document) <= MAX_METADATA_BYTES
    assert document["driver"]["name"].startswith("motorlite")
    assert document["os"]["type"] == "Linux"
