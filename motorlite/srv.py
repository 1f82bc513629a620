"""Pure: what SRV and TXT records mean (initial DNS seedlist discovery; polling SRV records for mongos discovery)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from motorlite.errors import ConfigurationError
from motorlite.hosts import is_dns_name, is_port

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from motorlite.options import SRV
    from motorlite.values import Address

T = TypeVar("T")

# Polling specification, "rescanSRVIntervalMS": never more often, however short the records live. Seconds.
MIN_RESCAN_INTERVAL: Final = 60.0
# Ours: records may say that they live for 68 years, and one forged answer would then be the last. Seconds.
MAX_RESCAN_INTERVAL: Final = 86_400.0
# Not from the specification. Each host costs sockets, tasks and memory; with `srvMaxHosts` there may be more records.
MAX_HOSTS: Final = 500
# So many names are in an error at most.
_MAX_SHOWN: Final = 5


class SRVRecords(NamedTuple):
    """The answer to a query for SRV records.

    Attributes:
        hosts: Targets and ports as the records have them; priorities and weights are ignored.
        time_to_live: The lowest of all records, seconds.
    """

    hosts: tuple[Address, ...]
    time_to_live: float


def query_name(srv: SRV) -> str:
    """The name to ask SRV records of."""
    return f"_{srv.service_name}._tcp.{txt_name(srv)}"


def txt_name(srv: SRV) -> str:
    """The name to ask TXT records of."""
    return _canonical(srv.host_name)


def initial_seeds(srv: SRV, records: SRVRecords, below: Callable[[int], int]) -> tuple[Address, ...]:
    """The seeds of a client.

    Args:
        srv: What the connection string asks for.
        records: What the query was answered with.
        below: A random whole number below its argument.

    Raises:
        ConfigurationError: There is no record, there are too many, or one points out of the domain or to port 0.
    """
    verified, refused = verify(srv, records.hosts)
    if refused:
        raise ConfigurationError(
            f"{query_name(srv)}: the SRV records point to {list_names(refused)}, which is not below {domain(srv)!r} "
            "or has port 0"
        )
    if not verified:
        raise ConfigurationError(f"{query_name(srv)}: there are no SRV records")
    check_count(srv, verified)
    if 0 < srv.max_hosts < len(verified):
        return sample(verified, srv.max_hosts, below)
    return verified


def check_count(srv: SRV, verified: Collection[Address]) -> None:
    """Refuse to follow too many hosts.

    Raises:
        ConfigurationError: There are more than `MAX_HOSTS` to be used.
    """
    if min(len(verified), srv.max_hosts or len(verified)) > MAX_HOSTS:
        raise ConfigurationError(
            f"{query_name(srv)}: there are {len(verified)} SRV records, at most {MAX_HOSTS} are followed; "
            "set srvMaxHosts to use some of them"
        )


def list_names(names: Sequence[str]) -> str:
    """The first of `names`, for an error."""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more


def next_hosts(
    srv: SRV, known: Iterable[Address], verified: Collection[Address], below: Callable[[int], int]
) -> tuple[Address, ...]:
    """The hosts of a deployment after a rescan: those that are still in the records, then new ones.

    Args:
        srv: What the connection string asks for.
        known: The hosts of the deployment now.
        verified: The hosts in the records, without those that `verify` refuses.
        below: A random whole number below its argument.
    """
    kept = tuple(host for host in known if host in verified)
    new = tuple(host for host in verified if host not in kept)
    if 0 < srv.max_hosts < len(verified):
        new = sample(new, min(len(new), max(0, srv.max_hosts - len(kept))), below)
    return kept + new


def verify(srv: SRV, hosts: Iterable[Address]) -> tuple[tuple[Address, ...], tuple[str, ...]]:
    """The hosts that may be used, without duplicates, and the names of those that are not in the domain.

    Names are compared label by label: in what DNS libraries make of a name, a dot may also be a part of a label,
    written with a backslash. A host with port 0 is refused as well, and named with it.
    """
    wanted = domain(srv).split(".")
    verified: dict[Address, None] = {}
    refused: dict[str, None] = {}
    for target, port in hosts:
        name = target.removesuffix(".").lower()
        labels = name.split(".")
        # Below the domain, not the domain itself: with one or two parts it is the name that was asked for.
        is_below = len(labels) > len(wanted) and labels[-len(wanted) :] == wanted
        if not is_dns_name(name) or not is_below:
            refused[name] = None
        elif port is None or not is_port(port):
            refused[f"{name}:{port}"] = None
        else:
            verified[name, port] = None
    return tuple(verified), tuple(refused)


def domain(srv: SRV) -> str:
    """What the names of all hosts must end with: all but the first part, if it has three or more ("domainname")."""
    name = _canonical(srv.host_name)
    first, _, rest = name.partition(".")
    return rest if first and "." in rest else name


def _canonical(name: str) -> str:
    """As DNS has it: lower case, internationalised parts encoded, without the dot of an absolute name."""
    name = name.removesuffix(".").lower()
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ConfigurationError(f"{name!r} is not a host name: {error}") from error


def sample(items: Sequence[T], count: int, below: Callable[[int], int]) -> tuple[T, ...]:
    """So many of `items`, at random: the first steps of the Fisher-Yates shuffle."""
    pool = list(items)
    for here in range(count):
        there = here + below(len(pool) - here)
        pool[here], pool[there] = pool[there], pool[here]
    return tuple(pool[:count])


def txt_record(srv: SRV, records: Sequence[Sequence[bytes]]) -> str | None:
    """The options in a TXT record, whose strings belong together; None where there is no record.

    Raises:
        ConfigurationError: There are several records, or what it has is not text.
    """
    if not records:
        return None
    name = txt_name(srv)
    if len(records) > 1:
        raise ConfigurationError(f"{name}: there are {len(records)} TXT records, but only one is allowed")
    try:
        return b"".join(records[0]).decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: the TXT record is not UTF-8") from None


def rescan_interval(time_to_live: float) -> float:
    """Seconds until the SRV records are asked for again, when the last answer had some that can be used."""
    return min(max(time_to_live, MIN_RESCAN_INTERVAL), MAX_RESCAN_INTERVAL)
