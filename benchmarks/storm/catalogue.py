"""Shell: finds scenarios: those of the folder `scenarios`, and the user's own in a file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER: Final = Path(__file__).parent / "scenarios"
STANDARD: Final = "standard"
"""The tag of the scenarios that `make storm` runs on sockets, and their name on the command line."""
ALL: Final = "all"


class NoScenarioError(Exception):
    """What the user named is no scenario."""


def load(path: Path) -> list[Scenario]:
    """Return the scenarios of a Python file: its `SCENARIO` or its `SCENARIOS`.

    Raises:
        NoScenarioError: The file cannot be read, or has neither.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise NoScenarioError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    one: Any = getattr(module, "SCENARIO", None)
    several: Any = getattr(module, "SCENARIOS", () if one is None else (one,))
    found = list(several)
    if not found or not all(isinstance(scenario, Scenario) for scenario in found):
        raise NoScenarioError(f"{path} defines neither SCENARIO nor SCENARIOS, as benchmarks.storm.scenario has them")
    return found


def everything() -> dict[str, list[Scenario]]:
    """Return all shipped scenarios by the name of their file."""
    files = sorted(path for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem.replace("_", "-"): load(path) for path in files}


def find(names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios with these names, in this order.

    A name is that of a file of the folder, of a scenario, "standard", "all", or the path of a file.

    Raises:
        NoScenarioError: There is no such scenario.
    """
    shipped = everything()
    flat = [scenario for group in shipped.values() for scenario in group]
    found: list[Scenario] = []
    for name in names:
        if name.endswith(".py"):
            found += load(Path(name))
        elif name in shipped:
            found += shipped[name]
        elif name == STANDARD:
            found += [scenario for scenario in flat if STANDARD in scenario.tags]
        elif name == ALL:
            found += flat
        else:
            same = [scenario for scenario in flat if scenario.name == name]
            if not same:
                known = ", ".join([STANDARD, ALL, *shipped])
                raise NoScenarioError(f"there is no scenario {name!r}; there are {known}, and any path to a .py file")
            found += same
    return list({scenario.name: scenario for scenario in found}.values())
