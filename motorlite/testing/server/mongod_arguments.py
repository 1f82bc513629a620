"""Pure: the command lines, configurations and URIs of local servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from motorlite._base.values import format_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from motorlite._base.values import Address
    from motorlite.testing.server.certificates import Certificates

REPLICA_SET: Final = "rs0"
# The default journal files take 300 MB of disk per server; these take 32 MB and are equally fast.
JOURNAL: Final = "log=(prealloc=false,file_max=32MB)"
# An election takes about one second instead of ten, and the members notice a lost member immediately. Members follow
# the primary only. Else a member may try to follow one that still makes its first copy, finds itself "too stale" for
# that, and does not follow it for a minute, not even as the primary: majority writes wait that long after an election.
SETTINGS: Final[dict[str, int]] = {
    "electionTimeoutMillis": 1000,
    "heartbeatIntervalMillis": 200,
    "heartbeatTimeoutSecs": 1,
    "chainingAllowed": False,
}


def command_line(
    mongod: Path,
    folder: Path,
    port: int,
    *,
    replica_set: str | None = None,
    key_file: Path | None = None,
    auth: bool = False,
    certificates: Certificates | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[str]:
    """The arguments that start one mongod with its data in `folder`."""
    line = [str(mongod), "--port", str(port), "--bind_ip", "127.0.0.1", "--dbpath", str(folder)]
    line += ["--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", "--wiredTigerEngineConfigString", JOURNAL]
    if replica_set is not None:
        line += ["--replSet", replica_set, "--oplogSize", "64"]
    if auth:
        line.append("--auth")
    if key_file is not None:
        line += ["--keyFile", str(key_file)]
    if certificates is not None:
        line += ["--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates"]
        line += ["--tlsCertificateKeyFile", str(certificates.server_file)]
        line += ["--tlsCAFile", str(certificates.ca_file)]
    wanted = {"enableTestCommands": 1, "diagnosticDataCollectionEnabled": False, **(parameters or {})}
    for name, value in wanted.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        line += ["--setParameter", f"{name}={text}"]
    return line


def replica_set_configuration(name: str, addresses: Sequence[Address]) -> dict[str, Any]:
    """The document for ``replSetInitiate``.

    All members have equal priority: otherwise, a restarted member would replace the primary in a second election.
    """
    members = [{"_id": index, "host": format_address(address)} for index, address in enumerate(addresses)]
    return {"_id": name, "members": members, "settings": SETTINGS}


def connection_string(
    addresses: Sequence[Address],
    *,
    replica_set: str | None = None,
    credential: tuple[str, str] | None = None,
    certificates: Certificates | None = None,
) -> str:
    """The connection string of the servers."""
    options: dict[str, str] = {}
    if replica_set is not None:
        options["replicaSet"] = replica_set
    if certificates is not None:
        options["tls"] = "true"
        options["tlsCAFile"] = str(certificates.ca_file)
        options["tlsCertificateKeyFile"] = str(certificates.client_file)
    user = "" if credential is None else ":".join(quote(part, safe="") for part in credential) + "@"
    hosts = ",".join(format_address(address) for address in addresses)
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"mongodb://{user}{hosts}/{query}"
