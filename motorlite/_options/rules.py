"""Pure: checks for options that conflict with each other or with the hosts, and the successors of deprecated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._options.table import BY_NAME, RENAMED, value_of
from motorlite.errors import ConfigurationError, InvalidOptionValue
from motorlite.retry import OverloadRetry
from motorlite.retry.budget import TOKEN_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from motorlite.retry import RetryBudget

# URI options specification, "Conflicting TLS options": an error whatever their values.
_TLS_CONFLICTS = (
    ("tlsinsecure", "tlsallowinvalidcertificates"),
    ("tlsinsecure", "tlsallowinvalidhostnames"),
    ("tlsinsecure", "tlsdisableocspendpointcheck"),
    ("tlsinsecure", "tlsdisablecertificaterevocationcheck"),
    ("tlsallowinvalidcertificates", "tlsdisableocspendpointcheck"),
    ("tlsallowinvalidcertificates", "tlsdisablecertificaterevocationcheck"),
    ("tlsdisableocspendpointcheck", "tlsdisablecertificaterevocationcheck"),
)
_NOT_WITH_CRL_FILE = (
    "tlsInsecure",
    "tlsAllowInvalidCertificates",
    "tlsDisableOCSPEndpointCheck",
    "tlsDisableCertificateRevocationCheck",
)


def check_tls_names(names: Collection[str]) -> None:
    """Raise ConfigurationError if `names` (lower case) contains two mutually exclusive TLS options."""
    for one, other in _TLS_CONFLICTS:
        if one in names and other in names:
            raise ConfigurationError(f"{BY_NAME[one].name} and {BY_NAME[other].name} cannot be combined")


def check_combination(options: Mapping[str, Any], *, host_count: int, is_srv: bool) -> None:
    """Check options, by their documented names, against each other and against the hosts.

    Raises:
        ConfigurationError: Two options cannot be combined; the message names both.
    """
    check_tls_names({name.lower() for name in options})
    _check_crl_file(options)
    _check_deployment(options, host_count, is_srv=is_srv)
    _check_srv(options, is_srv=is_srv)
    _check_proxy(options)
    if options.get("concurrency_limit") is not None and value_of("loadBalanced", options):
        raise ConfigurationError(
            "concurrency_limit cannot be combined with loadBalanced=True: the connections lead to several servers"
        )
    most, least = value_of("maxPoolSize", options), value_of("minPoolSize", options)
    if most and least > most:
        raise InvalidOptionValue(f"minPoolSize={least} must not be greater than maxPoolSize={most}")


def _check_crl_file(options: Mapping[str, Any]) -> None:
    for name in _NOT_WITH_CRL_FILE:
        if options.get("tlsCRLFile") and options.get(name):
            raise ConfigurationError(f"{name}=True cannot be combined with tlsCRLFile")


def _check_deployment(options: Mapping[str, Any], host_count: int, *, is_srv: bool) -> None:
    is_direct, is_balanced = options.get("directConnection"), options.get("loadBalanced")
    if is_direct and is_srv:
        raise ConfigurationError("directConnection=True cannot be combined with mongodb+srv")
    for name in ("directConnection", "loadBalanced"):
        if options.get(name) and host_count > 1:
            raise ConfigurationError(f"{name}=True needs exactly one host, not {host_count}")
    if is_balanced and is_direct:
        raise ConfigurationError("loadBalanced=True cannot be combined with directConnection=True")
    if is_balanced and options.get("replicaSet"):
        raise ConfigurationError("loadBalanced=True cannot be combined with replicaSet")


def _check_srv(options: Mapping[str, Any], *, is_srv: bool) -> None:
    for name in ("srvMaxHosts", "srvServiceName", "srv_host_validator"):
        if options.get(name) is not None and not is_srv:
            raise ConfigurationError(f"{name} is only for connection strings that begin with mongodb+srv://")
    if options.get("srvMaxHosts"):
        for name in ("replicaSet", "loadBalanced"):
            if options.get(name):
                raise ConfigurationError(f"srvMaxHosts={options['srvMaxHosts']} cannot be combined with {name}")


def _check_proxy(options: Mapping[str, Any]) -> None:
    for name in ("proxyPort", "proxyUsername", "proxyPassword"):
        if options.get(name) is not None and options.get("proxyHost") is None:
            raise ConfigurationError(f"{name} needs proxyHost")
    if (options.get("proxyUsername") is None) != (options.get("proxyPassword") is None):
        raise ConfigurationError("proxyUsername and proxyPassword must be set together")


def deprecations(keyword_arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings for deprecated keyword arguments, with what to write instead."""
    for name in keyword_arguments:
        if name.lower() in RENAMED:
            yield f"{name} is deprecated, use {BY_NAME[RENAMED[name.lower()]].name}"
    policy = keyword_arguments.get("overload_policy")
    if isinstance(policy, OverloadRetry) and policy.token_capacity != TOKEN_CAPACITY:
        yield f"the token_capacity of overload_policy is deprecated, use retry_budget={policy.token_capacity:g}"


def overload_policy(options: Mapping[str, Any]) -> OverloadRetry:
    """Return the preset, or the default policy, changed by the options that are set.

    Raises:
        ConfigurationError: The preset says something about the budget that `retry_budget` contradicts.
    """
    policy: OverloadRetry = value_of("overload_policy", options)
    budget: RetryBudget | bool | None = options.get("retry_budget")
    is_budgeted = budget if isinstance(budget, bool) else None
    if budget is not None and is_budgeted is None:
        if policy.token_capacity != TOKEN_CAPACITY:
            raise ConfigurationError(
                f"retry_budget contradicts the token_capacity ({policy.token_capacity:g}) of overload_policy; set only "
                "retry_budget"
            )
        if not policy.is_budgeted:
            raise ConfigurationError(
                "retry_budget has no effect with an overload_policy that has is_budgeted=False; set only one of them, "
                "or overload_policy=policy.with_options(is_budgeted=True)"
            )
    return policy.with_options(options.get("maxAdaptiveRetries"), is_budgeted, options.get("enableOverloadRetargeting"))
