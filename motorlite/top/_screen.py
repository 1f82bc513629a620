"""Shell: draws sections with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from motorlite._base.values import printable
from motorlite.top._model import clients

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from motorlite.top._model import Section, Snapshot, Tone

_STYLES: Final[Mapping[Tone, str]] = {"": "", "good": "green", "bad": "red", "warning": "yellow"}
# Sections that share a line, by title.
_BESIDE: Final = (("operations per second", "phases"), ("retries and errors", "limits"))
# How the two share it.
_WIDTHS: Final = ((3, 2), (2, 3))


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
                parts.append(_beside(by_title[pair[0]], by_title[pair[1]], _WIDTHS[_BESIDE.index(pair)]))
    if len(parts) == 1:
        parts.append(Text("\nno client has begun an operation yet", style="yellow"))
    return Group(*parts)


def _beside(left: Section, right: Section, widths: tuple[int, int]) -> Table:
    grid = Table.grid(expand=True, padding=(0, 2))
    for width in widths:
        grid.add_column(ratio=width)
    grid.add_row(table(left), table(right))
    return grid


def table(section: Section) -> Table:
    """Return one section."""
    made = Table(
        title=section.title, title_justify="left", title_style="bold", box=None, expand=True, header_style="dim"
    )
    for index, column in enumerate(section.columns):
        is_text = index == 0 or column in section.left
        made.add_column(column, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis")
    for row in section.rows:
        # Texts, since brackets in a name would be markup. The terminal would execute control characters.
        made.add_row(*(Text(printable(cell)) for cell in row.cells), style=_STYLES[row.tone])
    if section.left_out:
        made.add_row(Text(f"and {section.left_out} more", style="dim"))
    if not section.rows:
        made.add_row(Text("none", style="dim"))
    return made
