"""Pure: a client's configuration in its repr: the options that were set, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._base.values import format_address
from motorlite._options.table import BY_NAME

if TYPE_CHECKING:
    from motorlite._options.options import ClientOptions


def shown(options: ClientOptions) -> str:
    """Return the arguments of a constructor: the hosts, and the simple options that were set; ``...`` for others."""
    seeds = options.srv.host_name if options.srv else ",".join(map(format_address, options.seeds))
    parts = [repr(f"mongodb+srv://{seeds}" if options.srv else seeds)]
    has_others = False
    for name in sorted(options.explicit):
        option = BY_NAME[name.lower()]
        value = getattr(options, option.field) if option.field and not option.is_secret else None
        if not isinstance(value, bool | int | float | str):
            has_others = True
            continue
        parts.append(f"{name}={value * 1000:.15g}" if option.unit == "ms" else f"{name}={value!r}")
    return ", ".join([*parts, "..."] if has_others else parts)
