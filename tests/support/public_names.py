"""The public modules of the package, and what they name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING, Any

import motorlite

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


def public_modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.walk_packages(motorlite.__path__, "motorlite.")]
    public = [name for name in names if not is_private(name) and ".testing." not in name]
    return [motorlite, *map(importlib.import_module, public)]


def public_names() -> Iterator[tuple[str, str, Any]]:
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                yield module.__name__, name, value


def public_classes() -> dict[str, type]:
    return {f"{module}.{name}": value for module, name, value in public_names() if inspect.isclass(value)}
