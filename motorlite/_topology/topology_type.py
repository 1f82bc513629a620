"""Pure: what a deployment is."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TopologyType(StrEnum):
    """What a deployment is (server discovery and monitoring specification, "TopologyType")."""

    Unknown = "Unknown"
    Single = "Single"
    ReplicaSetNoPrimary = "ReplicaSetNoPrimary"
    ReplicaSetWithPrimary = "ReplicaSetWithPrimary"
    Sharded = "Sharded"
    LoadBalanced = "LoadBalanced"


REPLICA_SET_TYPES: Final = frozenset({TopologyType.ReplicaSetNoPrimary, TopologyType.ReplicaSetWithPrimary})
# One server, taken as it is: no discovery, and read preferences do not choose.
ONE_SERVER_TYPES: Final = frozenset({TopologyType.Single, TopologyType.LoadBalanced})
