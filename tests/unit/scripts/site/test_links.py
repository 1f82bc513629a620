"""Links work in the repository and on the site, or are noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.site import links
from scripts.site.links import DeadLinkError, for_site, repository_url, resolve, rewritten, slugs, targets

if TYPE_CHECKING:
    from pathlib import Path

URL = repository_url()

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
    for path in ("docs/picture.svg", "package/x.py", "CONTRIBUTING.md", "docs/deep/three.md"):
        (tmp_path / path).touch()
    (tmp_path / "docs" / "one.md").write_text(TEXT, encoding="utf-8")
    (tmp_path / "docs" / "two.md").write_text("# Two\n\n## An anchor, with `code` (and more)\n", encoding="utf-8")
    return tmp_path


def test_links_in_code_are_no_links() -> None:
    assert targets(TEXT) == ["two.md", "picture.svg", "two.md#anchor", "../x.py"]


def test_only_targets_are_changed() -> None:
    text = rewritten(TEXT, lambda target: target.upper())
    assert text.lower() == TEXT.lower()
    assert "[wrapped\ntext](TWO.MD#ANCHOR)" in text
    assert "[not](a.link)" in text


def test_slugs() -> None:
    assert slugs(TEXT) == {"the-first-page-a-title", "same", "same-1"}


@pytest.mark.parametrize(
    ("page", "target", "found"),
    [
        ("docs/one.md", "two.md", "two.md"),
        ("docs/one.md", "two.md#an-anchor-with-code-and-more", "two.md#an-anchor-with-code-and-more"),
        ("docs/one.md", "#same-1", "#same-1"),
        ("docs/one.md", "deep/three.md", "deep/three.md"),
        ("docs/deep/three.md", "../two.md", "../two.md"),
        ("docs/deep/three.md", "../../package/x.py", f"{URL}/blob/main/package/x.py"),
        ("docs/one.md", "../package", f"{URL}/tree/main/package"),
        ("docs/one.md", "../CONTRIBUTING.md", "contributing.md"),
        ("CONTRIBUTING.md", "docs/two.md", "two.md"),
        ("CONTRIBUTING.md", f"{URL}/blob/main/docs/two.md#two", "two.md#two"),
        ("docs/deep/three.md", f"{URL}/blob/main/docs/two.md", "../two.md"),
        ("docs/one.md", f"{URL}/issues", f"{URL}/issues"),
        ("docs/one.md", "https://example.com/a#b", "https://example.com/a#b"),
        ("docs/one.md", "mailto:ada@example.com", "mailto:ada@example.com"),
    ],
)
def test_links_on_the_site(root: Path, page: str, target: str, found: str) -> None:
    assert for_site(page, target, root) == found


@pytest.mark.parametrize(
    ("page", "target", "message"),
    [
        ("docs/one.md", "three.md", "leads to nothing"),
        ("docs/one.md", "../../elsewhere", "leads to nothing"),
        ("docs/one.md", "two.md#anchor", "leads to no heading"),
        ("docs/one.md", "#anchor", "leads to no heading"),
        ("docs/one.md", f"{URL}/blob/main/docs/four.md", "leads to nothing"),
    ],
)
def test_dead_links(root: Path, page: str, target: str, message: str) -> None:
    with pytest.raises(DeadLinkError, match=message):
        for_site(page, target, root)


def test_a_picture_by_its_raw_address_is_a_file_of_the_repository(root: Path) -> None:
    path = links.in_repository(links.raw_url("docs/picture.svg"))
    assert path == "docs/picture.svg"
    assert resolve("README.md", path, root) == path
