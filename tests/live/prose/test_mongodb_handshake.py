"""The prose tests of the handshake specification that a real server shows: it tells what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId

from motorlite._connection.metadata import ENVIRONMENT_VARIABLES
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

LAMBDA = {"AWS_EXECUTION_ENV": "AWS_Lambda_java8"}
VALID_AWS = LAMBDA | {"AWS_REGION": "us-east-2", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"}
AWS: dict[str, Any] = {"name": "aws.lambda", "region": "us-east-2", "memory_mb": 1024}
# The environment, and what the server is told of it.
ENVIRONMENTS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "1 valid AWS": (VALID_AWS, AWS),
    "2 valid Azure": ({"FUNCTIONS_WORKER_RUNTIME": "node"}, {"name": "azure.func"}),
    "3 valid GCP": (
        {
            "K_SERVICE": "servicename",
            "FUNCTION_MEMORY_MB": "1024",
            "FUNCTION_TIMEOUT_SEC": "60",
            "FUNCTION_REGION": "us-central1",
        },
        {"name": "gcp.func", "memory_mb": 1024, "timeout_sec": 60, "region": "us-central1"},
    ),
    "4 valid Vercel": ({"VERCEL": "1", "VERCEL_REGION": "cdg1"}, {"name": "vercel", "region": "cdg1"}),
    "5 multiple providers": (LAMBDA | {"FUNCTIONS_WORKER_RUNTIME": "node"}, {}),
    "6 long string": (LAMBDA | {"AWS_REGION": "a" * 512}, {"name": "aws.lambda"}),
    "7 wrong types": (LAMBDA | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "big"}, {"name": "aws.lambda"}),
    "8 not AWS_Lambda_": ({"AWS_EXECUTION_ENV": "EC2"}, {}),
    "9 valid container and FaaS provider": (
        VALID_AWS | {"KUBERNETES_SERVICE_HOST": "1"},
        AWS | {"container": {"orchestrator": "kubernetes"}},
    ),
}


async def told(client: AsyncMongoClient[dict[str, Any]]) -> dict[str, Any]:
    """The `client` document of the connection that asks, as the server shows it."""
    tag = str(ObjectId())
    mine = {"$match": {"command.comment": tag}}
    (found,) = await client.admin.aggregate([{"$currentOp": {}}, mine], comment=tag).to_list()
    document: dict[str, Any] = found["clientMetadata"]
    return document


@pytest.mark.parametrize("case", ENVIRONMENTS)
async def test_1_environment_metadata(deployment: LocalServer, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Prose test 1: connection and hello succeed in each environment, and the server learns of it."""
    environment, expected = ENVIRONMENTS[case]
    for variable in ENVIRONMENT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    async with make_client(deployment) as client:
        assert (await client.admin.command("hello"))["ok"] == 1
        found = (await told(client)).get("env", {})
    # The tests themselves may run in a container.
    if found.get("container", {}).pop("runtime", None) and not found["container"]:
        del found["container"]
    assert found == expected
