"""Net: ``python -m motorlite.testing``: a MongoDB server to try things on, which stays until it is interrupted."""

from __future__ import annotations

import argparse
import select
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from motorlite._base.hosts import DEFAULT_PORT
from motorlite.testing.server.local_server import LAST_PORT, LocalServer
from motorlite.testing.server.mongod_processes import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing.server.local_server import Topology

# As many members of a replica set can vote, and all members here do.
MAX_NODES: Final = 7
SECONDS_BETWEEN_LOOKS: Final = 1.0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; wrong arguments end the process with the status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m motorlite.testing",
        description="Start a MongoDB server to try things on, by default a replica set of one member.",
        epilog="It stays until Ctrl-C or SIGTERM. Its data is in a temporary folder, which is removed at the end.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help="the first member's port (default: %(default)s)"
    )
    parser.add_argument("--standalone", action="store_true", help="start a standalone server instead of a replica set")
    parser.add_argument(
        "--nodes",
        type=int,
        default=1,
        metavar="N",
        help="the number of members, whose ports follow each other (default: %(default)s)",
    )
    parser.add_argument("--auth", action="store_true", help="demand a user and a password, which are in the URI")
    parser.add_argument("--tls", action="store_true", help="demand TLS, with certificates made for this server")
    options = parser.parse_args(arguments)
    if not 1 <= options.nodes <= MAX_NODES:
        parser.error(f"--nodes must be from 1 to {MAX_NODES}")
    if options.standalone and options.nodes > 1:
        parser.error("--nodes is for a replica set; leave out --standalone")
    if not 1 <= options.port <= LAST_PORT + 1 - options.nodes:
        parser.error(f"--port must be from 1 to {LAST_PORT + 1 - options.nodes}")
    return options


def main(arguments: Sequence[str]) -> int:
    """Start a server, print its URI, and remove the server after Ctrl-C or SIGTERM. Returns the exit status."""
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        topology: Topology = "standalone" if options.standalone else "replicaset"
        with LocalServer.start(
            topology, nodes=options.nodes, auth=options.auth, tls=options.tls, port=options.port
        ) as server:
            members = "1 member" if options.nodes == 1 else f"{options.nodes} members"
            kind = topology if options.standalone else f"replica set of {members}"
            print(f"MongoDB {server.version}, {kind}\n{server.uri}\nCtrl-C ends it and removes its data", flush=True)
            # Not only by the exception: Python discards one that is raised while it collects garbage.
            while signal.getsignal(signal.SIGINT) is _interrupt:
                select.select([], [], [], SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        return 0
    except PortUnavailable as error:
        return _fail(f"{error}; choose another one with --port")
    except (RuntimeError, OSError) as error:  # no mongod, or it ended, or there is no room
        return _fail(str(error))
    return 0


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    # Once: a second Ctrl-C must not interrupt the removal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
