"""Pure: groups of topology types."""

from __future__ import annotations

from typing import Final

from motorlite.topology_description import TopologyType

REPLICA_SET_TYPES: Final = frozenset({TopologyType.ReplicaSetNoPrimary, TopologyType.ReplicaSetWithPrimary})
# A single server, used as is: no discovery, and read preferences do not select.
ONE_SERVER_TYPES: Final = frozenset({TopologyType.Single, TopologyType.LoadBalanced})
