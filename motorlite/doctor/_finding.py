"""Pure: the steps of an examination, and what it finds in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEALTHY: Final = 0
# Shorter secrets are parts of too many words to be replaced.
_SHORTEST_SECRET: Final = 4
HIDDEN: Final = "***"


class Step(Enum):
    """One step on the way to a server, in the order in which a client takes them. The value is the exit status.

    1 is that of a Python program that crashes, and 2 that of wrong arguments.
    """

    URI = 3
    SRV = 4
    ADDRESS = 5
    TLS = 6
    HELLO = 7
    AUTHENTICATION = 8
    ACCESS = 9
    LATENCY = 10
    LIMITS = 11
    SELECTION = 12


TITLES: Final[Mapping[Step, str]] = {
    Step.URI: "connection string",
    Step.SRV: "SRV and TXT records",
    Step.ADDRESS: "addresses",
    Step.TLS: "TLS",
    Step.HELLO: "hello",
    Step.AUTHENTICATION: "authentication",
    Step.ACCESS: "access",
    Step.LATENCY: "round trips and clock",
    Step.LIMITS: "limits",
    Step.SELECTION: "server selection",
}


class Severity(Enum):
    """How bad a finding is."""

    OK = "ok"
    # Worth knowing, and nothing to do.
    NOTE = "note"
    # It works, but may not do so for long, or not as intended.
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found.

    Attributes:
        step: The step.
        severity: How bad it is.
        text: What was found.
        advice: What to do about it; empty if there is nothing to do.
        server: The server that it is about; empty for the whole deployment.
        facts: Figures for programs.
    """

    step: Step
    severity: Severity
    text: str
    advice: str = ""
    server: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "step": self.step.name.lower(),
            "severity": self.severity.value,
            "server": self.server or None,
            "text": self.text,
            "advice": self.advice or None,
            "facts": dict(self.facts),
        }


def failed(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def exit_status(findings: Iterable[Finding]) -> int:
    """The number of the first step that failed, or 0."""
    return min((each.step.value for each in findings if each.severity is Severity.ERROR), default=HEALTHY)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must not be shown, even if a server repeats it."""

    texts: tuple[str, ...] = field(default=(), repr=False)

    def hide(self, text: str) -> str:
        """Replace every secret in a text."""
        for secret in self.texts:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, HIDDEN)
        return text

    def cleaned(self, finding: Finding) -> Finding:
        """The finding without secrets, and with texts that are safe to print."""
        hidden = self._hidden(finding.facts)
        return Finding(
            finding.step,
            finding.severity,
            printable(self.hide(finding.text)),
            printable(self.hide(finding.advice)),
            self.hide(finding.server),
            hidden,
        )

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {name: self._hidden(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._hidden(each) for each in value]
        return value
