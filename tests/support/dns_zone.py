"""The records for the public tests of initial DNS seedlist discovery, as a table.

Their README lists them: the service and number of a name ``testN.test.build.10gen.cc``, with ports and targets below
``10gen.cc``. Records that are not in the table are deliberately missing.
"""

from __future__ import annotations

from typing import Final

from tests.support.dns_server import Zone

DOMAIN: Final = "test.build.10gen.cc"
HERE: Final = "localhost.test.build.10gen.cc"
BALANCER_PORT: Final = 8000
TIME_TO_LIVE: Final = 86_400

# Number of the name: ports on `HERE`.
_PORTS: Final[dict[int, tuple[int, ...]]] = {
    1: (27017, 27018),
    2: (27018, 27019),
    **dict.fromkeys((3, 5, 6, 7, 8, 10, 11, 20, 21), (27017,)),
    **dict.fromkeys((23, 24), (BALANCER_PORT,)),
}
# Number of the name: other targets, all with port 27017.
_ELSEWHERE: Final = {
    12: ("localhost.build.10gen.cc",),
    13: ("test.build.10gen.cc",),
    14: ("localhost.not-test.build.10gen.cc",),
    15: ("localhost.test.not-build.10gen.cc",),
    16: ("localhost.test.build.not-10gen.cc",),
    17: ("localhost.test.build.10gen.not-cc",),
    18: ("localhost.sub.test.build.10gen.cc",),
    19: ("localhost.evil.build.10gen.cc", HERE),
}
# The test data expects both ports for the name with a custom service, although the list has only the first.
_CUSTOM_SERVICE: Final = {22: (27017, 27018)}
# Number of the name: its TXT records, each with one or more strings.
_TEXTS: Final[dict[int, tuple[tuple[str, ...], ...]]] = {
    5: (("replicaSet=repl0&authSource=thisDB",),),
    6: (("replicaSet=repl0",), ("authSource=otherDB",)),
    7: (("ssl=false",),),
    8: (("authSource",),),
    10: (("socketTimeoutMS=500",),),
    11: (("replicaS", "et=rep", "l0"),),
    20: (("loadBalanced=true",),),
    21: (("loadBalanced=false",),),
    24: (("loadBalanced=true",),),
}


def public_zone() -> Zone:
    """A zone with the records of these tables."""
    zone = Zone(TIME_TO_LIVE)
    for number, ports in _PORTS.items():
        zone.set_srv(f"_mongodb._tcp.test{number}.{DOMAIN}", *((HERE, port) for port in ports))
    for number, targets in _ELSEWHERE.items():
        zone.set_srv(f"_mongodb._tcp.test{number}.{DOMAIN}", *((target, 27017) for target in targets))
    for number, ports in _CUSTOM_SERVICE.items():
        zone.set_srv(f"_customname._tcp.test{number}.{DOMAIN}", *((HERE, port) for port in ports))
    for number, texts in _TEXTS.items():
        zone.set_txt(f"test{number}.{DOMAIN}", *texts)
    return zone
