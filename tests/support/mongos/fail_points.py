"""The fail point `failCommand` of one mongos, as the server has it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.support.mongos.errors import BAD_VALUE, CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIASES: Final = {"ismaster": "isMaster", "findandmodify": "findAndModify"}
_MODES: Final = frozenset({"times", "skip", "activationProbability"})
_DATA: Final = frozenset(
    {
        "appName",
        "blockConnection",
        "blockTimeMS",
        "closeConnection",
        "errorCode",
        "errorLabels",
        "failCommands",
        "failInternalCommands",
        "namespace",
        "writeConcernError",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one command: first it waits, then the connection closes, or an error is answered.

    Attributes:
        block: Seconds.
        error: None: the command is executed.
        write_concern_error: Put into the reply of the command, which is executed.
        labels: Replace those that a server adds itself, unless they are None.
    """

    block: float
    closes: bool
    error: CommandError | None
    write_concern_error: Mapping[str, Any] | None
    labels: list[str] | None


class FailCommand:
    """Its mode and what it does; off at first."""

    def __init__(self) -> None:
        self._data: Mapping[str, Any] | None = None
        self._probability = 1.0
        # How many commands it still lets pass; how many it acts on, or None for all.
        self._skip = 0
        self._left: int | None = None
        self._hits = 0

    def configure(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Set it as a command `configureFailPoint` says, and return the reply.

        Raises:
            CommandError: the command says what the facade does not know.
        """
        mode, data = command["mode"], command.get("data", {})
        if unknown := set(data) - _DATA:
            raise CommandError(BAD_VALUE, f"the facade knows no {sorted(unknown)} of failCommand")
        is_known = mode in ("off", "alwaysOn") if isinstance(mode, str) else set(mode) <= _MODES
        if not is_known:
            raise CommandError(BAD_VALUE, f"unknown mode: {mode}")
        numbers = {} if isinstance(mode, str) else mode
        hits, self._hits = self._hits, 0
        self._data = None if mode == "off" else data
        self._skip, self._left = numbers.get("skip", 0), numbers.get("times")
        self._probability = numbers.get("activationProbability", 1.0)
        return {"count": hits, "ok": 1.0}

    def fault(self, name: str, namespace: str, app_name: str | None) -> Fault | None:
        """What it does to a command; None: nothing."""
        data = self._data
        if data is None or not self._is_meant(data, name, namespace, app_name) or not self._acts():
            return None
        labels = list(data["errorLabels"]) if "errorLabels" in data else None
        error = None
        if "errorCode" in data:
            error = CommandError(data["errorCode"], "Failing command via 'failCommand' failpoint", labels)
        return Fault(
            block=data.get("blockTimeMS", 0) / 1000 if data.get("blockConnection") else 0.0,
            closes=bool(data.get("closeConnection")),
            error=error,
            write_concern_error=data.get("writeConcernError"),
            labels=labels,
        )

    @staticmethod
    def _is_meant(data: Mapping[str, Any], name: str, namespace: str, app_name: str | None) -> bool:
        if data.get("appName", app_name) != app_name or data.get("namespace", namespace) != namespace:
            return False
        commands = {_ALIASES.get(one, one) for one in data["failCommands"]}
        return _ALIASES.get(name, name) in commands

    def _acts(self) -> bool:
        """Whether it acts on a command that it is meant for."""
        if self._skip:
            self._skip -= 1
            return False
        if self._left == 0 or random.random() >= self._probability:
            return False
        if self._left is not None:
            self._left -= 1
        self._hits += 1
        return True
