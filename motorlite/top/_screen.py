"""Shell: draws sections with rich."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from motorlite._base.values import printable
from motorlite.top._model import clients

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from motorlite.top._model import Section, Snapshot, Tone

_STYLES: Final[Mapping[Tone, str]] = {"": "", "good": "green", "bad": "red", "warning": "yellow"}
# Sections that share a line, by title.
_BESIDE: Final = (("operations per second", "phases"), ("retries and errors", "limits"))
# How the two share it.
_WIDTHS: Final = ((3, 2), (2, 3))
# Columns of the terminal below which they do not.
_NARROW: Final = 100


def screen(older: Snapshot | None, newer: Snapshot) -> RenderableType:
    """Return the whole screen."""
    program = f"   {printable(newer['program'])}   pid {newer['pid']}   motorlite {newer['motorlite']}"
    head = Text.assemble(("motorlite top", "bold"), program)
    parts: list[RenderableType] = [head]
    for title, found in clients(older, newer):
        parts += [Text(), Text(printable(title), style="bold cyan")]
        by_title = {section.title: section for section in found}
        for section in found:
            pair = next((pair for pair in _BESIDE if section.title in pair), None)
            if pair is None:
                parts.append(table(section))
            elif section.title == pair[0]:
                parts.append(_Pair(by_title[pair[0]], by_title[pair[1]], _WIDTHS[_BESIDE.index(pair)]))
    if len(parts) == 1:
        parts.append(Text("\nno client has begun an operation yet", style="yellow"))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two sections: beside each other, or on a narrow screen one below the other."""

    left: Section
    right: Section
    widths: tuple[int, int]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width < _NARROW:
            yield table(self.left)
            yield table(self.right)
            return
        grid = Table.grid(expand=True, padding=(0, 2))
        for width in self.widths:
            grid.add_column(ratio=width)
        grid.add_row(table(self.left), table(self.right))
        yield grid


def table(section: Section) -> Table:
    """Return one section."""
    made = Table(
        title=section.title, title_justify="left", title_style="bold", box=None, expand=True, header_style="dim"
    )
    for index, column in enumerate(section.columns):
        is_text = index == 0 or column in section.left
        # Where the columns are too wide for the screen, rich shortens the widest of those whose `no_wrap` is not set.
        # With `no_wrap`, it would shorten all of them, numbers to a digit.
        made.add_column(_cell(column), justify="left" if is_text else "right")
    for row in section.rows:
        made.add_row(*map(_cell, row.cells), style=_STYLES[row.tone])
    if section.left_out:
        made.add_row(Text(f"and {section.left_out} more", style="dim"))
    if not section.rows:
        made.add_row(Text("none", style="dim"))
    return made


def _cell(text: str) -> Text:
    """A text of one line, since brackets in a name would be markup. The terminal would execute control characters."""
    return Text(printable(text), no_wrap=True, overflow="ellipsis")
