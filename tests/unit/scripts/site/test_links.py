"""Links work in the repository and on the site, or are noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.site.hooks import URL, rewritten
from scripts.site.links import RAW, in_repository, problem, slugs, targets

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
# The first `page`: a title

[one](two.md) and ![a picture](picture.svg), [wrapped
text](two.md#anchor), [`code`](../x.py)

```python
[not](a.link)
```

## Same
## Same
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "package").mkdir()
    for path in ("docs/picture.svg", "package/x.py", "x.py", "CONTRIBUTING.md", "docs/deep/three.md"):
        (tmp_path / path).touch()
    (tmp_path / "docs" / "one.md").write_text(TEXT, encoding="utf-8")
    (tmp_path / "docs" / "two.md").write_text("# Two\n\n## An anchor, with `code` (and more)\n", encoding="utf-8")
    return tmp_path


def test_links_in_code_are_no_links(root: Path) -> None:
    assert targets(TEXT) == ["two.md", "picture.svg", "two.md#anchor", "../x.py"]
    assert rewritten(TEXT, "one.md", root) == TEXT.replace("../x.py", f"{URL}/blob/main/x.py")
    assert slugs(TEXT) == {"the-first-page-a-title", "same", "same-1"}


@pytest.mark.parametrize(
    ("page", "target", "found"),
    [
        ("one.md", "two.md", "two.md"),
        ("one.md", "two.md#an-anchor-with-code-and-more", "two.md#an-anchor-with-code-and-more"),
        ("one.md", "#same-1", "#same-1"),
        ("one.md", "deep/three.md", "deep/three.md"),
        ("deep/three.md", "../two.md", "../two.md"),
        ("deep/three.md", "../../package/x.py", f"{URL}/blob/main/package/x.py"),
        ("one.md", "../package", f"{URL}/tree/main/package"),
        ("one.md", "../CONTRIBUTING.md", "contributing.md"),
        ("deep/three.md", "../../CONTRIBUTING.md#a", "../contributing.md#a"),
        ("contributing.md", "docs/two.md", "two.md"),
        ("one.md", f"{URL}/issues", f"{URL}/issues"),
        ("one.md", "https://example.com/a#b", "https://example.com/a#b"),
        ("one.md", "mailto:ada@example.com", "mailto:ada@example.com"),
        # MkDocs warns of these.
        ("one.md", "three.md", "three.md"),
        ("one.md", "../../elsewhere", "../../elsewhere"),
    ],
)
def test_links_on_the_site(root: Path, page: str, target: str, found: str) -> None:
    text = "A [link]({}) and ![one]({}).\n\n   ````text\n[link]({})\n   ````\n"
    assert rewritten(text.replace("{}", target), page, root) == text.format(found, found, target)


@pytest.mark.parametrize(
    ("page", "target", "message"),
    [
        ("docs/one.md", "two.md#an-anchor-with-code-and-more", ""),
        ("docs/one.md", "#same-1", ""),
        ("docs/one.md", "three.md", "leads to nothing"),
        ("docs/one.md", "../../elsewhere", "leads to nothing"),
        ("docs/one.md", "two.md#anchor", "leads to no heading"),
        ("docs/one.md", "#anchor", "leads to no heading"),
    ],
)
def test_dead_links(root: Path, page: str, target: str, message: str) -> None:
    assert problem(page, target, root).endswith(message)
    assert bool(problem(page, target, root)) is bool(message)


def test_a_picture_by_its_raw_address_is_a_file_of_the_repository() -> None:
    assert in_repository(f"{RAW}docs/picture.svg") == in_repository(f"{URL}/blob/main/docs/picture.svg")
    assert in_repository("https://example.com/docs/picture.svg") is None
