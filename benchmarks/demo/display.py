"""Shell: a growing table: redrawn in a terminal, one line per row in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.live import Live

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.demo.tables import Layout, Row


class Display:
    """Shows finished rows and, in a terminal, the current row."""

    def __init__(self, console: Console, layout: Layout) -> None:
        self._console = console
        self._layout = layout
        self._rows: list[Row] = []
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is None:
            self._print(self._layout.head)
        else:
            self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def running(self, row: Row) -> None:
        if self._live is not None:
            self._live.update(self._layout.table([*self._rows, row]), refresh=True)

    def finished(self, row: Row) -> None:
        self._rows.append(row)
        if self._live is None:
            self._print(row.cells)
        else:
            self._live.update(self._layout.table(self._rows), refresh=True)

    def _print(self, cells: tuple[str, ...]) -> None:
        self._console.print(self._layout.line(cells), markup=False)
        self._console.file.flush()
