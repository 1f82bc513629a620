"""Makes the pictures of docs/doctor.md: what the doctor says of a healthy server, and of a wrong password.

python -m scripts.doctor_screens                    # writes docs/assets/doctor-*.svg, with a server on port 27017
"""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from motorlite.doctor._examination import Examination, Wishes
from motorlite.doctor._finding import exit_status
from motorlite.doctor._rendering import Rich
from motorlite.testing import LocalServer

ASSETS: Final = Path(__file__).resolve().parents[1] / "docs" / "assets"
WIDTH: Final = 100
PORT: Final = 27017
# The documentation is to be read offline: no font is fetched.
FORMAT: Final = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace(
    "Fira Code, monospace", "Fira Code, DejaVu Sans Mono, monospace"
)
# Of a character in rich's pictures.
CHARACTER: Final = 12.2
TEXT: Final = re.compile(
    r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*>)((?:&#160;)*)([^<\n]*?)((?:&#160;)*)(?=[<\n])'
)


def picture(name: str, uri: str, shown: str) -> None:
    """Examine a deployment and write what the terminal shows; `shown` is the connection string in the title."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, highlight=False)
    rendering = Rich(console)
    # Without the line of progress, which disappears anyway.
    examination = Examination(rendering.report, wishes=Wishes(2.0))
    asyncio.run(examination.run(uri))
    rendering.end(examination.findings, exit_status(examination.findings))
    svg = console.export_svg(title=f"$ python -m motorlite.doctor '{shown}'", code_format=FORMAT, unique_id=name)
    lines = [line.rstrip() for line in TEXT.sub(_trimmed, svg).splitlines()]
    (ASSETS / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _trimmed(text: re.Match[str]) -> str:
    """Without the spaces around it: some programs show none at the beginning of a text, and would move it."""
    x, y, length, rest, before, content, after = text.groups()
    left, right = (len(spaces) // len("&#160;") * CHARACTER for spaces in (before, after))
    if not content:
        return text.group()
    return f'x="{float(x) + left:.1f}" {y} textLength="{float(length) - left - right:.1f}"{rest}{content}'


def shown(uri: str) -> str:
    """The connection string without its password."""
    return re.sub("//(.*):.*@", r"//\1:…@", uri)


def with_password(uri: str, password: str) -> str:
    """The connection string with another password."""
    return re.sub("//(.*):.*@", rf"//\1:{password}@", uri)


def main() -> None:
    """Make both pictures."""
    with LocalServer.start("standalone", auth=True, own=True, port=PORT) as server:
        picture("doctor-good", server.uri, shown(server.uri))
        picture("doctor-bad", with_password(server.uri, "guess"), shown(server.uri))


if __name__ == "__main__":
    main()
