"""Pure: judges the connection string, and its SRV and TXT records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import format_address
from motorlite._options.options import PILE_UP, may_pile_up, shown_secret
from motorlite._options.srv import domain, list_names, query_name, verify
from motorlite.doctor._finding import HIDDEN, Finding, Secrets, Severity, Step
from motorlite.read_preferences import MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from motorlite._base.values import Address
    from motorlite._options.options import ClientOptions
    from motorlite._options.parts import SRV

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Properties of mechanisms that are secrets.
_SECRET_PROPERTIES: Final = ("AWS_SESSION_TOKEN",)
# Names of databases in the doctor's own words.
_OWN_WORDS: Final = ("admin", "test")


def secrets_of(options: ClientOptions) -> Secrets:
    """All that the options have to hide.

    A password such as "admin" that is also a name is not: the report is useless without the name, and a name that is
    hidden would reveal the password.
    """
    found: list[Any] = []
    shown = {*_OWN_WORDS, options.database, *(host for host, _ in options.seeds)}
    if options.credentials is not None:
        shown |= {options.credentials.username, options.credentials.source}
        found.append(options.credentials.password)
        found.extend(options.credentials.mechanism_properties.get(name) for name in _SECRET_PROPERTIES)
    if options.tls is not None:
        found.append(options.tls.certificate_key_file_password)
    if options.proxy is not None:
        found.append(options.proxy.password)
    return Secrets(tuple(each for each in found if isinstance(each, str) and each and each not in shown))


def malformed(problem: str) -> Finding:
    """No client can be made from the connection string."""
    return Finding(
        Step.URI, Severity.ERROR, problem, "correct the connection string; docs/options.md lists the options"
    )


def describe_options(options: ClientOptions) -> str:
    """The parts of a connection string, without its secrets."""
    hosts = options.srv.host_name if options.srv is not None else ", ".join(map(format_address, options.seeds))
    parts = [f"SRV name {hosts}" if options.srv is not None else f"hosts {hosts}"]
    if options.credentials is not None:
        credentials = options.credentials
        user = "" if credentials.username is None else f"user {credentials.username!r}, "
        password = "" if credentials.password is None else f"password {HIDDEN}, "
        mechanism = credentials.mechanism or "mechanism by negotiation"
        parts.append(f"{user}{password}authSource {credentials.source!r}, {mechanism}")
    else:
        parts.append("no user")
    parts.append("TLS" if options.tls is not None else "no TLS")
    if options.database is not None:
        parts.append(f"database {options.database!r}")
    if options.replica_set is not None:
        parts.append(f"replicaSet {options.replica_set!r}")
    if options.direct_connection:
        parts.append("directConnection")
    if options.load_balanced:
        parts.append("loadBalanced")
    parts.append(f"read preference {MODES[options.read_preference.mode]}")
    return "; ".join(parts)


def judge_options(options: ClientOptions, notes: Sequence[str]) -> Iterator[Finding]:
    """The parts of the connection string, and what is doubtful about them. `notes`: what the driver warns of."""
    yield Finding(Step.URI, Severity.OK, describe_options(options))
    for refusal in options.refusals:
        yield malformed(f"{refusal}; a client with this connection string sends nothing")
    for note in notes:
        if not any(refusal in note for refusal in options.refusals):
            yield Finding(Step.URI, Severity.WARNING, note, "correct the option, or remove it")
    for text, advice in _doubts(options):
        yield Finding(Step.URI, Severity.WARNING, text, advice)


def _doubts(options: ClientOptions) -> Iterator[tuple[str, str]]:
    credentials, tls = options.credentials, options.tls
    if (
        credentials is not None
        and credentials.username is not None
        and "authSource" not in options.explicit
        and options.database is not None
        and credentials.source == options.database
    ):
        yield (
            f"the user is looked up in {options.database!r}, because the path names this database and there is no "
            "authSource",
            "most users are in admin: add authSource=admin if yours is",
        )
    if tls is not None and tls.allow_invalid_certificates:
        yield (
            "tlsAllowInvalidCertificates: anyone on the network path can pretend to be the server",
            "remove it, and set tlsCAFile to the authority that signed the server's certificate",
        )
    elif tls is not None and tls.allow_invalid_hostnames:
        yield (
            "tlsAllowInvalidHostnames: each holder of a certificate of this authority can pretend to be the server",
            "remove it, and connect to a name in the certificate",
        )
    if credentials is not None and tls is None and not _is_local(options) and shown_secret(options) is None:
        yield "without TLS, data travels in the clear", "set tls=true, if the server has a certificate"
    if options.max_pool_size == 0:
        yield (
            "maxPoolSize=0 sets no limit: a burst of operations opens as many connections",
            "set maxPoolSize to what the server can serve",
        )
    if not options.connect_timeout:
        yield (
            "connectTimeoutMS=0: an address whose packets are dropped is waited for without a limit",
            "remove it, or set connectTimeoutMS to a few seconds",
        )
    if not options.write_concern.acknowledged:
        yield "w=0: nothing reports a write that fails", "remove w=0, unless lost writes do no harm"
    if may_pile_up(options):
        head, _, rest = PILE_UP.partition(". ")
        yield head, rest[:1].lower() + rest[1:]


def _is_local(options: ClientOptions) -> bool:
    return options.srv is None and all(port is None or host in LOOPBACK for host, port in options.seeds)


# --- SRV and TXT records ---


def no_records(problem: str) -> Finding:
    """The name servers gave no records that can be used."""
    return Finding(
        Step.SRV,
        Severity.ERROR,
        problem,
        "check the name; behind a DNS server that does not pass SRV records on, write mongodb:// with all hosts",
    )


def judge_records(srv: SRV, hosts: Sequence[Address], txt: str | None) -> Iterator[Finding]:
    """The records of a ``mongodb+srv://`` name."""
    verified, refused = verify(srv, hosts)
    shown = list_names([format_address(host) for host in verified or hosts])
    text = f"{query_name(srv)}: {len(hosts)} SRV record{'s' * (len(hosts) != 1)}: {shown}; TXT record: {txt or 'none'}"
    if not refused:
        yield Finding(Step.SRV, Severity.OK, text, facts={"hosts": [format_address(host) for host in verified]})
        return
    rule = f"not below {domain(srv)!r}" if srv.host_validator is None else "refused by srv_host_validator"
    shorter = _shorter_name(srv, (host for host, _ in hosts))
    advice = (
        f"the name has too many labels for these hosts: use the name that the records are for, such as {shorter!r}"
        if shorter
        else f"the records may only point below {domain(srv)!r}: correct them, or write mongodb:// with the hosts"
    )
    yield Finding(
        Step.SRV, Severity.ERROR, f"{query_name(srv)}: the records point to {list_names(refused)}, {rule}", advice
    )


def _shorter_name(srv: SRV, hosts: Iterable[str]) -> str | None:
    """The name with the fewest labels less below which all hosts are, if there is one."""
    names = [f".{host.removesuffix('.').lower()}" for host in hosts]
    labels = srv.host_name.removesuffix(".").lower().split(".")
    # At least three labels: below the domain of a company, not below .com.
    for begin in range(1, len(labels) - 2):
        parent = ".".join(labels[begin + 1 :])
        if all(name.endswith(f".{parent}") for name in names):
            return ".".join(labels[begin:])
    return None
