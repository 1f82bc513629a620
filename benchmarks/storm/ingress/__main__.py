"""Shell: the process of the ingress: `python -m benchmarks.storm.ingress`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Final

from benchmarks.storm.ingress.orders import NAMES, Orders, say, with_parameters
from benchmarks.storm.ingress.ports import Port
from benchmarks.storm.scenario import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

# The fields of `Server` that are no parameters of the server.
COSTS: Final = {
    "--work": "units of work per second; an admitted request costs one",
    "--rejection-cost": "units of a rejection",
    "--handshake-cost": "units of a new connection",
    "--latency": "seconds of a request beside its place in the queue",
    "--failure-rate": "the share of admitted requests that fail with an overload error",
    "--base-backoff": "`baseBackoffMS` in rejections, in seconds",
}


def make_parser() -> argparse.ArgumentParser:
    """The command line. The limits get the names of the server's parameters, as on its own command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.storm.ingress",
        description="A proxy that does what the ingress limiters of MongoDB 8.2 do, in front of any MongoDB server.",
        epilog="Lines of JSON on standard input are orders (benchmarks/storm/ingress/orders.py); it ends with them.",
    )
    add = parser.add_argument
    server = "the addresses where clients connect to, and of the server (127.0.0.1:27018=127.0.0.1:27017); repeatable"
    add("--server", metavar="LISTEN=TARGET", action="append", required=True, help=server)
    parameters = f"repeatable: {', '.join(NAMES)}"
    add("--setParameter", metavar="NAME=VALUE", action="append", default=[], help=parameters)
    usual = Server()
    for option, text in COSTS.items():
        default = getattr(usual, _field(option))
        add(option, type=float, default=default, help=f"{text} (default: {default})")
    add("--unlimited", action="store_true", help="begin without limits, until an order sets them")
    return parser


def server_of(arguments: argparse.Namespace) -> Server:
    """The limits and costs that the command line asks for.

    Raises:
        ValueError: A parameter is unknown or wrong.
    """
    server = Server(**{name: getattr(arguments, name) for name in map(_field, COSTS)})
    return with_parameters(server, dict(_pair(text, "a parameter") for text in arguments.setParameter))


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _pair(text: str, what: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not equals:
        raise ValueError(f"{what} needs the form A=B, not {text!r}")
    return left, right


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def ports_of(servers: Sequence[str]) -> list[Port]:
    """The servers, by pairs of addresses.

    Raises:
        ValueError: It is no such pair.
    """
    pairs = [_pair(text, "a server") for text in servers]
    return [Port(_address(listen), _address(target)) for listen, target in pairs]


async def serve(ports: list[Port], server: Server | None) -> None:
    """Serve clients until standard input ends, which also happens when the parent is killed."""
    loop = asyncio.get_running_loop()
    for seed, port in enumerate(ports):
        port.reset(server, seed)
        await port.open()
    orders = Orders(ports, say)
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say({"value": "ready"})
    while line := await reader.readline():
        await orders.execute(line)
    await orders.order_end()
    for port in ports:
        port.close()


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    try:
        server, ports = server_of(arguments), ports_of(arguments.server)
    except ValueError as error:
        parser.error(str(error))
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(serve(ports, None if arguments.unlimited else server))
    return 0


if __name__ == "__main__":
    sys.exit(main())
