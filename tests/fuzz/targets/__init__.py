"""All targets, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzz.targets import conversations, files, replies, services, texts, wire

if TYPE_CHECKING:
    from tests.fuzz.target import Target

_MODULES: Final = (wire, services, conversations, replies, files, texts)
TARGETS: Final[dict[str, Target]] = {target.name: target for module in _MODULES for target in module.TARGETS}
