"""Shell: matplotlib figures, and the SVG that is made of them."""

from __future__ import annotations

import functools
import importlib
import io
import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.plots import palette

if TYPE_CHECKING:
    from pathlib import Path

INK: Final = "#1b1d21"
FAINT: Final = "#8a8f98"
GRID: Final = "#d9dce1"
PAPER: Final = "#fefefe"
SHADE: Final = "#f3e3c3"
# What a page sets for light and dark. In a file of its own the plot has the colours above.
VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
    PAPER: "--paper",
    SHADE: "--shade",
    palette.BLUE: "--blue",
    palette.GREEN: "--green",
    palette.VERMILION: "--vermilion",
}
SVG: Final = "{http://www.w3.org/2000/svg}"
XLINK: Final = "{http://www.w3.org/1999/xlink}"
STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "storm",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.facecolor": "none",
    "path.simplify_threshold": 0.3,
    "hatch.linewidth": 0.7,
    "hatch.color": FAINT,
}
_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}")


@functools.cache
def library() -> Any:
    """`matplotlib.pyplot`, with the style of these plots, without a display.

    Raises:
        ImportError: matplotlib is not installed; it is in the extra `bench`.
    """
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    return importlib.import_module("matplotlib.pyplot")


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of so many inches, and its axes as an array of rows."""
    made, axes = library().subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
    )
    return made, axes


def round_numbers(most: int) -> Any:
    """Ticks at round numbers."""
    library()
    return importlib.import_module("matplotlib.ticker").MaxNLocator(most, steps=[1, 2, 5, 10])


def powers(between: tuple[float, ...]) -> Any:
    """Ticks at powers of ten times some numbers."""
    library()
    return importlib.import_module("matplotlib.ticker").LogLocator(subs=(1.0, *between))


def render(made: Any) -> str:
    """The figure as SVG in its own colours; the figure is then closed."""
    stream = io.StringIO()
    # No date and no version: the same figure makes the same text.
    made.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    library().close(made)
    return stream.getvalue()


def inline(svg: str, name: str, description: str) -> str:
    """The same as an element of an HTML page.

    Args:
        svg: From `render`.
        name: Unique in the page: all identifiers begin with it.
        description: For readers who do not see the plot.
    """
    root = ElementTree.fromstring(svg)
    for child in list(root):
        if child.tag == f"{SVG}metadata":
            root.remove(child)
    title = ElementTree.Element(f"{SVG}title")
    title.text = description
    root.insert(0, title)
    kept = set(re.findall(r"#([\w.-]+)", svg))
    for element in root.iter():
        _clean(element, name, kept)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib.update({"role": "img", "class": "plot"})
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: Any, name: str, kept: set[str]) -> None:
    """Without namespaces, with unique identifiers, short numbers, and colours that the page may change."""
    element.tag = element.tag.removeprefix(SVG)
    for key, value in list(element.attrib.items()):
        del element.attrib[key]
        if key == "id":
            if value in kept:
                element.attrib[key] = f"{name}-{value}"
            continue
        text = value.replace("url(#", f"url(#{name}-")
        if key == f"{XLINK}href":
            key, text = "href", text.replace("#", f"#{name}-", 1)
        if key in ("d", "x", "y", "transform", "points"):
            text = " ".join(_NUMBER.sub(_shorter, text).split())
        if key in ("style", "fill", "stroke"):
            for colour, variable in VARIABLES.items():
                text = text.replace(colour, f"var({variable})")
            text = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", text)
            text = re.sub(r"font: bold ([\d.]+px) [^;]*|font: 700 ([\d.]+px) [^;]*", _bold, text)
            text = re.sub(r"stroke-linecap: [a-z]+; ?|stroke-linejoin: [a-z]+; ?", "", text)
        element.attrib[key] = text


def _shorter(match: re.Match[str]) -> str:
    return f"{float(match.group()):.1f}".removesuffix(".0")


def _bold(match: re.Match[str]) -> str:
    return f"font-weight: 700; font-size: {match.group(1) or match.group(2)}"


def write(made: Any, path: Path) -> None:
    """The figure as a file of its own, on white."""
    made.set_facecolor("#ffffff")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = render(made)
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
