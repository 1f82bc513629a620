"""Whether a deployment meets the requirements of a test (Unified Test Format, "runOnRequirement")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spec.unified.encryption import unmet as unmet_encryption
from tests.spec.unified.outcomes import BadTest, SkipKind, Skipped
from tests.spec.unified.schema import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.spec.unified.environment import Environment, Topology

_KNOWN = frozenset(
    {
        "minServerVersion",
        "maxServerVersion",
        "topologies",
        "serverless",
        "serverParameters",
        "auth",
        "authMechanism",
        "csfle",
    }
)


# The first server with client-side encryption.
_ENCRYPTS = (4, 2)


def allows(topologies: Iterable[str], topology: Topology) -> bool:
    """Whether a list of topologies has this one; the shard behind the facade is a replica set."""
    kind = "sharded" if topology == "sharded-8.0" else topology
    return kind in topologies or (kind == "sharded" and "sharded-replicaset" in topologies)


def check(requirements: Iterable[Mapping[str, Any]] | None, environment: Environment) -> None:
    """Check that one of the requirements is met.

    Raises:
        Skipped: none is; the reason is what the last one lacks.
    """
    if requirements is None:
        return
    unmet: list[Skipped] = []
    for requirement in requirements:
        found = unmet_by(requirement, environment)
        if found is None:
            return
        unmet.append(found)
    # What another deployment of this server would meet says less than what none can.
    unmet.sort(key=lambda skipped: skipped.reason)
    raise Skipped(unmet[0].kind, " or ".join(dict.fromkeys(skipped.reason for skipped in unmet)))


def unmet_by(requirement: Mapping[str, Any], environment: Environment) -> Skipped | None:
    """What the deployment lacks, or None."""
    if unknown := set(requirement) - _KNOWN:
        raise BadTest(f"unknown requirements {sorted(unknown)}")
    if "csfle" in requirement:
        lacking = unmet_encryption(requirement["csfle"])
        if lacking is not None:
            return Skipped(SkipKind.ENCRYPTION, f"needs {lacking}")
    if requirement.get("serverless") == "require":
        return Skipped(SkipKind.SERVER, "needs Atlas Serverless")
    needed = _unmet_version(requirement, environment) or _unmet_kind(requirement, environment)
    needed = needed or _unmet_parameters(requirement, environment)
    return None if needed is None else Skipped(SkipKind.SERVER, f"needs {needed}")


def _unmet_version(requirement: Mapping[str, Any], environment: Environment) -> str | None:
    lowest, highest = requirement.get("minServerVersion"), requirement.get("maxServerVersion")
    if requirement.get("csfle") and environment.version < _ENCRYPTS:
        return "server 4.2 or newer"
    if lowest is not None and environment.version < version(lowest):
        return f"server {lowest} or newer"
    if highest is not None and environment.version > version(highest):
        return f"server {highest} or older"
    return None


def _unmet_kind(requirement: Mapping[str, Any], environment: Environment) -> str | None:
    topologies = requirement.get("topologies")
    if topologies is not None and not allows(topologies, environment.topology):
        return f"the topology {' or '.join(topologies)}"
    if "auth" in requirement and requirement["auth"] is not environment.has_auth:
        return "authentication" if requirement["auth"] else "a server without authentication"
    return None


def _unmet_parameters(requirement: Mapping[str, Any], environment: Environment) -> str | None:
    mechanism = requirement.get("authMechanism")
    known = [str(name).lower() for name in environment.parameters.get("authenticationMechanisms", ())]
    if mechanism is not None and mechanism.lower() not in known:
        return f"the authentication mechanism {mechanism}"
    for name, value in requirement.get("serverParameters", {}).items():
        found = environment.parameters.get(name)
        if found is None or isinstance(found, bool) is not isinstance(value, bool) or found != value:
            return f"the server parameter {name}={value!r}"
    return None
