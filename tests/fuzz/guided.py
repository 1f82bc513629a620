"""Fuzzes one target under atheris: ``python -m tests.fuzz.guided NAME MODULES SEED FOLDER -OPTION=VALUE...``.

A process of its own, because libFuzzer ends it, and because the driver must not be imported before atheris.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any, Final

_DRIVER: Final = Path(__file__).resolve().parents[2] / "motorlite"


def _others(modules: list[str]) -> list[str]:
    """Return all modules of the driver but these: instrumenting them takes seconds, and slows each input down."""
    paths = [path.relative_to(_DRIVER.parent).with_suffix("") for path in _DRIVER.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    return sorted(names - {f"motorlite.{module}" for module in modules})


def main(name: str, modules: str, seed: str, *arguments: str) -> None:
    """Fuzz a target; does not return."""
    import atheris

    with atheris.instrument_imports(include=["motorlite"], exclude=_others(modules.split(","))):
        from tests.fuzz.targets import TARGETS
    from tests.fuzz.mutation import Mutator
    from tests.fuzz.target import Checker

    target = TARGETS[name]
    random = Random(f"{name} {seed}")
    mutator = Mutator(target, random)
    # The newest inputs, so that parts of one get into another.
    recent: list[bytes] = list(target.seeds)

    def changed(data: bytes, size: int, _: int) -> bytes:
        if random.random() < 0.5:
            mutated: Any = atheris.Mutate(data, size)
            return bytes(mutated)
        recent[random.randrange(len(recent))] = data
        return mutator.mutated(data, recent)[:size]

    with Checker(target) as checker:
        atheris.Setup([name, *arguments], checker.check, custom_mutator=changed)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
