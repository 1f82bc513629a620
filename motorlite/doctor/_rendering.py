"""Shell: prints findings while an examination goes on: plain text, rich, or JSON at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from motorlite.doctor._finding import TITLES, Severity, Step, exit_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite.doctor._finding import Finding

MARKS: Final[Mapping[Severity, str]] = {
    Severity.OK: "ok",
    Severity.NOTE: "note",
    Severity.WARNING: "warning",
    Severity.ERROR: "ERROR",
}
_COLOURS: Final[Mapping[Severity, str]] = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}


CRASHED: Final = 1
INTERRUPTED: Final = 130
_UNFINISHED: Final[Mapping[int, str]] = {CRASHED: "The doctor crashed", INTERRUPTED: "Interrupted"}


class Rendering(Protocol):
    """Where findings go."""

    def waiting(self, what: str) -> None:
        """Something begins that may take a while."""

    def report(self, finding: Finding) -> None:
        """A finding, as soon as it is there."""

    def end(self, findings: Sequence[Finding], status: int) -> None:
        """The examination has ended; `status`: the exit status of the command."""


def conclusion(findings: Sequence[Finding], status: int) -> str:
    """The last line of a report."""
    if status in _UNFINISHED:
        return f"{_UNFINISHED[status]} before the last step (exit status {status})"
    warnings = sum(each.severity is Severity.WARNING for each in findings)
    also = f"{warnings} warning{'s' * (warnings != 1)}"
    if status:
        return f"The first step that fails: {TITLES[Step(status)]} (exit status {status}; {also})"
    return f"A client with this connection string works ({also})"


class Plain:
    """Text without colours: a line for each finding, and one for what to do."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._heading: tuple[Step, str] | None = None

    def waiting(self, what: str) -> None:
        """Without a terminal there is no progress to show."""

    def report(self, finding: Finding) -> None:
        heading = (finding.step, finding.server)
        if heading != self._heading:
            self._heading = heading
            self._print(f"{TITLES[finding.step]}{': ' * bool(finding.server)}{finding.server}")
        self._print(f"  {MARKS[finding.severity]:<8}{finding.text}")
        if finding.advice:
            self._print(f"  {'':8}-> {finding.advice}")

    def end(self, findings: Sequence[Finding], status: int) -> None:
        self._print(conclusion(findings, status))

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class Json:
    """One document at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def waiting(self, what: str) -> None:
        """Programs wait for the document."""

    def report(self, finding: Finding) -> None:
        """It is in the document."""

    def end(self, findings: Sequence[Finding], status: int) -> None:
        failed = exit_status(findings)
        document = {
            "exit_status": status,
            "failed_step": Step(failed).name.lower() if failed else None,
            "findings": [finding.as_document() for finding in findings],
        }
        print(json.dumps(document, indent=2, default=str), file=self._out)


class Rich:
    """Colours, and a line of progress below, which disappears."""

    def __init__(self, console: Any) -> None:
        from rich.status import Status

        self._console = console
        self._status = Status("", console=console)
        self._heading: tuple[Step, str] | None = None

    def waiting(self, what: str) -> None:
        from rich.markup import escape

        self._status.update(escape(what))
        self._status.start()

    def report(self, finding: Finding) -> None:
        from rich.text import Text

        heading = (finding.step, finding.server)
        if heading != self._heading:
            self._heading = heading
            title = Text(TITLES[finding.step], style="bold")
            self._console.print(title.append(f"  {finding.server}", style="dim") if finding.server else title)
        self._row(Text(MARKS[finding.severity], style=_COLOURS[finding.severity]), Text(finding.text))
        if finding.advice:
            self._row(Text("→", style="bold"), Text(finding.advice, style="bold"))

    def _row(self, mark: Any, text: Any) -> None:
        from rich.table import Table

        # A grid indents what is wrapped.
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=9, justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(mark, text)
        self._console.print(grid)

    def end(self, findings: Sequence[Finding], status: int) -> None:
        from rich.panel import Panel
        from rich.text import Text

        self._status.stop()
        colour = "red" if status else "green"
        self._console.print(Panel(Text(conclusion(findings, status)), border_style=colour, expand=False))


def make_rendering(out: TextIO, *, as_json: bool) -> Rendering:
    """The rendering for an output: JSON if asked for, rich on a terminal if it is installed, or else plain."""
    if as_json:
        return Json(out)
    try:
        from rich.console import Console
    except ImportError:
        return Plain(out)
    console = Console(file=out, highlight=False)
    return Rich(console) if console.is_terminal else Plain(out)
