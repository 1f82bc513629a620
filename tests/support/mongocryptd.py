"""A scripted mongocryptd: it marks the fields that a JSON schema wants encrypted, at the top of documents only."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.binary import Binary

from motorlite._client.dependencies import Dependencies
from motorlite.testing.scripted import ScriptedDeployment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, FrameStream, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.parts import ProxyOptions
    from motorlite.testing.scripted import ScriptedServer

ADDRESS: Final = "mongocryptd:27020"
_NUMBERS: Final = {"AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic": 1, "AEAD_AES_256_CBC_HMAC_SHA_512-Random": 2}
_COMMANDS: Final = ("insert", "find", "update", "delete", "findAndModify", "aggregate", "count", "distinct", "getMore")


class Marker:
    """The deployment, and what a client needs to reach it beside a real server."""

    def __init__(self) -> None:
        self.deployment = ScriptedDeployment([ADDRESS])
        self.server: ScriptedServer = self.deployment[ADDRESS]
        for command in _COMMANDS:
            self.server.on(command, mark)

    @property
    def world(self) -> dict[str, Any]:
        return {"connector": self._connector}

    def _connector(self, runtime: Runtime, tls: TLSContext | None, proxy: ProxyOptions | None) -> Connector:
        real = Dependencies().connector(runtime, tls, proxy)
        scripted = self.deployment.connector(runtime, None)

        def connect(address: Address, framer: Framer, until: float) -> Awaitable[FrameStream]:
            chosen = scripted if address[0] == "mongocryptd" else real
            return chosen(address, framer, until)

        return connect


def mark(command: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of mongocryptd: the command with marks instead of the values to encrypt."""
    schema = command.pop("jsonSchema", {}).get("properties", {})
    fields = {name: each["encrypt"] for name, each in schema.items() if "encrypt" in each}
    for unwanted in ("isRemoteSchema", "lsid", "$db", "$clusterTime", "$readPreference"):
        command.pop(unwanted, None)
    result = {name: _marked(value, fields) for name, value in command.items()}
    return {
        "ok": 1,
        "schemaRequiresEncryption": bool(fields),
        "hasEncryptionPlaceholders": result != command,
        "result": result,
    }


def _marked(value: Any, fields: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_marked(each, fields) for each in value]
    if not isinstance(value, dict):
        return value
    marked = partial(_mark, fields)
    return {name: marked(name, each) if name in fields else _marked(each, fields) for name, each in value.items()}


def _mark(fields: Mapping[str, Any], name: str, value: Any) -> Binary:
    rule = fields[name]
    placeholder = {"a": _NUMBERS[rule["algorithm"]], "v": value, "ki": rule["keyId"][0]}
    return Binary(b"\0" + bson.encode(placeholder), 6)
