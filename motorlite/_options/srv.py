"""Pure: interprets SRV and TXT records (initial DNS seedlist discovery; polling SRV records for mongos discovery)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from motorlite._base.hosts import is_dns_name, is_port
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from motorlite._base.values import Address
    from motorlite._options.parts import SRV

T = TypeVar("T")

# Seconds. The shortest interval, whatever the records' time to live (polling specification, "rescanSRVIntervalMS").
MIN_RESCAN_INTERVAL: Final = 60.0
# Seconds; motorlite's own limit. Records may have a time to live of 68 years, and a forged one would never be replaced.
MAX_RESCAN_INTERVAL: Final = 86_400.0
# Motorlite's own limit. Each host costs sockets, tasks and memory; with `srvMaxHosts` there may be more records.
MAX_HOSTS: Final = 500
# The maximum number of names in an error message.
_MAX_SHOWN: Final = 5


class SRVRecords(NamedTuple):
    """The answer to a query for SRV records.

    Attributes:
        hosts: The records' targets and ports; priorities and weights are ignored.
        time_to_live: The lowest time to live of all records, in seconds.
    """

    hosts: tuple[Address, ...]
    time_to_live: float


def query_name(srv: SRV) -> str:
    """The name to query for SRV records."""
    return f"_{srv.service_name}._tcp.{txt_name(srv)}"


def txt_name(srv: SRV) -> str:
    """The name to query for TXT records."""
    return _canonical(srv.host_name)


def initial_seeds(srv: SRV, records: SRVRecords, below: Callable[[int], int]) -> tuple[Address, ...]:
    """Return the seeds of a client.

    Args:
        srv: The SRV settings of the connection string.
        records: The answer to the query.
        below: Returns a random integer below its argument.

    Raises:
        ConfigurationError: There are no records or too many, or one points outside the domain or to port 0.
    """
    verified, refused = verify(srv, records.hosts)
    if refused:
        rule = f"not below {domain(srv)!r}" if srv.host_validator is None else "refused by srv_host_validator"
        raise ConfigurationError(
            f"{query_name(srv)}: the SRV records point to {list_names(refused)}, which is {rule} or has port 0"
        )
    if not verified:
        raise ConfigurationError(f"{query_name(srv)}: there are no SRV records")
    check_count(srv, verified)
    if 0 < srv.max_hosts < len(verified):
        return sample(verified, srv.max_hosts, below)
    return verified


def check_count(srv: SRV, verified: Collection[Address]) -> None:
    """Check the number of hosts.

    Raises:
        ConfigurationError: The client would use more than `MAX_HOSTS` hosts.
    """
    if min(len(verified), srv.max_hosts or len(verified)) > MAX_HOSTS:
        raise ConfigurationError(
            f"{query_name(srv)}: there are {len(verified)} SRV records, at most {MAX_HOSTS} are followed; "
            "set srvMaxHosts to use some of them"
        )


def list_names(names: Sequence[str]) -> str:
    """Join the first of `names` for an error message."""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more


def next_hosts(
    srv: SRV, known: Iterable[Address], verified: Collection[Address], below: Callable[[int], int]
) -> tuple[Address, ...]:
    """Return the hosts of a deployment after a rescan: hosts still in the records first, then new ones.

    Args:
        srv: The SRV settings of the connection string.
        known: The current hosts of the deployment.
        verified: The hosts in the records that `verify` accepted.
        below: Returns a random integer below its argument.
    """
    kept = tuple(host for host in known if host in verified)
    new = tuple(host for host in verified if host not in kept)
    if 0 < srv.max_hosts < len(verified):
        new = sample(new, min(len(new), max(0, srv.max_hosts - len(kept))), below)
    return kept + new


def verify(srv: SRV, hosts: Iterable[Address]) -> tuple[tuple[Address, ...], tuple[str, ...]]:
    """Return the valid hosts, without duplicates, and the names of hosts outside the domain.

    Names are compared label by label: in the text form of DNS libraries, a label may contain a dot escaped with a
    backslash. Hosts with port 0 are also refused, and named with their port.

    Raises:
        ConfigurationError: The application's own rule raised an exception, or returned neither True nor False.
    """
    wanted = domain(srv).split(".")
    verified: dict[Address, None] = {}
    refused: dict[str, None] = {}
    for target, port in hosts:
        name = target.removesuffix(".").lower()
        labels = name.split(".")
        # The host must be below the domain, not the domain itself: with one or two parts that is the queried name.
        is_below = len(labels) > len(wanted) and labels[-len(wanted) :] == wanted
        if srv.host_validator is not None:
            is_below = is_dns_name(name) and _is_allowed(srv.host_validator, name)
        if not is_dns_name(name) or not is_below:
            refused[name] = None
        elif port is None or not is_port(port):
            refused[f"{name}:{port}"] = None
        else:
            verified[name, port] = None
    return tuple(verified), tuple(refused)


def _is_allowed(validator: Callable[[str], bool], name: str) -> bool:
    try:
        allowed = validator(name)
    except Exception as error:
        raise ConfigurationError(f"srv_host_validator failed for {name!r}: {error!r}") from error
    if not isinstance(allowed, bool):
        raise ConfigurationError(f"srv_host_validator must return True or False for {name!r}, not {allowed!r}")
    return allowed


def domain(srv: SRV) -> str:
    """The required suffix of all hosts: the name without its first part, if it has three or more ("domainname")."""
    name = _canonical(srv.host_name)
    first, _, rest = name.partition(".")
    return rest if first and "." in rest else name


def _canonical(name: str) -> str:
    """Return `name` in DNS form: lower case, internationalised parts encoded, without the dot of an absolute name."""
    name = name.removesuffix(".").lower()
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ConfigurationError(f"{name!r} is not a host name: {error}") from error


def sample(items: Sequence[T], count: int, below: Callable[[int], int]) -> tuple[T, ...]:
    """Return `count` random items: the first steps of the Fisher-Yates shuffle."""
    pool = list(items)
    for here in range(count):
        there = here + below(len(pool) - here)
        pool[here], pool[there] = pool[there], pool[here]
    return tuple(pool[:count])


def txt_record(srv: SRV, records: Sequence[Sequence[bytes]]) -> str | None:
    """Return the options in the TXT record, with its strings joined, or None if there is no record.

    Raises:
        ConfigurationError: There are several records, or the record is not text.
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
    """Seconds until the next query for SRV records, after an answer with usable records."""
    return min(max(time_to_live, MIN_RESCAN_INTERVAL), MAX_RESCAN_INTERVAL)
