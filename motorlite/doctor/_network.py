"""Pure: judges the addresses of a server, and its TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from motorlite.doctor._certificate import read_certificate, shown_date
from motorlite.doctor._configuration import LOOPBACK
from motorlite.doctor._finding import Finding, Severity, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from motorlite._net.probe import Reached, TLSLook
    from motorlite._options.parts import TLSOptions
    from motorlite.doctor._certificate import Certificate

_DAY: Final = 86_400.0
# A certificate that expires within so many days is worth a warning.
_SOON: Final = 21
# OpenSSL's numbers (x509_vfy.h).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21})
_WRONG_NAME: Final = frozenset({62, 64})
# OpenSSL's reason for a peer that does not speak TLS.
_IN_THE_CLEAR: Final = "WRONG_VERSION_NUMBER"

FROM_CONFIGURATION: Final = (
    "the name is from the replica set's configuration (rs.conf()), which clients follow: make it resolvable and "
    "reachable from here, or use directConnection=true for one server"
)


_PROXY_ADVICE: Final = "check proxyHost and proxyPort, that the proxy runs, and the way from here to it"


def unresolved(server: str, problem: str, *, is_from_set: bool, proxy: str = "") -> Finding:
    """The host, or the proxy in front of it, has no address."""
    if proxy:
        text = f"the host name of the proxy {proxy} cannot be resolved: {problem}"
        return Finding(Step.ADDRESS, Severity.ERROR, text, _PROXY_ADVICE, server)
    advice = FROM_CONFIGURATION if is_from_set else "check the spelling of the host, and the DNS server of this machine"
    return Finding(Step.ADDRESS, Severity.ERROR, f"the host name cannot be resolved: {problem}", advice, server)


def by_proxy(server: str, proxy: str) -> Finding:
    """The server's own addresses are not looked at."""
    text = f"reached through the SOCKS5 proxy {proxy}: its addresses are tested here, and names are looked up there"
    return Finding(Step.ADDRESS, Severity.NOTE, text, "", server)


def judge_addresses(
    server: str, reached: Sequence[Reached], *, is_from_set: bool, is_in_container: bool, proxy: str = ""
) -> Iterator[Finding]:
    """What became of a TCP connection to each address of a host, or of the proxy in front of it."""
    good = [each for each in reached if each.error is None]
    facts = {"addresses": {each.ip: each.error or round(each.seconds * 1000, 3) for each in reached}}
    if not good:
        text = ", ".join(f"{each.ip} ({each.family}): {_words(each)}" for each in reached)
        advice = _unreachable_advice(server, reached, is_in_container=is_in_container)
        if proxy:
            text, advice = f"the proxy {proxy} cannot be reached: {text}", _PROXY_ADVICE
        elif is_from_set:
            advice = f"{advice}; {FROM_CONFIGURATION}"
        yield Finding(Step.ADDRESS, Severity.ERROR, text, advice, server, facts)
        return
    times = ", ".join(f"{each.ip} ({each.family}) in {each.seconds * 1000:.1f} ms" for each in good)
    yield Finding(Step.ADDRESS, Severity.OK, f"TCP connection to {times}", "", server, facts)
    for each in reached:
        if each.error is None:
            continue
        # `localhost` has two addresses on many machines, and servers usually listen on one of them.
        is_usual = each.error == "refused" and server.rpartition(":")[0] in LOOPBACK
        yield Finding(
            Step.ADDRESS,
            Severity.NOTE if is_usual else Severity.WARNING,
            f"{each.ip} ({each.family}): {_words(each)}",
            ""
            if is_usual
            else "clients try the other address too, and lose time: correct DNS, or let the server listen",
            server,
        )


def judge_socket_file(server: str, reached: Reached) -> Iterator[Finding]:
    """What became of a connection to a socket of Unix."""
    if reached.error is None:
        yield Finding(Step.ADDRESS, Severity.OK, "connection to the socket", "", server)
    else:
        advice = "check that mongod runs here, its net.unixDomainSocket.pathPrefix, and who may use the file"
        yield Finding(Step.ADDRESS, Severity.ERROR, _words(reached), advice, server)


def _words(reached: Reached) -> str:
    if reached.error == "refused":
        return "connection refused"
    if reached.error == "timeout":
        return f"no answer within {reached.seconds:.1f} s"
    return reached.error or "connected"


def _unreachable_advice(server: str, reached: Sequence[Reached], *, is_in_container: bool) -> str:
    errors = {each.error for each in reached}
    if "timeout" in errors:
        return (
            "a firewall drops the packets, or the server accepts no more connections: allow this machine's address "
            "(on Atlas: its access list), and look at the server's load"
        )
    if errors == {"refused"}:
        advice = "nothing listens there: check that mongod runs, its port, and net.bindIp"
        if is_in_container and server.rpartition(":")[0] in LOOPBACK:
            advice += "; in this container localhost is the container itself: use the name of the host or service"
        return advice
    return "check the route from here to the address"


# --- TLS ---


def judge_tls(server: str, look: TLSLook, options: TLSOptions, now: float) -> Iterator[Finding]:
    """The handshake: version, certificates, names and expiry. `now`: seconds since 1970."""
    chain = [read_certificate(each) for each in look.chain]
    own = chain[0] if chain else None
    if look.error is not None:
        text, advice = _refusal(look, own, server)
        yield Finding(Step.TLS, Severity.ERROR, text, advice, server, _facts(look, own))
        return
    assert own is not None
    is_checked = not options.allow_invalid_certificates
    path = " <- ".join([own.subject, *(each.subject for each in chain[1:]), own.issuer][: len(chain) + 1])
    text = (
        f"{look.version}, {look.cipher}; certificate {path}, for {_names(own)}, "
        f"valid until {shown_date(own.not_after)}, {'trusted' if is_checked else 'not checked'}"
    )
    yield Finding(Step.TLS, Severity.OK, text, "", server, _facts(look, own))
    left = (own.not_after - now) / _DAY
    if left < _SOON:
        when = f"expires in {left:.0f} days" if left >= 0 else f"expired on {shown_date(own.not_after)}"
        yield Finding(Step.TLS, Severity.WARNING, f"the certificate {when}", "renew it", server)


def _facts(look: TLSLook, own: Certificate | None) -> dict[str, object]:
    facts: dict[str, object] = {"version": look.version, "cipher": look.cipher, "certificates": len(look.chain)}
    if own is not None:
        facts |= {"subject": own.subject, "issuer": own.issuer, "names": list(own.names)}
        facts |= {"not_before": own.not_before, "not_after": own.not_after}
    return facts


def _names(own: Certificate) -> str:
    return ", ".join(own.names) or f"{own.subject!r} (without names, which clients require)"


def _refusal(look: TLSLook, own: Certificate | None, server: str) -> tuple[str, str]:
    """What a failed handshake says, and what to do."""
    code = look.verify_code
    if own is not None and code == _EXPIRED:
        expired = f"expired on {shown_date(own.not_after)}" if own.not_after else "expired"
        return (
            f"the certificate {expired}, or one of its chain did: {look.error}",
            "renew it, or correct the clock here",
        )
    if own is not None and code == _NOT_YET_VALID:
        begin = shown_date(own.not_before)
        return f"the certificate is not valid before {begin}", "correct the clock of this machine, or the certificate"
    if own is not None and code in _WRONG_NAME:
        return (
            f"the certificate is for {_names(own)}, not for {server.rpartition(':')[0]}",
            "connect to a name in the certificate, or issue one for this name",
        )
    if own is not None and code in _UNTRUSTED:
        signer = "signed by itself" if own.is_self_signed else f"issued by {own.issuer!r}"
        return (
            f"this machine does not trust the certificate of {own.subject!r}, {signer}: {look.error}",
            f"set tlsCAFile to the certificate of {own.issuer!r}; if this is not your server's authority, a proxy or "
            "firewall on the way has replaced the certificate",
        )
    if look.error == "timeout":
        return "no answer to the TLS handshake", "is this the port of a MongoDB server, and is TLS enabled on it?"
    if look.is_closed:
        return (
            f"the server closed the connection during the handshake: {look.error}",
            "remove tls=true if the server has no TLS; otherwise the server's log says why it refuses "
            "(it may require tlsCertificateKeyFile)",
        )
    if _IN_THE_CLEAR in (look.error or ""):
        return "what answers does not speak TLS", "remove tls=true if the server has no TLS, or check host and port"
    return f"the handshake failed: {look.error}", "is TLS enabled on the server, and in a version from 1.2 on?"
